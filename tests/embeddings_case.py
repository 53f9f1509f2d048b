"""Files of the same features in every format and layout that is read."""

import numpy as np

N = 40
D = 3
IDS = [f"p{row}" for row in range(N)]
VALUES = np.random.default_rng(0).normal(size=(N, D))
#: Who is asked for: in another order than that of the file, and in several of its blocks.
ASKED = ["p31", "p2", "p30", "p17"]
PLACES = [31, 2, 30, 17]


def npy(path, values=VALUES):
    np.save(path, values)
    path.with_suffix(".ids.txt").write_text("\n".join(IDS[: len(values)]) + "\n\n")


def npy_by_columns(path):
    npy(path, np.asfortranarray(VALUES))


def npz(path, values=VALUES):
    np.savez(path, embeddings=values, ids=np.array(IDS))


def npz_packed(path):
    np.savez_compressed(path, values=VALUES, index=np.array(IDS, dtype="S"))


def npz_one_each(path):
    np.savez(path, **dict(zip(IDS, VALUES, strict=True)))


def npz_one_each_packed(path):
    np.savez_compressed(path, **dict(zip(IDS, VALUES, strict=True)))


def h5(path, values=VALUES):
    import h5py

    with h5py.File(path, "w") as file:
        file.create_dataset(
            "embeddings", data=values, chunks=(7, 2), compression="gzip", fletcher32=True
        )
        file["ids"] = IDS


def h5_plain(path):
    import h5py

    with h5py.File(path, "w") as file:
        file["group/embeddings"] = VALUES
        file["group/rows"] = np.array(IDS, dtype="S")


def h5_one_each(path, values=VALUES):
    import h5py

    with h5py.File(path, "w") as file:
        for name, vector in zip(IDS, values, strict=True):
            file.create_dataset(name, data=vector, chunks=vector.shape, fletcher32=True)


def h5_numbered(path):
    import h5py

    with h5py.File(path, "w") as file:
        for place, (name, vector) in enumerate(zip(IDS, VALUES, strict=True)):
            file[f"{place}"] = vector
            file[f"{place}"].attrs["original_id"] = name


def parquet(path, values=VALUES):
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns = {f"f{place}": column for place, column in enumerate(values.T)}
    pq.write_table(pa.table({**columns, "protein": IDS}), path, row_group_size=7)


def vectors(kind):
    import pyarrow as pa

    return pa.table(
        {
            "protein": IDS,
            "length": range(N),
            "embedding": pa.array([row.tolist() for row in VALUES], kind(pa)),
        }
    )


def parquet_vectors(path):
    import pyarrow.parquet as pq

    pq.write_table(vectors(lambda pa: pa.list_(pa.float64())), path, row_group_size=7)


def parquet_fixed(path):
    import pyarrow.parquet as pq

    pq.write_table(vectors(lambda pa: pa.list_(pa.float64(), D)), path, row_group_size=7)


def text(path):
    lines = [
        ",".join([name, *map(repr, row)]) for name, row in zip(IDS, VALUES.tolist(), strict=True)
    ]
    path.write_text("\n".join(["id,a,b,c", *lines]))


#: How each is written, by a name whose ending is that of the file.
WRITERS = {
    "mapped.npy": npy,
    "by_columns.npy": npy_by_columns,
    "matrix.npz": npz,
    "packed.npz": npz_packed,
    "one_each.npz": npz_one_each,
    "one_each_packed.npz": npz_one_each_packed,
    "matrix.h5": h5,
    "plain.hdf5": h5_plain,
    "one_each.h5": h5_one_each,
    "numbered.h5": h5_numbered,
    "numbers.parquet": parquet,
    "vectors.parquet": parquet_vectors,
    "fixed.parquet": parquet_fixed,
    "text.csv": text,
}
