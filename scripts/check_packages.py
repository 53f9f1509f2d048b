"""Check the packages in dist/: what is in them, what they say, and that the wheel works where nothing else is.

Run by ``make dist``, which has built them, with the Python of its tools (rattler-build's parser is one of them). Exits
with a sentence at the first thing that is wrong. Needs the package index, for what the wheel depends on.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
import tempfile
import venv
import zipfile
from email.message import Message
from email.parser import Parser
from pathlib import Path

from rattler_build import Stage0Recipe, VariantConfig

ROOT = Path(__file__).resolve().parents[1]
# Without these the tests of an unpacked source distribution do not run.
SOURCES = (
    "src",
    "tests",
    "docs",
    "examples",
    "experiments",
    "benchmarks",
    "fuzz",
    "scripts",
    "conda",
)
MADE = re.compile(
    r"(^|/)(\.ci|\.venv[^/]*|\.git|build|dist|_build|generated|gallery|__pycache__|\.[a-z_]+_cache)(/|$)"
)
LINK = re.compile(
    r"\]\((?!https?:|#)|<(?:img|source)\b[^>]*\bsrc(?:set)?=\"(?!https?:)|\bhref=\"(?!https?:|#)"
)


def package_files() -> set[str]:
    """Return what a wheel must hold, as it is named in src/: the package, and the module that starts its command."""
    files = {path for path in (ROOT / "src" / "dyadlearn").rglob("*") if path.is_file()}
    names = {
        path.relative_to(ROOT / "src").as_posix()
        for path in files
        if "__pycache__" not in path.parts
    }
    return names | {"_dyadlearn_main.py"}


def read_wheel(path: Path) -> dict[str, bytes]:
    """Return the files of a wheel by name."""
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def read_sdist(path: Path) -> dict[str, bytes]:
    """Return the files of a source distribution by name, without the folder that they all lie in."""
    with tarfile.open(path) as archive:
        members = [member for member in archive.getmembers() if member.isfile()]
        return {
            member.name.split("/", 1)[1]: archive.extractfile(member).read() for member in members
        }


def check_contents(wheel: dict[str, bytes], sdist: dict[str, bytes]) -> None:
    """Check that all that belongs into the packages is there, and nothing else."""
    inside = {name for name in wheel if ".dist-info/" not in name}
    if inside != package_files():
        sys.exit(f"The wheel and src/ differ in: {', '.join(sorted(inside ^ package_files()))}.")
    for name in ("dyadlearn/py.typed", "dyadlearn/datasets/data/debtags.npz"):
        if name not in wheel:
            sys.exit(f"The wheel has no {name}.")
    if not any(name.endswith("licenses/LICENSE") for name in wheel) or "LICENSE" not in sdist:
        sys.exit("The licence is not in both packages.")
    for folder in SOURCES:
        here = {
            path.relative_to(ROOT).as_posix()
            for path in (ROOT / folder).rglob("*")
            if path.is_file()
        }
        missing = {name for name in here if not MADE.search(name)} - set(sdist)
        if missing:
            sys.exit(f"The source distribution has no {', '.join(sorted(missing))}.")
    strangers = [name for name in sdist if MADE.search(name)]
    if strangers:
        sys.exit(f"The source distribution has what was only made here: {', '.join(strangers)}.")


def check_no_trace(files: dict[str, bytes]) -> None:
    """Check that no file tells where it was packed."""
    for name, content in files.items():
        for folder in (ROOT, Path.home()):
            if f"{folder}/".encode() in content:
                sys.exit(f"{name} has the path {folder} of this machine in it.")


def check_metadata(metadata: Message) -> None:
    """Check what the page of the package index will show."""
    for field in (
        "Name",
        "Version",
        "Summary",
        "License-Expression",
        "Requires-Python",
        "Description-Content-Type",
    ):
        if not metadata[field]:
            sys.exit(f"The metadata has no {field}.")
    dead = LINK.findall(metadata.get_payload())
    if dead:
        sys.exit(
            f"The page of the package index would have {len(dead)} links or pictures that lead nowhere."
        )


def check_recipe(version: str) -> None:
    """Check that rattler-build reads the conda recipe, and makes one package of it for all platforms."""
    variants = Stage0Recipe.from_file(ROOT / "conda" / "recipe.yaml").render(VariantConfig())
    if len(variants) != 1:
        sys.exit(f"The conda recipe makes {len(variants)} packages; one was expected.")
    recipe = variants[0].recipe.to_dict()
    if recipe["build"]["noarch"] != "python" or recipe["package"]["version"] != version:
        sys.exit(
            f"The conda recipe does not make a package for all platforms of version {version}."
        )


def try_wheel(path: Path, version: str, *, oldest: bool) -> None:
    """Install the wheel with the newest or the oldest dependencies, import it, and run the demo."""
    uv = [Path(sys.executable).with_name("uv"), "pip"]
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        venv.create(home / "venv", with_pip=True)
        bin = home / "venv" / ("Scripts" if sys.platform == "win32" else "bin")
        python = ["--python", bin / "python"]
        # The requirements of a wheel are not direct ones, so the oldest are those of pyproject.toml.
        lowest = [
            *uv,
            "install",
            "--quiet",
            *python,
            "--resolution",
            "lowest-direct",
            "-r",
            ROOT / "pyproject.toml",
        ]
        commands = [
            *([lowest] if oldest else []),
            [
                bin / "python",
                "-m",
                "pip",
                "install",
                "--quiet",
                "--disable-pip-version-check",
                path,
            ],
            [*uv, "check", *python],
            [
                bin / "python",
                "-c",
                f"import dyadlearn; assert dyadlearn.__version__ == {version!r}",
            ],
            [bin / "dyadlearn", "--version"],
            [bin / "dyadlearn", "demo"],
        ]
        for command in commands:
            print("  " + " ".join(map(str, [command[0].name, *command[1:]])), flush=True)
            done = subprocess.run(command, cwd=home, capture_output=True, text=True)
            if done.returncode:
                sys.exit(f"This failed in a fresh environment:\n{done.stdout}{done.stderr}")


def main() -> None:
    """Check all, and say what was checked."""
    wheels, sdists = sorted((ROOT / "dist").glob("*.whl")), sorted((ROOT / "dist").glob("*.tar.gz"))
    if len(wheels) != 1 or len(sdists) != 1:
        sys.exit(
            f"dist/ has {len(wheels)} wheels and {len(sdists)} source distributions; run make dist."
        )
    wheel, sdist = read_wheel(wheels[0]), read_sdist(sdists[0])
    check_contents(wheel, sdist)
    check_no_trace(wheel)
    check_no_trace(sdist)
    metadata = Parser().parsestr(
        next(text for name, text in wheel.items() if name.endswith("/METADATA")).decode()
    )
    check_metadata(metadata)
    check_recipe(metadata["Version"])
    print(
        f"Contents and metadata of {wheels[0].name} and {sdists[0].name} are right; so is the conda recipe."
    )
    for oldest in (False, True):
        print(
            f"The wheel in an environment of its own, with the {'oldest' if oldest else 'newest'} dependencies:"
        )
        try_wheel(wheels[0], metadata["Version"], oldest=oldest)
    print("All packages are in order.")


if __name__ == "__main__":
    main()
