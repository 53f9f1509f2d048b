"""The house keeps its order: small rooms, floors that only look down."""

from __future__ import annotations

import ast
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SOURCES = sorted((ROOT / "src").rglob("*.py"))


def test_sources_are_found():
    assert len(SOURCES) > 10


def lines_of_code(path: Path) -> int:
    """Count the lines of a file that are neither blank nor comment nor docstring."""
    text = path.read_text(encoding="utf-8")
    told: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node) is not None:
            told.update(range(node.body[0].lineno, node.body[0].end_lineno + 1))
    lines = enumerate(text.splitlines(), 1)
    return sum(number not in told and line.strip() != "" and not line.strip().startswith("#") for number, line in lines)


def test_no_room_is_too_large():
    large = {path.name: lines for path in SOURCES if (lines := lines_of_code(path)) > 600}
    assert not large, f"a file of more than 600 lines of code holds more than one idea: {large}"


def test_lines_of_code_are_counted(tmp_path):
    path = tmp_path / "room.py"
    path.write_text(
        '"""A room.\n\nIts story."""\n\n# why\nx = 1\n\n\ndef f():\n    """Say."""\n    return x\n', encoding="utf-8"
    )
    assert lines_of_code(path) == 3


def lint_imports(folder: Path, *path: Path) -> subprocess.CompletedProcess[str]:
    """Run import-linter with the contracts of `folder`, looking for the package in `path` first."""
    script = (
        f"import sys; sys.path[:0] = {[str(entry) for entry in path]!r}\n"
        "from importlinter.cli import lint_imports\n"
        "sys.exit(lint_imports(no_cache=True))"
    )
    return subprocess.run([sys.executable, "-c", script], cwd=folder, capture_output=True, text=True, check=False)


def test_rooms_import_only_from_floors_below():
    pytest.importorskip("importlinter", reason="import-linter is not installed: the floors are not checked")
    done = lint_imports(ROOT, ROOT / "src")
    assert done.returncode == 0, done.stdout + done.stderr


def test_an_import_from_above_would_be_seen(tmp_path):
    pytest.importorskip("importlinter", reason="import-linter is not installed: the floors are not checked")
    package = tmp_path / "dyadlearn"
    package.mkdir()
    (package / "__init__.py").touch()
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    layers = contracts["tool"]["importlinter"]["contracts"][0]["layers"]
    for room in (name for layer in layers for name in layer.replace("|", " ").replace(":", " ").split()):
        if not room.startswith("("):
            (package / f"{room}.py").write_text("", encoding="utf-8")
    (tmp_path / "pyproject.toml").write_text((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert lint_imports(tmp_path, tmp_path).returncode == 0
    (package / "kernels.py").write_text("import dyadlearn.models\n", encoding="utf-8")
    done = lint_imports(tmp_path, tmp_path)
    assert done.returncode == 1
    assert "dyadlearn.kernels is not allowed to import dyadlearn.models" in done.stdout
