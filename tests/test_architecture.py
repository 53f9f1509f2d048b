"""The layers of the package: imports go down, and never in a circle."""

from __future__ import annotations

import ast
import graphlib
import subprocess
import sys
import tomllib
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def imports(package: Path) -> dict[str, set[str]]:
    """Return the modules that each module of a package imports when it is loaded or for its types."""
    paths = {}
    for path in package.rglob("*.py"):
        name = ".".join([package.name, *path.relative_to(package).with_suffix("").parts])
        paths[name.removesuffix(".__init__")] = path
    found = {}
    for name, path in paths.items():
        waiting, nodes = [tree_of(path)], []
        while waiting:  # imports inside functions are not those of the module
            children = [node for node in ast.iter_child_nodes(waiting.pop()) if not isinstance(node, ast.FunctionDef)]
            nodes += [node for node in children if isinstance(node, ast.ImportFrom)]
            waiting += [node for node in children if isinstance(node, ast.stmt)]
        targets = {(node.module, alias.name) for node in nodes for alias in node.names}
        modules = {f"{module}.{alias}" if f"{module}.{alias}" in paths else module for module, alias in targets}
        found[name] = (modules & set(paths)) - {name}
    return found


def test_no_modules_import_each_other():
    found = imports(ROOT / "src" / "dyadlearn")
    assert len(found) > 100
    graphlib.TopologicalSorter(found).prepare()


def test_a_circle_would_be_seen(tmp_path):
    package = tmp_path / "round"
    package.mkdir()
    (package / "a.py").write_text("from round.b import x\n")
    (package / "b.py").write_text("if TYPE_CHECKING:\n    from round.a import y\n")
    with pytest.raises(graphlib.CycleError):
        graphlib.TopologicalSorter(imports(package)).prepare()


def lint_imports(folder: Path, *path: Path) -> subprocess.CompletedProcess[str]:
    """Run import-linter with the contracts of `folder`, looking for the package in `path` first."""
    script = (
        f"import sys; sys.path[:0] = {[str(entry) for entry in path]!r}\n"
        "from importlinter.cli import lint_imports\n"
        "sys.exit(lint_imports(no_cache=True))"
    )
    return subprocess.run([sys.executable, "-c", script], cwd=folder, capture_output=True, text=True, check=False)


def test_modules_import_only_from_layers_below():
    pytest.importorskip("importlinter", reason="import-linter is not installed: the layers are not checked")
    done = lint_imports(ROOT, ROOT / "src")
    assert done.returncode == 0, done.stdout + done.stderr


def test_an_import_from_above_would_be_seen(tmp_path):
    pytest.importorskip("importlinter", reason="import-linter is not installed: the layers are not checked")
    package = tmp_path / "dyadlearn"
    package.mkdir()
    (package / "__init__.py").touch()
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    layers = contracts["tool"]["importlinter"]["contracts"][0]["layers"]
    for module in (name for layer in layers for name in layer.replace("|", " ").replace(":", " ").split()):
        (package / f"{module}.py").write_text("", encoding="utf-8")
    (tmp_path / "pyproject.toml").write_text((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert lint_imports(tmp_path, tmp_path).returncode == 0
    (package / "kernels.py").write_text("import dyadlearn.models\n", encoding="utf-8")
    done = lint_imports(tmp_path, tmp_path)
    assert done.returncode == 1
    assert "dyadlearn.kernels is not allowed to import dyadlearn.models" in done.stdout


# --- public names ----------------------------------------------------------------------------------

EXTENSIONS = (
    ("diagnostics", "views", "report", "plots", "cli", "datasets", "store", "_files"),
    ("distributed", "streams"),
)


def private_names(path: Path) -> list[str]:
    """Return the private attributes that a module reads of objects whose class it does not define."""
    tree = tree_of(path)
    nodes = list(ast.walk(tree))
    own = {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    own |= {node.target.id for node in nodes if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)}
    found = []
    for node in nodes:
        name, of = None, None
        if isinstance(node, ast.Attribute):
            name, of = node.attr, node.value
        elif isinstance(node, ast.Call) and getattr(node.func, "id", "") == "getattr" and len(node.args) > 1:
            name = getattr(node.args[1], "value", None)
        if not isinstance(name, str) or not name.startswith("_") or name.startswith("__"):
            continue
        if isinstance(of, ast.Name) and of.id in ("self", "cls"):
            own.add(name)
        else:
            found.append((name, node.lineno))
    return [f"{path.name}:{line} reads {name}" for name, line in found if name not in own]


def test_extensions_read_public_names_alone():
    package = ROOT / "src" / "dyadlearn"
    paths = [path for folder in EXTENSIONS[0] for path in (package / folder).rglob("*.py")]
    paths += [package / f"{module}.py" for module in EXTENSIONS[1]]
    assert len(paths) > 40
    assert [each for path in paths for each in private_names(path)] == []


def test_a_private_name_would_be_seen(tmp_path):
    path = tmp_path / "module.py"
    read = "self._x, b._own, b._y, getattr(b, '_z')"
    lines = ("class A:", "    _own: int", "    def f(self, b):", f"        return {read}")
    path.write_text("\n".join(lines))
    assert private_names(path) == ["module.py:4 reads _y", "module.py:4 reads _z"]
