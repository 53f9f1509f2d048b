"""What the packages of the project say agrees with the project; ``make dist`` builds them and tries them out."""

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

import dyadlearn

ROOT = Path(__file__).resolve().parents[1]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT = PYPROJECT["project"]
NEEDED = {"cff-version", "message", "title", "authors"}  # by the format of citation files


def read_yaml(*names):
    return yaml.safe_load(ROOT.joinpath(*names).read_text(encoding="utf-8"))


def bounds(requirements):
    """Return the lower bound of each requirement that has no condition and nothing but a lower bound."""
    parts = [re.fullmatch(r"([\w-]+) *>=([\w.]+)", requirement) for requirement in requirements]
    assert all(parts), requirements
    return {part[1]: part[2] for part in parts}


def test_the_citation_is_of_this_version_and_complete():
    citation = read_yaml("CITATION.cff")
    assert citation.keys() >= NEEDED
    assert citation["cff-version"] == "1.2.0"
    assert (citation["title"], citation["version"]) == (PROJECT["name"], dyadlearn.__version__)
    assert citation["license"] == PROJECT["license"]
    assert citation["abstract"].rstrip(".") == PROJECT["description"]
    for reference in [citation["preferred-citation"], *citation["references"]]:
        assert reference.keys() >= {"type", "title", "authors", "year"}


def test_the_conda_recipe_asks_for_what_the_package_asks_for():
    recipe = read_yaml("conda", "recipe.yaml")
    context = recipe["context"]
    requirements = recipe["requirements"]
    assert recipe["package"] == {"name": PROJECT["name"], "version": "${{ version }}"}
    assert context["version"] == dyadlearn.__version__
    # The names on conda-forge are those of the package index, for all of these.
    python, *run = requirements["run"]
    assert python == "python >=${{ python_min }}"
    assert PROJECT["requires-python"] == f">={context['python_min']}"
    assert bounds(run) == bounds(PROJECT["dependencies"])
    python, pip, *host = requirements["host"]
    assert (python, pip) == ("python ${{ python_min }}.*", "pip")
    assert bounds(host) == bounds(PYPROJECT["build-system"]["requires"])
    build = recipe["build"]
    assert build["noarch"] == "python"
    scripts = [f"{name} = {target}" for name, target in PROJECT["scripts"].items()]
    assert build["python"]["entry_points"] == scripts
    about = recipe["about"]
    assert (about["license"], about["summary"]) == (PROJECT["license"], PROJECT["description"])
    assert (ROOT / about["license_file"]).is_file()


def test_the_oldest_python_is_the_same_everywhere():
    oldest = PROJECT["requires-python"].removeprefix(">=")
    listed = [
        part.rsplit(" ", 1)[1] for part in PROJECT["classifiers"] if re.search(r":: \d\.\d+$", part)
    ]
    assert listed[0] == oldest
    assert listed == [
        f"3.{minor}" for minor in range(int(oldest[2:]), int(oldest[2:]) + len(listed))
    ]
    assert PYPROJECT["tool"]["mypy"]["python_version"] == oldest
    assert PYPROJECT["tool"]["ruff"]["target-version"] == f"py{oldest.replace('.', '')}"
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert f"sys.version_info < ({oldest.replace('.', ', ')})" in makefile
    assert f"uv venv --quiet --clear --python {oldest} " in makefile


def test_the_page_of_the_package_index_has_no_link_that_leads_nowhere():
    # As the plugin of the build does it: fragments one after another, then the substitutions in
    # their order.
    hook = PYPROJECT["tool"]["hatch"]["metadata"]["hooks"]["fancy-pypi-readme"]
    fragments = [
        part.get("text") or (ROOT / part["path"]).read_text(encoding="utf-8")
        for part in hook["fragments"]
    ]
    readme = page = "".join(fragments)
    for change in hook["substitutions"]:
        page = re.sub(change["pattern"], change["replacement"], page)
    away = re.compile(r"\]\((?!https?:|#)|\b(?:src|srcset|href)=\"(?!https?:|#)")
    assert away.search(readme), "nothing to mend: the page may be the README as it is"
    assert not away.search(page)
    # Links to elsewhere stay, and so does everything that is no link.
    assert page.count("](https:") == readme.count("](https:")
    code = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
    assert code.findall(page) == code.findall(readme)


@pytest.mark.skipif(
    shutil.which("make") is None, reason="there is no make: what it would install is not tested"
)
def test_make_installs_no_more_than_a_target_needs(tmp_path, each):
    package = "install --quiet --disable-pip-version-check --no-compile --editable .\n"
    tools = "install --quiet --disable-pip-version-check --no-compile --editable '.[dev]'\n"
    cases = [
        ((), "demo", [package]),
        ((), "test", [tools]),
        ((".package",), "demo", []),
        ((".package",), "test", [tools]),
        ((".package", ".installed"), "demo", []),
        ((".package", ".installed"), "test", []),
    ]
    for number, (there, target, installs) in enumerate(each(cases)):
        folder = tmp_path / str(number)
        (folder / ".venv").mkdir(parents=True)
        for name in ("Makefile", "pyproject.toml", "CITATION.cff"):
            (folder / name).write_bytes((ROOT / name).read_bytes())
        for stamp in there:
            (folder / ".venv" / stamp).touch()
        command = ["make", "--dry-run", target, f"PYTHON={sys.executable}"]
        plan = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, check=True
        ).stdout
        assert re.findall(r"\binstall --quiet.*\n", plan) == installs
        assert {"demo": "dyadlearn demo --force\n", "test": "-m pytest"}[target] in plan


def test_make_help_lists_every_target():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    phony = re.search(r"^\.PHONY: (.*)$", makefile, re.MULTILINE)[1].split()
    listed = re.findall(r"^([a-z-]+):.*## ", makefile, re.MULTILINE)
    assert sorted(phony) == sorted(listed)
