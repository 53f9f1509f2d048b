"""Mutants: small faults in the code, each of which the tests should notice.

`draw` picks mutants with a fixed seed and writes them to `fuzz/mutants.jsonl`. `map` runs all tests
once and records which test calls which function of the list. `run` plants each mutant in a copy of the tree,
runs the tests that call its function, those of its package and the quickest first, and writes
whether one failed. A mutant that was noticed once must stay noticed when tests are thinned: `run
--check` compares with the list instead of writing it.

A survivor has a "reason": one sentence that says why no test can or should notice it. `run` keeps
it and shows it, and marks survivors without one.

A mutant is described by the name of its function and the text of its statement, not by file and
line. So it is found again after code has moved. A mutant whose statement is gone is reported as
such.

    python fuzz/mutants.py draw --count 300 --seed 5 --list /tmp/mutants.jsonl
    python fuzz/mutants.py map --list /tmp/mutants.jsonl --jobs 2
    python fuzz/mutants.py run --list /tmp/mutants.jsonl --jobs 2
"""

from __future__ import annotations

import argparse
import ast
import builtins
import collections
import contextlib
import importlib
import itertools
import json
import multiprocessing
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
LIST = ROOT / "fuzz" / "mutants.jsonl"
MAP = ROOT / "build" / "mutants-map.json"
# Seconds that the tests of one mutant may take, by the times that `map` has recorded.
LONGEST = 60.0
# Tests that are run before the others.
N_FIRST = 6
# What the tests read.
FOLDERS = (
    "src",
    "tests",
    "fuzz",
    "benchmarks",
    "experiments",
    "docs",
    "examples",
    "scripts",
    "conda",
)
FILES = (
    "pyproject.toml",
    "README.md",
    "Makefile",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "CITATION.cff",
    "LICENSE",
)
PACKAGES = ("pairing", "solve", "holdout", "metrics", "kernels", "models")

COMPARISONS = {
    ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">", ast.Eq: "!=", ast.NotEq: "==",
    ast.Is: "is not", ast.IsNot: "is", ast.In: "not in", ast.NotIn: "in",
}  # fmt: skip
OPERATIONS = {
    ast.Add: "-",
    ast.Sub: "+",
    ast.Mult: "/",
    ast.Div: "*",
    ast.BitAnd: "|",
    ast.BitOr: "&",
}
CALLS = {"min": "max", "max": "min", "any": "all", "all": "any"}

#: A file, and first line, first column, last line and last column in it.
Place = tuple[Path, tuple[int, int, int, int]]


def changes(node: ast.AST) -> list[tuple[str, str]]:
    """Return the texts before and after each change of one node of the syntax tree."""
    before = ast.unparse(node)
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in COMPARISONS:
        left = ast.unparse(node.left)
        right = ast.unparse(node.comparators[0])
        return [(before, f"({left} {COMPARISONS[type(node.ops[0])]} {right})")]
    if isinstance(node, ast.BinOp) and type(node.op) in OPERATIONS:
        return [
            (
                before,
                f"(({ast.unparse(node.left)}) {OPERATIONS[type(node.op)]} "
                f"({ast.unparse(node.right)}))",
            )
        ]
    if isinstance(node, ast.BoolOp):
        other = " or " if isinstance(node.op, ast.And) else " and "
        return [(before, f"({other.join(f'({ast.unparse(value)})' for value in node.values)})")]
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.Not, ast.USub)):
        return [(before, f"({ast.unparse(node.operand)})")]
    if isinstance(node, ast.Constant) and isinstance(node.value, bool):
        return [(before, str(not node.value))]
    if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)):
        return [(before, repr(node.value + 1))]
    if isinstance(node, ast.Call) and isinstance(node.func, (ast.Name, ast.Attribute)):
        name = node.func.id if isinstance(node.func, ast.Name) else node.func.attr
        if name in CALLS:
            function = ast.unparse(node.func)
            arguments = before[len(function) :]
            return [(before, function[: -len(name)] + CALLS[name] + arguments)]
    return []


def header(statement: ast.stmt) -> list[ast.AST]:
    """Return the expressions of a statement, without the statements inside it."""
    if isinstance(
        statement,
        (ast.FunctionDef, ast.ClassDef, ast.Raise, ast.Assert, ast.Import, ast.ImportFrom),
    ):
        return []
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
        return []
    if isinstance(statement, ast.AnnAssign):
        return [statement.value] if statement.value is not None else []
    return [
        child
        for child in ast.iter_child_nodes(statement)
        if not isinstance(child, (ast.stmt, ast.excepthandler))
    ]


def points(tree: ast.Module) -> list[dict]:
    """Return all mutants of a file: function, statement, number of the change in it, place and texts."""
    mutants: list[dict] = []

    def visit(node: ast.AST, name: tuple[str, ...]) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, (ast.FunctionDef, ast.ClassDef)):
                visit(child, (*name, child.name))
            elif isinstance(child, (ast.stmt, ast.excepthandler)):
                if isinstance(child, ast.stmt) and name and "__repr__" not in name:
                    collect(child, ".".join(name))
                visit(child, name)

    def collect(statement: ast.stmt, name: str) -> None:
        text = ast.unparse(statement).splitlines()[0]
        number = 0
        for part in header(statement):
            inside_text = {
                id(inner)
                for node in ast.walk(part)
                if isinstance(node, ast.JoinedStr)
                for inner in ast.walk(node)
            }
            for node in ast.walk(part):
                if id(node) in inside_text:
                    continue
                for before, after in changes(node):
                    place = (node.lineno, node.col_offset, node.end_lineno, node.end_col_offset)
                    mutants.append(
                        {
                            "function": name,
                            "statement": text,
                            "number": number,
                            "before": before,
                            "after": after,
                        }
                        | {"place": place}
                    )
                    number += 1

    visit(tree, ())
    return mutants


def draw(count: int, seed: int) -> list[dict]:
    """Draw mutants from the packages, in proportion to their size."""
    every = []
    for package in PACKAGES:
        for path in sorted((ROOT / "src" / "dyadlearn" / package).rglob("*.py")):
            for point in points(ast.parse(path.read_text())):
                every.append({"tests": f"tests/{package}", "file": path.stem} | point)
    names = collections.Counter(
        (mutant["function"], mutant["statement"], mutant["number"]) for mutant in every
    )
    unique = [
        mutant
        for mutant in every
        if names[mutant["function"], mutant["statement"], mutant["number"]] == 1
    ]
    drawn = random.Random(seed).sample(unique, count)
    return [{key: value for key, value in mutant.items() if key != "place"} for mutant in drawn]


def locate(mutants: list[dict]) -> list[Place | None]:
    """Return the file and the place of each mutant in today's tree, None where its statement is gone."""
    places: dict[tuple, list] = collections.defaultdict(list)
    for path in sorted((ROOT / "src" / "dyadlearn").rglob("*.py")):
        for point in points(ast.parse(path.read_text())):
            places[point["function"], point["statement"], point["number"]].append(
                (path, point["place"])
            )
    result = []
    for mutant in mutants:
        places_of = places.get((mutant["function"], mutant["statement"], mutant["number"]), [])
        result.append(places_of[0] if len(places_of) == 1 else None)
    return result


def plant(source: str, place: tuple[int, int, int, int], text: str) -> str:
    """Return the source with the text at a place replaced."""
    first, start, last, end = place
    lines = source.encode().splitlines(keepends=True)
    head = b"".join(lines[: first - 1]) + lines[first - 1][:start]
    tail = lines[last - 1][end:] + b"".join(lines[last:])
    return (head + text.encode() + tail).decode()


class Reached:
    """A plugin of pytest that records which mutated functions each test calls, and how long the test takes."""

    def __init__(self) -> None:
        self.calls: dict[str, dict] = {}
        self.failed: set[str] = set()
        builtins.reached = set()  # type: ignore[attr-defined]

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Record one test, its fixtures included."""
        builtins.reached.clear()  # type: ignore[attr-defined]
        begun = time.perf_counter()
        try:
            return (yield)
        finally:
            functions = sorted(builtins.reached)  # type: ignore[attr-defined]
            self.calls[item.nodeid] = {
                "seconds": round(time.perf_counter() - begun, 3),
                "functions": functions,
            }

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note a test that fails without any mutant."""
        if report.failed:
            self.failed.add(report.nodeid)

    def usable(self) -> dict[str, dict]:
        """Return what the tests that pass have called; a test that fails anyway notices nothing."""
        return {test: entry for test, entry in self.calls.items() if test not in self.failed}


def mark(tree: Path, mutants: list[dict]) -> None:
    """Let each mutated function of a copy of the tree say that it was called.

    A statement of a class body, such as a default, counts as called when a method of the class is.
    """
    wanted: dict[Path, set[str]] = collections.defaultdict(set)
    for mutant, located in zip(mutants, locate(mutants), strict=True):
        if located is not None:
            wanted[located[0]].add(mutant["function"])
    for path, names in wanted.items():
        text = path.read_text()
        lines = text.splitlines(keepends=True)
        starts = sorted(beginnings(ast.parse(text), (), names), reverse=True)
        for line, column, name in starts:
            reached = f"__import__('builtins').__dict__.get('reached', set()).add({name!r})\n"
            lines.insert(line - 1, " " * column + reached)
        (tree / path.relative_to(ROOT)).write_text("".join(lines))


def beginnings(
    node: ast.AST, name: tuple[str, ...], names: set[str]
) -> Iterator[tuple[int, int, str]]:
    """Yield the line, the column and the name of the functions, and of the methods of classes, in `names`."""
    for child in ast.iter_child_nodes(node):
        inner = name
        if isinstance(child, (ast.FunctionDef, ast.ClassDef)):
            inner = (*name, child.name)
        if isinstance(child, ast.FunctionDef):
            has_words = ast.get_docstring(child) is not None and len(child.body) > 1
            first = child.body[1] if has_words else child.body[0]
            called = {".".join(inner)}
            if isinstance(node, ast.ClassDef):
                called.add(".".join(name))
            for which in called & names:
                yield first.lineno, first.col_offset, which
        yield from beginnings(child, inner, names)


def record(out: Path, tests: list[str]) -> int:
    """Run tests in the tree at hand and write which test calls which mutated function."""
    plugin = Reached()
    code = pytest.main(["-q", "-p", "no:cacheprovider", "-p", "no:xdist", *tests], plugins=[plugin])
    out.write_text(json.dumps(plugin.usable()))
    return int(code)


def record_calls(mutants: list[dict], tests: list[str], jobs: int) -> int:
    """Run the tests once in a copy of the tree that records calls; return the worst exit code."""
    MAP.parent.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        tree = copied(Path(folder), "tree")
        mark(tree, mutants)
        files = [path for name in tests for path in (tree / name).rglob("test_*.py")]
        files.sort(key=lambda path: path.stat().st_size)
        shares = [files[start :: 4 * jobs] for start in range(4 * jobs)]

        def recorded(number: int) -> tuple[int, dict[str, dict]]:
            out = Path(folder) / f"{number}.json"
            names = [str(path.relative_to(tree)) for path in shares[number]]
            command = [sys.executable, __file__, "record", "--out", str(out), "--tests", *names]
            code = subprocess.run(command, cwd=tree, env=environment(tree), check=False).returncode
            return code, json.loads(out.read_text())

        with ThreadPoolExecutor(jobs) as pool:
            parts = list(pool.map(recorded, range(len(shares))))
    calls = {test: entry for _, part in parts for test, entry in part.items()}
    MAP.write_text(json.dumps(calls))
    return max(code for code, _ in parts)


def copied(folder: Path, name: str) -> Path:
    """Copy what the tests read; beside it stands a link to the shared data, as beside the original."""
    tree = folder / name
    for part in FOLDERS:
        shutil.copytree(ROOT / part, tree / part, ignore=shutil.ignore_patterns("__pycache__"))
    for part in FILES:
        shutil.copy(ROOT / part, tree / part)
    if not (folder / "shared").is_symlink():
        (folder / "shared").symlink_to(ROOT.parent / "shared")
    return tree


def environment(tree: Path) -> dict[str, str]:
    """Return the environment in which the copy is imported."""
    return os.environ | {
        "PYTHONPATH": str(tree / "src"),
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
    }


def tests_of(mutant: dict, calls: dict[str, dict]) -> list[str]:
    """Return the tests that call the mutant's function, its package's and the quickest first, for a minute of time.

    What runs when a module is imported is called by no test: then they are the tests of its package.
    """
    chosen = sorted(
        (not test.startswith(mutant["tests"] + "/"), entry["seconds"], test)
        for test, entry in calls.items()
        if mutant["function"] in entry["functions"]
    )
    if not chosen:
        folder = mutant["tests"] + "/"
        chosen = sorted(
            (False, entry["seconds"], test)
            for test, entry in calls.items()
            if test.startswith(folder)
        )
    total = itertools.accumulate(seconds for _, seconds, _ in chosen)
    return [
        test for (*_, test), so_far in zip(chosen, total, strict=True) if so_far <= LONGEST
    ] or [test for *_, test in chosen[:1]]


def noticed(
    tree: Path,
    mutant: dict,
    located: Place,
    tests: list[str],
    seconds: float,
) -> str:
    """Plant a mutant in a copy of the tree and run its tests: 'killed', 'survived' or 'timeout' (killed, too)."""
    path, place = located
    if not tests:
        return "survived"
    target = tree / path.relative_to(ROOT)
    source = target.read_text()
    target.write_text(plant(source, place, mutant["after"]))
    # Most mutants fail in their first tests, which are collected in a moment.
    parts = [tests[:N_FIRST], tests[N_FIRST:]]
    try:
        for part in filter(None, parts):
            code = in_a_fork(tree, part, seconds)
            if code != 0:
                break
    finally:
        target.write_text(source)
    if code == 4 and in_a_fork(tree, ["--collect-only", *tests], seconds) == 0:
        return "killed"  # with the mutant, the module of a test cannot be imported
    if code not in (None, 0, 1, 2):  # 4: a test of the map is gone, so that nothing was run
        raise RuntimeError(
            f"pytest ended with {code}; run map again if tests have changed: {mutant}"
        )
    if code is None:
        return "timeout"
    if code == 0:
        return "survived"
    return "killed"


def in_a_fork(tree: Path, tests: list[str], seconds: float) -> int | None:
    """Run tests in a fork of this process, which has imported what takes long; return their exit code, None if late."""
    child = os.fork()
    if child == 0:
        code = 3
        try:
            quiet = os.open(os.devnull, os.O_WRONLY)
            os.dup2(quiet, 1)
            os.dup2(quiet, 2)
            os.chdir(tree)
            sys.path.insert(0, str(tree / "src"))
            os.environ.update(environment(tree))
            sys.dont_write_bytecode = True
            options = ["-x", "-q", "-p", "no:cacheprovider", "-p", "no:benchmark", "-p", "no:xdist"]
            code = int(pytest.main([*options, *tests]))
        finally:
            os._exit(code)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.05)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None


def import_slow_modules() -> None:
    """Import what takes long, once for all forks of this process."""
    for name in (
        "numpy",
        "scipy.linalg",
        "scipy.sparse",
        "sklearn.utils.estimator_checks",
        "pandas",
        "polars",
        "torch",
    ):
        with contextlib.suppress(ImportError):
            importlib.import_module(name)


@dataclass(frozen=True)
class Runner:
    """Finds the outcomes of mutants; each process has a copy of the tree.

    Attributes
    ----------
    folder : path
        Where the copies are.
    seconds : float
        Limit for the tests of one mutant.
    end : float
        The time, of `time.time`, after which no mutant is begun.
    calls : dict of str to dict
        What each test calls, and how long it takes.
    """

    folder: Path
    seconds: float
    end: float
    calls: dict[str, dict]

    def tree(self) -> Path:
        """Return the copy of this process."""
        name = f"tree-{os.getpid()}"
        tree = self.folder / name
        return tree if tree.exists() else copied(self.folder, name)

    def outcome(self, mutant: dict, located: Place | None) -> tuple[str | None, float]:
        """Return what came of a mutant, None where the time is over, and the seconds it took."""
        if located is None:
            return "gone", 0.0
        start = time.time()
        if start > self.end:
            return None, 0.0
        tests = tests_of(mutant, self.calls)
        outcome = noticed(self.tree(), mutant, located, tests, self.seconds)
        return outcome, time.time() - start


def run(mutants: list[dict], seconds: float, minutes: float, out: Path, jobs: int) -> list[dict]:
    """Return the mutants with their outcomes; those beyond the time limit stay as they are."""
    calls = json.loads(MAP.read_text())
    ended = []
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "shared").symlink_to(ROOT.parent / "shared")
        runner = Runner(Path(folder), seconds, time.time() + 60 * minutes, calls)
        # A child that is forked has torch and its threads already; one that is spawned is clean.
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(jobs, context, initializer=import_slow_modules) as pool:
            outcomes = pool.map(runner.outcome, mutants, locate(mutants))
            for number, (mutant, (outcome, took)) in enumerate(zip(mutants, outcomes, strict=True)):
                if outcome is None:
                    ended.append(mutant)
                    continue
                ended.append(mutant | {"outcome": outcome})
                tell(number, ended[-1], took)
                with out.open("a") as stream:
                    print(json.dumps({"number": number, "outcome": outcome}), file=stream)
    return ended


def tell(number: int, mutant: dict, seconds: float) -> None:
    """Print what came of a mutant, and why it survived."""
    outcome = mutant["outcome"]
    print(
        f"{number:4d} {outcome:8s} {seconds:6.1f} s  {mutant['function']}: {mutant['before']}",
        flush=True,
    )
    if outcome == "survived":
        print(f"     {mutant.get('reason', 'no reason yet: equivalent, or a missing test?')}")


def main() -> int:
    """Draw mutants, map the tests, or run the mutants."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("action", choices=["draw", "map", "record", "run"])
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=27)
    parser.add_argument(
        "--seconds", type=float, default=300, help="limit for the tests of one mutant"
    )
    parser.add_argument(
        "--minutes", type=float, default=600, help="start no mutant after this time"
    )
    parser.add_argument(
        "--check",
        action="store_true",
        help="run the killed ones and compare; do not write the list",
    )
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--last", type=int)
    parser.add_argument(
        "--list", type=Path, default=LIST, help="file of the mutants, drawn or to be run"
    )
    parser.add_argument(
        "--out", type=Path, default=Path(os.devnull), help="file for the outcomes, as they come"
    )
    parser.add_argument("--jobs", type=int, default=1, help="processes of `map` and `run`")
    parser.add_argument("--tests", nargs="*", default=["tests"], help="what `map` and `record` run")
    options = parser.parse_args()
    if options.action == "draw":
        mutants = draw(options.count, options.seed)
        options.list.write_text(
            "".join(json.dumps(mutant, ensure_ascii=False) + "\n" for mutant in mutants)
        )
        return 0
    if options.action == "record":
        return record(options.out, options.tests)
    mutants = [json.loads(line) for line in options.list.read_text().splitlines()]
    if options.action == "map":
        return record_calls(mutants, options.tests, options.jobs)
    chosen = mutants[options.first : options.last]
    if options.check:
        chosen = [mutant for mutant in chosen if mutant.get("outcome") in ("killed", "timeout")]
    ended = run(chosen, options.seconds, options.minutes, options.out, options.jobs)
    counts = collections.Counter(mutant.get("outcome", "not run") for mutant in ended)
    print(", ".join(f"{count} {outcome}" for outcome, count in counts.most_common()))
    if options.check:
        lost = [mutant for mutant in ended if mutant.get("outcome") == "survived"]
        for mutant in lost:
            print("no longer noticed:", json.dumps(mutant, ensure_ascii=False))
        return bool(lost)
    mutants[options.first : options.last] = ended
    options.list.write_text(
        "".join(json.dumps(mutant, ensure_ascii=False) + "\n" for mutant in mutants)
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
