"""The examples in the pages do what the pages say."""

import doctest
import re
from pathlib import Path

import pandas as pd
import pytest

from dyadlearn.datasets import make_dyads

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
FENCE = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def examples(page):
    """Return the examples of all python blocks of a page as one session, line numbers being the page's."""
    text = page.read_text(encoding="utf-8")
    # What is not code becomes empty lines, so that a failure points to the right line.
    blank = ["\n"] * (text.count("\n") + 1)
    for block in FENCE.finditer(text):
        start = text.count("\n", 0, block.start(1))
        for offset, line in enumerate(block[1].splitlines(keepends=True)):
            blank[start + offset] = line
    return doctest.DocTestParser().get_doctest("".join(blank), {}, page.name, str(page), 0)


def with_examples():
    """Return the pages that have python blocks."""
    return [page for page in PAGES if FENCE.search(page.read_text(encoding="utf-8"))]


def write_tables(folder):
    """Write the tables of two pages: 40 drugs, 25 proteins, and 600 labels of the first 38 drugs."""
    data = make_dyads(40, 25, noise=0.3, random_state=0)
    drugs = [f"d{i}" for i in range(40)]
    proteins = [f"p{j}" for j in range(25)]
    pairs = pd.DataFrame(data.Y[:38] + 6, drugs[:38], proteins).rename_axis("drug").reset_index()
    pairs = pairs.melt("drug", var_name="protein", value_name="affinity").sample(
        600, random_state=0
    )
    pairs.to_csv(folder / "affinities.csv", index=False)
    pd.DataFrame(data.X, drugs).to_csv(folder / "drugs.csv", index_label="drug")
    pd.DataFrame(data.tasks, proteins).to_csv(folder / "proteins.csv", index_label="protein")


@pytest.mark.parametrize("page", with_examples(), ids=lambda page: page.name)
def test_python_blocks_run_and_print_what_they_show(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    if page.name in ("README.md", "start.md"):
        write_tables(tmp_path)
    session = examples(page)
    assert session.examples
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS)
    report: list[str] = []
    assert runner.run(session, out=report.append).failed == 0, "".join(report)


def test_every_python_block_is_an_interactive_session():
    plain = [
        f"{page.name}: {block[1].splitlines()[0]}"
        for page in PAGES
        for block in FENCE.finditer(page.read_text(encoding="utf-8"))
        if not block[1].startswith(">>>")
    ]
    assert not plain, "not run by the test above; write it with >>>"


def test_no_line_of_code_is_cut_between_the_side_bars():
    fence = re.compile(r"^```(?:[a-z]+|{code-block} .*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
    lines = [
        f"{page.name}: {line}"
        for page in PAGES
        for block in fence.finditer(page.read_text(encoding="utf-8"))
        for line in block[1].splitlines()
    ]
    assert len(lines) > 1000
    assert [line for line in lines if len(line.partition(": ")[2]) > 76] == []


def test_the_readme_example_is_short():
    assert len(examples(ROOT / "README.md").examples) <= 12
    assert (ROOT / "README.md").read_text(encoding="utf-8").count("\n") <= 150


def test_files_that_pages_link_to_exist(each):
    for page in each(PAGES):
        text = page.read_text(encoding="utf-8")
        links = re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", text) + re.findall(
            r'src="([^":]+)"', text
        )
        missing = [link for link in links if not (page.parent / link).exists()]
        assert not missing
