"""What a batch costs an online model: beside fitting anew, beside its matrix products, and as rows go by.

    python benchmarks/online.py [--features 1000] [--tasks 1000] [--rows 100000] [--batch 1000] [--updates 100]

An update learns a batch and reads the coefficients. It is timed in turns with fitting all rows anew
and with the matrix products that it cannot do without, so that the state of the machine touches all
alike. Where dask is installed, fitting on a cluster of two processes with one thread each is timed
in turns with fitting here with two threads; the rows lie in the memory of whoever computes.
"""

from __future__ import annotations

import argparse
import sys
from importlib.util import find_spec

import numpy as np
from measuring import THREADS, in_turns, row, seconds, versions
from scipy.stats import linregress
from threadpoolctl import threadpool_limits

from dyadlearn import OnlineTwoStepRidge

TARGET_SPEEDUP = 20.0
TARGET_SHARE = 0.5
TARGET_CLUSTER = 0.8


class Stream:
    """Rows to learn, and a model that has learnt them."""

    def __init__(self, n_features: int, n_tasks: int, n_rows: int, batch: int) -> None:
        rng = np.random.default_rng(0)
        self.X, self.Y = (
            rng.standard_normal((n_rows, n_features)),
            rng.standard_normal((n_rows, n_tasks)),
        )
        self.tasks = rng.standard_normal((n_tasks, n_features))
        self.new_X, self.new_Y = (
            rng.standard_normal((batch, n_features)),
            rng.standard_normal((batch, n_tasks)),
        )
        self.model = self.fitted()

    def fitted(self) -> OnlineTwoStepRidge:
        """Fit all rows and read the coefficients."""
        model = OnlineTwoStepRidge().fit(self.X, self.Y, tasks=self.tasks)
        assert model.coef_.shape == (self.X.shape[1], self.tasks.shape[1])
        return model

    def update(self) -> None:
        """Learn a batch and read the coefficients."""
        self.model.partial_fit(self.new_X, self.new_Y)
        assert np.isfinite(self.model.coef_[0, 0])

    def products(self) -> None:
        """Multiply what an update multiplies: the statistics of a batch, and two inverses with the right-hand side."""
        X = self.new_X
        Y = self.new_Y
        tasks = self.tasks
        gram = X.T @ X
        cross = X.T @ (Y @ tasks)
        gram @ cross
        cross @ gram.T


def measure_update(stream: Stream, repeats: int) -> tuple[float, float]:
    """Return how many times faster an update is than fitting anew, and the share of its time that products take."""
    update, fit, products = in_turns(stream.update, stream.fitted, stream.products, repeats=repeats)
    return fit / update, products / update


def measure_slope(stream: Stream, updates: int) -> tuple[float, float]:
    """Return by how much of the median an update grows over all `updates`, and the standard error of that."""
    times = np.array([seconds(stream.update) for _ in range(updates)])
    # The machine pauses now and then; a slope is of what most updates do.
    usual = times <= np.quantile(times, 0.9)
    line = linregress(np.arange(updates)[usual] / updates, times[usual] / np.median(times))
    return float(line.slope), float(line.stderr)


def measure_cluster(n_features: int, n_tasks: int, n_rows: int, repeats: int) -> float:
    """Return the speed of fitting on a cluster of two processes, in units of that of fitting here."""
    import dask.array as da
    from dask.distributed import Client, LocalCluster, wait

    from dyadlearn import distributed

    tasks = np.random.default_rng(0).standard_normal((n_tasks, n_features))
    draw = da.random.default_rng(0).standard_normal
    with (
        LocalCluster(n_workers=THREADS, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        blocks = client.persist(
            [draw((n_rows, width), chunks=(n_rows // 8, width)) for width in (n_features, n_tasks)]
        )
        wait(blocks)
        X, Y = client.compute(blocks, sync=True)

        def there() -> np.ndarray:
            return distributed.fit(OnlineTwoStepRidge(), *blocks, tasks=tasks).coef_

        def here() -> np.ndarray:
            return OnlineTwoStepRidge().fit(X, Y, tasks=tasks).coef_

        np.testing.assert_allclose(there(), here(), rtol=1e-6, atol=1e-10)
        on_cluster, alone = in_turns(there, here, repeats=repeats)
    return alone / on_cluster


def main() -> int:
    """Measure, print, and return 1 where a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--features",
        type=int,
        default=1000,
        help="features of instances and of tasks (default: 1000)",
    )
    parser.add_argument("--tasks", type=int, default=1000, help="tasks (default: 1000)")
    parser.add_argument(
        "--rows", type=int, default=100_000, help="rows of the model that is fitted anew"
    )
    parser.add_argument("--batch", type=int, default=1000, help="rows of an update (default: 1000)")
    parser.add_argument(
        "--updates", type=int, default=100, help="updates to look for growth in (default: 100)"
    )
    parser.add_argument("--repeats", type=int, default=5, help="interleaved repeats (default: 5)")
    parser.add_argument(
        "--cluster-rows", type=int, default=40_000, help="rows to fit on a cluster (default: 40000)"
    )
    arguments = parser.parse_args()
    with threadpool_limits(THREADS):
        stream = Stream(arguments.features, arguments.tasks, arguments.rows, arguments.batch)
        speedup, share = measure_update(stream, arguments.repeats)
        slope, error = measure_slope(stream, arguments.updates)
        sizes = arguments.features, arguments.tasks, arguments.cluster_rows
        has_dask = find_spec("distributed") is not None
        if has_dask:
            cluster = measure_cluster(*sizes, arguments.repeats)
        else:
            cluster = float("nan")
    print(
        f"OnlineTwoStepRidge, d = r = {arguments.features}, q = {arguments.tasks}, batches of "
        f"{arguments.batch} rows, "
        "coefficients read after each"
    )
    print(
        row(
            f"faster than fitting {arguments.rows} rows anew",
            speedup,
            f"target >= {TARGET_SPEEDUP:g}",
        )
    )
    print(row("share of the time in matrix products", share, f"target >= {TARGET_SHARE:g}"))
    print(
        row(
            f"growth of an update over {arguments.updates} of them, of its median",
            slope,
            f"± {error:.2f}, target 0",
        )
    )
    name = f"fitting {arguments.cluster_rows} rows: speed of {THREADS} dask workers beside {THREADS} threads"
    print(row(name, cluster, f"target >= {TARGET_CLUSTER:g}"))
    print(versions())
    missed = speedup < TARGET_SPEEDUP or share < TARGET_SHARE or slope > max(3 * error, 0.05)
    return int(missed or cluster < TARGET_CLUSTER)


if __name__ == "__main__":
    sys.exit(main())
