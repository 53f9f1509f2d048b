"""The page for those who come from R: its code is that of the script, and the script runs where there is an R."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

_ROOT = Path(__file__).resolve().parents[1]
_SCRIPTS = _ROOT / "examples" / "r"


def _blocks(language):
    page = (_ROOT / "docs" / "r.md").read_text(encoding="utf-8")
    found = re.findall(rf"^```{language}\n(.*?)^```$", page, flags=re.DOTALL | re.MULTILINE)
    assert len(found) > 4
    return found


def test_what_the_page_shows_is_what_the_scripts_do():
    code = "".join(
        (_SCRIPTS / name).read_text(encoding="utf-8") for name in ("dyadlearn.R", "xnet_users.R")
    )
    assert [block for block in _blocks("r") if block not in code] == []


def test_the_script_equals_base_r_and_prints_what_the_page_shows(tmp_path):
    rscript = shutil.which("Rscript")
    if rscript is None:
        pytest.skip("There is no Rscript: examples/r/xnet_users.R was NOT run.")
    asked = 'cat(tryCatch(as.character(packageVersion("reticulate")), error = function(e) "none"))'
    found = subprocess.run(
        [rscript, "-e", asked], capture_output=True, text=True, check=True
    ).stdout
    if found == "none" or [int(part) for part in found.split(".")[:2]] < [1, 38]:
        pytest.skip(
            f"reticulate 1.38 or newer is needed, found {found}: examples/r/xnet_users.R was NOT "
            f"run."
        )
    source = os.pathsep.join([str(_ROOT / "src"), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**os.environ, "RETICULATE_PYTHON": sys.executable, "PYTHONPATH": source}
    ran = subprocess.run(
        [rscript, "xnet_users.R", str(tmp_path)],
        cwd=_SCRIPTS,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stderr
    printed = [line.rstrip() for line in ran.stdout.splitlines()]
    assert printed[-1] == "all checks in base R passed"
    for block in _blocks("text"):
        assert "\n".join(line.rstrip() for line in block.splitlines()) in "\n".join(printed)
    assert {path.name for path in tmp_path.iterdir()} == {"visits.png", "visits.dyad"}
