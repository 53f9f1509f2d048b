"""The version to compare with: its sources from git, its wheel and an environment for it, built where they are missing.

`baseline.txt` holds the commit. All of it goes to build/old/<commit>, which git ignores. The
environment has the versions of numpy, scipy and the others that run this script, so that
differences are those of dyadlearn.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
from importlib.metadata import distributions
from io import BytesIO
from pathlib import Path

from changes import CORRECTED

__all__ = ["baseline", "environment"]

ROOT = Path(__file__).resolve().parents[1]
# What the cases import beside the dependencies of the package.
ALSO = ["pandas"]


def baseline() -> str:
    """Return the hash of the commit to compare with."""
    return (ROOT / "fuzz" / "baseline.txt").read_text().strip()


def environment(commit: str | None = None) -> Path:
    """Return the interpreter of an environment with the old version, which is built first where there is none."""
    commit = baseline() if commit is None else commit
    home = ROOT / "build" / "old" / commit
    python = home / "venv" / ("Scripts" if sys.platform == "win32" else "bin") / "python"
    if (home / "ready").exists() and python.exists():
        return python
    print(
        f"Building the version of {commit[:9]} in {home.relative_to(ROOT)} (a minute or two) ...",
        file=sys.stderr,
    )
    shutil.rmtree(home, ignore_errors=True)
    source = home / "source"
    source.mkdir(parents=True)
    archive = subprocess.run(
        ["git", "archive", commit], cwd=ROOT, check=True, capture_output=True
    ).stdout
    with tarfile.open(fileobj=BytesIO(archive)) as files:
        files.extractall(source, filter="data")
    _correct(source)
    _run(sys.executable, "-m", "venv", home / "venv")
    pip = [python, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    _run(*pip, "wheel", "--no-deps", "--wheel-dir", home, source)
    (wheel,) = home.glob("*.whl")
    same = home / "constraints.txt"
    same.write_text(
        "".join(f"{name}=={version}\n" for name, version in sorted(_installed().items()))
    )
    _run(*pip, "install", "--no-compile", "--constraint", same, wheel, *ALSO)
    (home / "ready").touch()
    return python


def _correct(source: Path) -> None:
    """Correct known faults in the sources of the old version."""
    for name, text, corrected in CORRECTED:
        path = source / name
        content = path.read_text()
        if text not in content:
            raise SystemExit(f"{name} of the old version does not contain {text!r}.")
        path.write_text(content.replace(text, corrected))


def _installed() -> dict[str, str]:
    """Return the versions of all that is installed here, but for dyadlearn."""
    installed = {package.metadata["Name"]: package.version for package in distributions()}
    return {
        name: version
        for name, version in installed.items()
        if name and name.lower() not in ("dyadlearn", "pip")
    }


def _run(*command: object) -> None:
    subprocess.run([str(part) for part in command], check=True)


if __name__ == "__main__":
    print(environment())
