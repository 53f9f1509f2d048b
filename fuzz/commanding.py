"""Hostile tables through the command line: documented exit codes, one sentence, nothing half-written or misread."""

from __future__ import annotations

import csv
import gzip
import inspect
import io
import json
import os
import re
import tempfile
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse
from campaign import Case, RefusedError, WrongAnswerError, generator
from storing import forge, tiny_models
from typer.testing import CliRunner

from dyadlearn.cli import app

__all__: list[str] = []

# Before click 8.2 both streams come as one unless it is said otherwise.
RUNNER = CliRunner(
    **({"mix_stderr": False} if "mix_stderr" in inspect.signature(CliRunner).parameters else {})
)

# As the documentation of the command line has them; 1 is a bug by definition.
CODES = {
    "tune": {0, 2, 4},
    "predict": {0, 2, 4},
    "update": {0, 2, 4},
    "inspect": {0, 3},
    "evaluate": {0, 2, 3, 4},
}
MISSING = {"", "na", "n/a", "nan", "null", "none", "?"}
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
HOSTILE = (
    "", " ", "NA", "?", "null", "-", "x", "1,5", "1_000", "1e999", "-inf", "nan", "inf", "0x10", "1e-400", "--1", "1 2",
    "=cmd()", "+1", "1.", ".5", "1e5", '"', "a\nb", "a\rb", "é", "\u2028", "\x1b[31m", "a" * 300, "TRUE", "1e", "１",
    "0", "-0", "1e308", "\ufeff1", "2026-01-01", "[1]", "a,b", "\t", ";", "'", "#", "NaN ", " 1 ", "1\u00a0",
)  # fmt: skip


@dataclass
class Ran:
    """How a command ended."""

    code: int
    out: str
    err: str


def command(name: str, *arguments: object) -> Ran:
    """Run a command within this process and check how it behaves, whatever it says."""
    invoked = RUNNER.invoke(app, [name, *map(str, arguments)])
    if invoked.exception is not None and not isinstance(invoked.exception, SystemExit):
        raise invoked.exception
    ran = Ran(int(invoked.exit_code), invoked.stdout, invoked.stderr)
    if ran.code not in CODES[name]:
        raise WrongAnswerError(f"{name} ended with {ran.code}: {(ran.err or ran.out)[-200:]!r}")
    if "Traceback" in ran.err:
        raise WrongAnswerError(f"{name} shows a traceback: {ran.err[-300:]!r}")
    last = ran.err.strip().split("\n")[-1]
    if ran.code and not last.startswith("dyadlearn: "):
        raise WrongAnswerError(f"{name} ended with {ran.code} and said {ran.err[-200:]!r}")
    if "\x1b" in ran.err + ran.out:
        raise WrongAnswerError(
            f"{name} sends control characters to the terminal: {(ran.err + ran.out)[-200:]!r}"
        )
    return ran


@dataclass
class Grid:
    """A table of text: headings (a corner first) and lines (an id first)."""

    headings: list[str]
    lines: list[list[str]]

    def text(self, delimiter: str) -> str:
        """Write the table."""
        file = io.StringIO()
        writer = csv.writer(file, delimiter=delimiter, lineterminator="\n")
        writer.writerows([self.headings, *self.lines])
        return file.getvalue()


def _numbers(case: Case, rows: list[str], columns: list[str], digits: int = 2) -> Grid:
    values = np.round(case.rng.standard_normal((len(rows), len(columns))), digits)
    return Grid(
        ["id", *columns],
        [[row, *map(str, line)] for row, line in zip(rows, values.tolist(), strict=True)],
    )


def _mutate(case: Case, grid: Grid) -> None:
    """Change one thing in a table of text."""
    rng = case.rng
    row = int(rng.integers(len(grid.lines)))
    column = int(rng.integers(len(grid.headings)))
    kind = str(case.pick("cell", "cell", "cell", "cell", "id", "heading", "repeat id", "repeat heading", "drop",
                         "double", "short", "long", "comma", "shuffle"))  # fmt: skip
    word = str(case.pick(*HOSTILE))
    case.what += f" {kind}"
    if kind in ("cell", "id", "heading"):
        case.what += f" {word[:20]!r}"
    if kind == "cell" and len(grid.lines[row]) > 1:
        grid.lines[row][int(rng.integers(1, len(grid.lines[row])))] = word
    elif kind == "id":
        grid.lines[row][0] = word
    elif kind == "heading":
        grid.headings[column] = word
    elif kind == "repeat id":
        grid.lines[row][0] = grid.lines[int(rng.integers(len(grid.lines)))][0]
    elif kind == "repeat heading":
        grid.headings[column] = grid.headings[int(rng.integers(len(grid.headings)))]
    elif kind == "drop" and len(grid.lines) > 1:
        del grid.lines[row]
    elif kind == "double":
        grid.lines.append(list(grid.lines[row]))
    elif kind == "short":
        grid.lines[row] = grid.lines[row][:-1] or [""]
    elif kind == "long":
        grid.lines[row] = [*grid.lines[row], word]
    elif kind == "comma":
        grid.headings.append("")
        for line in grid.lines:
            line.append("")
    elif kind == "shuffle":
        grid.lines = [grid.lines[int(place)] for place in rng.permutation(len(grid.lines))]


def _spoil(case: Case, content: bytes) -> bytes:
    """Change bytes of a file, as a bad disk or another program would."""
    rng = case.rng
    kind = str(
        case.pick(
            "bytes",
            "cut",
            "nul",
            "latin",
            "utf16",
            "bom",
            "crlf",
            "cr",
            "quote",
            "empty",
            "blank lines",
        )
    )
    case.what += f" {kind}"
    place = int(rng.integers(max(len(content), 1)))
    if kind == "bytes":
        return content[:place] + bytes([int(rng.integers(256))]) + content[place + 1 :]
    if kind == "cut":
        return content[:place]
    if kind == "nul":
        return content[:place] + b"\x00" + content[place:]
    if kind == "latin":
        return content[:place] + b"\xe9" + content[place:]
    if kind == "utf16":
        return content.decode("utf-8", "replace").encode("utf-16")
    if kind == "bom":
        return b"\xef\xbb\xbf" + content
    if kind == "crlf":
        return content.replace(b"\n", b"\r\n")
    if kind == "cr":
        return content.replace(b"\n", b"\r")
    if kind == "quote":
        return content[:place] + b'"' + content[place:]
    return b"" if kind == "empty" else content.replace(b"\n", b"\n\n")


def _write(case: Case, folder: Path, name: str, grid: Grid, damaged: float) -> Path:
    """Write a table as one of the kinds of file, perhaps damaged."""
    delimiter, ending = case.pick((",", ".csv"), (",", ".csv"), ("\t", ".tsv"), (";", ".csv"))
    content = grid.text(delimiter).encode()
    if case.chance(damaged):
        content = _spoil(case, content)
    if case.chance(0.15):
        content = gzip.compress(content, mtime=0)
        ending = ending + ".gz"
        if damaged > 0 and case.chance(0.5):
            case.what += " damaged gz"
            place = int(case.rng.integers(len(content)))
            content = (
                content[:place]
                + bytes([content[place] ^ 1 << int(case.rng.integers(8))])
                + content[place + 1 :]
            )
    path = folder / (name + ending)
    path.write_bytes(content)
    return path


def _read(grid: Grid) -> tuple[list[str], list[str], list[float]] | str | None:
    """Read a grid of labels strictly: ids, tasks and the labels that are there, or what is wrong; None if unsure."""
    width = len(grid.headings)
    ids = [line[0].strip() for line in grid.lines]
    tasks = [heading.strip() for heading in grid.headings[1:]]
    if any(len(line) != width for line in grid.lines):
        if not all(len(line) == width + 1 for line in grid.lines):
            return "ragged lines"
        return None
    if (
        "" in ids
        or "" in tasks
        or any(set(word) & set('\r\n\u2028\x1b"\ufeff') for word in ids + tasks)
    ):
        return None
    if len(set(ids)) < len(ids):
        return "an id that repeats"
    if len(set(tasks)) < len(tasks):
        return "a task that repeats"
    values = []
    for line in grid.lines:
        for cell in line[1:]:
            if cell.strip().lower() in MISSING:
                continue
            if not cell.isascii():
                return None
            if not NUMBER.fullmatch(cell.strip()):
                return f"the cell {cell[:20]!r}"
            values.append(float(cell))
            if np.isinf(values[-1]):
                return f"the cell {cell[:20]!r}"
    return ids, tasks, values


@generator
def tables(case: Case) -> None:
    """Grids, features and new instances with hostile cells, ids and bytes, through tune, inspect and predict."""
    rng = case.rng
    m = int(rng.integers(2, 9))
    q = int(rng.integers(1, 5))
    instances = [f"i{number}" for number in range(m)]
    tasks = [f"t{number}" for number in range(q)]
    if case.chance(0.15):
        instances = [str(number) for number in range(m)]
    labels = _numbers(case, instances, tasks, int(case.pick(0, 2)))
    rows = _numbers(case, instances, ["u", "v"])
    columns = _numbers(case, tasks, ["w"])
    is_long = case.chance(0.25)
    if is_long:
        labels = _listed(case, labels)
    mutated = str(case.pick("labels", "labels", "instances", "tasks", "none"))
    grids = {"labels": labels, "instances": rows, "tasks": columns}
    case.what = f"{m}×{q}{' long' if is_long else ''}, {mutated}:"
    for _ in range(int(rng.integers(1, 3)) if mutated != "none" else 0):
        _mutate(case, grids[mutated])
    bytes_too = case.chance(0.2)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        paths = {
            key: _write(case, folder, key, grid, 1.0 if bytes_too and key == mutated else 0.0)
            for key, grid in grids.items()
        }
        model = folder / "model.dyad"
        kind = str(case.pick("two-step", "kronecker", "independent", "online"))
        arguments = [
            paths["labels"],
            "--instances",
            paths["instances"],
            "--model",
            kind,
            "--alphas",
            "0.1,1",
        ]
        arguments += ["--scoring", "neg_mean_squared_error"]
        if kind != "independent":
            arguments += ["--tasks", paths["tasks"]]
        if case.chance(0.2):
            arguments += ["--format", str(case.pick("grid", "long"))]
        before = {entry.name for entry in folder.iterdir()}
        ran = command("tune", *arguments, "-o", model, "-q")
        left = {entry.name for entry in folder.iterdir()} - before
        if left != ({"model.dyad"} if ran.code == 0 else set()):
            raise WrongAnswerError(f"tune ended with {ran.code} and left {sorted(left)}")
        if ran.code:
            # A list of one task, of which nothing else is said, might be a grid with a fault: there
            # the command asks.
            asks = is_long and q == 1 and "--tasks" not in arguments
            if mutated == "none" and "--format" not in arguments and kind != "online" and not asks:
                raise WrongAnswerError(f"tune refused good tables: {ran.err.strip()}")
            raise RefusedError(f"exit code {ran.code}")
        if not bytes_too:
            read = (_read_long if is_long or "long" in arguments else _read)(labels)
            _check_labels(read, json.loads(command("inspect", model, "--json").out))
        _check_new(case, folder, model, rows)


def _listed(case: Case, labels: Grid) -> Grid:
    """Return the cells of a grid as a long table, in any order, one of them perhaps twice."""
    lines = [
        [line[0], task, cell]
        for line in labels.lines
        for task, cell in zip(labels.headings[1:], line[1:], strict=True)
    ]
    if case.chance(0.3):
        lines.append(list(lines[0]))
    return Grid(
        ["instance", "task", "value"],
        [lines[int(place)] for place in case.rng.permutation(len(lines))],
    )


def _read_long(grid: Grid) -> tuple[list[str], list[str], list[float]] | str | None:
    """Read a long table strictly, as `_read` does a grid."""
    cells: dict[tuple[str, str], list[float]] = {}
    if len(grid.headings) != 3 or any(len(line) != 3 for line in grid.lines):
        return None
    for instance, task, cell in grid.lines:
        pair = instance.strip(), task.strip()
        if any(
            word.lower() in MISSING or set(word) & set('\r\n\u2028\x1b"\ufeff') for word in pair
        ):
            return None
        if cell.strip().lower() in MISSING:
            continue
        if not cell.isascii():
            return None
        if not NUMBER.fullmatch(cell.strip()) or np.isinf(float(cell)):
            return f"the cell {cell[:20]!r}"
        cells.setdefault(pair, []).append(float(cell))
    values = [float(np.mean(repeated)) for repeated in cells.values()]
    return sorted({i for i, _ in cells}), sorted({t for _, t in cells}), values


def _check_labels(
    read: tuple[list[str], list[str], list[float]] | str | None, told: dict[str, Any]
) -> None:
    """Compare what a model says of its labels with a strict reading of their table."""
    if read is None or told["model"] == "OnlineTwoStepRidge":
        return
    if isinstance(read, str):
        raise WrongAnswerError(
            f"{read} in the labels was taken: {told['instances']} × {told['tasks']} labels"
        )
    ids, tasks, values = read
    counted = (told["instances"], told["tasks"], told["observed"])
    if counted != (len(ids), len(tasks), len(values)):
        raise WrongAnswerError(
            f"{counted} instances, tasks and labels, expected {(len(ids), len(tasks), len(values))}"
        )
    mean = float(np.mean(values))
    if not abs(told["mean_label"] - mean) <= 1e-9 * max(1.0, float(np.abs(values).max())):
        raise WrongAnswerError(f"mean label {told['mean_label']}, expected {mean}")


def _check_new(case: Case, folder: Path, model: Path, rows: Grid) -> None:
    """Predict for new instances from a hostile table, and read what was written."""
    new = _numbers(
        case, [f"n{number}" for number in range(int(case.rng.integers(1, 4)))], rows.headings[1:]
    )
    if case.chance(0.6):
        _mutate(case, new)
    path = _write(case, folder, "new", new, 0.1)
    output = folder / "predicted.csv"
    ran = command("predict", model, "--instances", path, "-o", output, "-q")
    if ran.code:
        if output.exists():
            raise WrongAnswerError(f"predict ended with {ran.code} and left its output")
        raise RefusedError(f"exit code {ran.code} of predict")
    with output.open(newline="", encoding="utf-8") as file:
        written = list(csv.reader(file))
    if len(written) != len(new.lines) + 1 and path.suffix == ".csv" and "bytes" not in case.what:
        raise WrongAnswerError(f"{len(written) - 1} predictions for {len(new.lines)} new instances")
    if any(len(line) != len(written[0]) for line in written):
        raise WrongAnswerError("the predictions are no table")


@generator
def sparse_files(case: Case) -> None:
    """Sparse and dense arrays in npz with bad indices, shapes, names and dtypes, in a process of their own."""
    if not hasattr(os, "fork"):
        raise RefusedError("no fork on this system")
    rng = case.rng
    m = int(rng.integers(2, 8))
    d = int(rng.integers(1, 6))
    matrix = scipy.sparse.random_array(
        (m, d), density=0.5, rng=rng, format=str(case.pick("csr", "csc", "coo"))
    )
    file = io.BytesIO()
    scipy.sparse.save_npz(file, matrix)
    arrays: dict[str, Any] = dict(np.load(io.BytesIO(file.getvalue())))
    name = str(case.pick(*arrays))
    kind = str(case.pick("indices", "indptr", "shape", "dtype", "delete", "longer", "good"))
    case.what = f"{matrix.format} {m}×{d}, {kind} {name}"
    key = {"indices": "indices", "indptr": "indptr"}.get(kind, name)
    if kind in ("indices", "indptr") and key in arrays and arrays[key].size:
        changed = arrays[key].copy()
        value = int(case.pick(-1, -(2**31), d, 10**6, 2**31 - 1, 0, 1))
        changed[int(rng.integers(changed.size))] = value
        arrays[key] = changed
        case.what += f" {value}"
    elif kind == "shape":
        arrays["shape"] = np.array(
            case.pick((m + 5, d), (m, 0), (-1, d), (m, 2**40), (2**40, d), (m,), (m, d, 1))
        )
    elif kind == "dtype":
        dtype = str(case.pick("float32", "complex128", "U8", "bool", "int8"))
        arrays[name] = arrays[name].astype("U8" if arrays[name].dtype.kind == "S" else dtype)
    elif kind == "delete":
        del arrays[name]
    elif kind == "longer":
        arrays[name] = np.concatenate([np.ravel(arrays[name])] * 2)
    with tempfile.TemporaryDirectory() as folder_name:
        folder = Path(folder_name)
        np.savez(folder / "instances.npz", **arrays)
        Y = rng.standard_normal((m, 2))
        np.savez(folder / "labels.npz", values=Y)
        code, text = _in_a_child(
            lambda: command(
                "tune", folder / "labels.npz", "--instances", folder / "instances.npz", "--alphas", "0.1,1",
                "--model", "independent", "-o", folder / "model.dyad", "-q",
            ).code
        )  # fmt: skip
    if text:
        raise WrongAnswerError(text)
    if code < 0:
        raise WrongAnswerError(f"the interpreter died of signal {-code}")
    if code:
        raise RefusedError(f"exit code {code}")


def _in_a_child(work: Any) -> tuple[int, str]:
    """Run something in a forked process; return its number, or minus the signal it died of, and its complaint."""
    reader, writer = os.pipe()
    with warnings.catch_warnings():
        # Python 3.12 and later warn where other threads hold locks: the child waits for none of
        # them.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        code = 0
        try:
            import resource

            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            os.close(reader)
            code = int(work())
        except BaseException as error:
            os.write(writer, f"{type(error).__name__}: {error}"[:500].encode())
        finally:
            os._exit(code)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        text = pipe.read().decode("utf-8", "replace")
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status), text


@generator
def told_files(case: Case) -> None:
    """Forged model files through inspect: exit code 0 or 3, never a traceback."""
    number = int(case.rng.integers(len(tiny_models())))
    content = forge(case, tiny_models()[number])
    case.what = f"model {number}: {case.what}"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.dyad"
        path.write_bytes(content)
        ran = command("inspect", path, *(["--json"] if case.chance(0.5) else []))
    if ran.code:
        raise RefusedError(f"exit code {ran.code}")
