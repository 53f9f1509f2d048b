"""The records: what is split how, units that are run once, the lines of the results and the table made of them."""

import json
from pathlib import Path

import numpy as np
import pytest
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal

from dyadlearn.datasets import make_dyads
from dyadlearn.exceptions import SearchStoppedWarning
from dyadlearn.metrics import mean_squared_error

EXPERIMENTS = Path(__file__).parents[2] / "experiments"


@pytest.fixture(scope="module")
def shown(load):
    return load("records_table")


def small(script, name, m=18, q=15, *, kernels_of_tasks=True):
    """Return a small data set with a tenth of the labels missing, two kernels of rows and one of columns or none."""
    made = make_dyads(m, q, random_state=0)
    Y = np.where(default_rng(0).random((m, q)) < 0.1, np.nan, made.Y)
    K, G = (
        kernel / np.sqrt(np.outer(np.diag(kernel), np.diag(kernel))) for kernel in (made.K, made.G)
    )
    return script.Data(
        name,
        Y,
        {"true": K, "other": 0.5 * K + 0.5 * np.eye(m)},
        {"true": G} if kernels_of_tasks else {},
    )


def with_split(script, data):
    is_test = default_rng(1).random(data.Y.shape) < 0.2
    return script.replace(
        data, Y=np.where(is_test, np.nan, data.Y), Y_test=np.where(is_test, data.Y, np.nan)
    )


@pytest.fixture
def benchmarks(script, monkeypatch):
    """Put small data sets in the place of the real ones, one of each sort."""
    loaded = []

    def keep(data):
        def load(data_home, cache):
            loaded.append(data.name)
            return data

        return load

    binding = small(script, "binding")
    stars = with_split(script, small(script, "stars", kernels_of_tasks=False))
    signs = small(script, "signs")
    signs = script.replace(signs, Y=np.where(np.isnan(signs.Y), 0.0, signs.Y > 0).astype(float))
    small_ones = {
        "davis": script.replace(script.BENCHMARKS["davis"], load=keep(binding)),
        "nr": script.replace(script.BENCHMARKS["nr"], load=keep(signs)),
        "douban": script.replace(script.BENCHMARKS["douban"], load=keep(stars)),
    }
    monkeypatch.setattr(script, "BENCHMARKS", small_ones)
    return loaded


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


# --- Splits ---------------------------------------------------------------------------------------


def test_the_parts_of_pairs_are_those_of_the_seed(script):
    data = small(script, "binding")
    split = script.cut(data, script.Unit("davis", "A", "seed 4"), 5)
    cells = np.argwhere(np.isfinite(data.Y))
    part = default_rng(4).permutation(len(cells)) % 6
    for (i, j), number in zip(cells, part, strict=True):
        assert np.isnan(split.Y[i, j]) == (number == 5)
        assert np.isnan(split.truth[i, j]) == (number != 5)
    assert_array_equal(np.where(np.isnan(split.Y), split.truth, split.Y), data.Y)
    assert split.new_rows is split.new_columns is None


@pytest.mark.parametrize(
    ("setting", "new"), [("B", (True, False)), ("C", (False, True)), ("D", (True, True))]
)
def test_what_is_tested_is_new_where_the_setting_says_so(script, setting, new):
    data = small(script, "binding")
    seen = [[], []]
    for number in range(5):
        split = script.cut(data, script.Unit("davis", setting, f"fold {number}"), 5)
        trained = (split.rows, split.columns)
        tested = [split.new_rows, split.new_columns]
        for side, size in enumerate(data.Y.shape):
            if new[side]:
                assert sorted([*trained[side], *tested[side]]) == list(range(size))
                seen[side] += list(tested[side])
            else:
                assert tested[side] is None
                tested[side] = trained[side]
                assert_array_equal(trained[side], np.arange(size))
        assert_array_equal(split.Y, data.Y[np.ix_(*trained)])
        assert_array_equal(split.truth, data.Y[np.ix_(*tested)])
    for side, size in enumerate(data.Y.shape):
        assert sorted(seen[side]) == list(range(size * new[side]))


def test_folds_of_pairs_test_each_once_and_the_published_split_is_kept(script):
    data = small(script, "signs")
    tested = [
        np.isfinite(script.cut(data, script.Unit("nr", "A", f"fold {k}"), 10).truth)
        for k in range(10)
    ]
    assert_array_equal(sum(each.astype(int) for each in tested), np.isfinite(data.Y))
    published = with_split(script, data)
    split = script.cut(published, script.Unit("douban", "A", "split 0"), 1)
    assert_array_equal(split.Y, published.Y)
    assert_array_equal(split.truth, published.Y_test)


# --- Units ----------------------------------------------------------------------------------------


def test_the_units_and_their_order(script, capsys):
    assert script.main(["--list"]) == 0
    listed = capsys.readouterr().out.splitlines()
    assert len(listed) == len(set(listed)) == 4 * 3 * 10 + 2 * (3 + 3 * 5) + 2
    assert listed[0] == "nr A fold 0"
    words = "--list --data kiba,nr,douban --setting A,D --seeds 7 --folds 2,9"
    assert script.main(words.split()) == 0
    assert capsys.readouterr().out.splitlines() == [
        "kiba A seed 7",
        "kiba D fold 2",
        "nr A fold 2",
        "nr A fold 9",
        "douban A split 0",
    ]


def test_a_card_needs_torch(script, benchmarks, monkeypatch, capsys):
    monkeypatch.setattr(script, "find_spec", lambda name: None)
    with pytest.raises(SystemExit):
        script.main(["--device", "cuda"])
    assert "--device cuda needs torch" in capsys.readouterr().err


WRONG = [
    (["--data", "nr,mars"], "there is no mars: choose among nr"),
    (["--setting", "E"], "there is no E: choose among A"),
    (["--seeds", "-1"], "invalid numbers value"),
    (["--data", "nr", "--setting", "D"], "no data set that was named has a unit"),
    (["--steps", "0"], "--steps must be at least 1"),
    (["--page", "x.md"], "--page goes with --table"),
]


@pytest.mark.parametrize(("arguments", "message"), WRONG, ids=[message for _, message in WRONG])
def test_what_cannot_be_asked_for(script, capsys, arguments, message):
    with pytest.raises(SystemExit) as stopped:
        script.main(["--list", *arguments])
    assert stopped.value.code == 2
    assert message in capsys.readouterr().err


def test_every_setting_runs_once(script, benchmarks, tmp_path, capsys):
    out = tmp_path / "new" / "results.jsonl"
    words = ["--steps", "2", "--out", str(out), "--seeds", "1", "--folds", "0"]
    assert script.main(["--data", "davis", *words]) == 0
    assert benchmarks == ["binding"]  # once for all its units
    assert script.main([*words, "--threads", "1"]) == 0
    assert benchmarks == ["binding", "signs", "stars"]
    rows = lines(out)
    names = [f"{row['data']} {row['setting']} {row['unit']}" for row in rows]
    binding = ["davis A seed 1", "davis B fold 0", "davis C fold 0", "davis D fold 0"]
    assert names == [*binding, "nr A fold 0", "nr B fold 0", "nr C fold 0", "douban A split 0"]
    measures = [{"MSE", "CI"}] * 4 + [{"AUPR", "AUC"}] * 3 + [{"RMSE"}]
    for row, measured in zip(rows, measures, strict=True):
        assert set(row["scores"]) == measured
        assert np.isfinite(list(row["scores"].values())).all()
        assert row["steps"] == 2
        assert min(row["seconds"], row["n_test"]) > 0
        assert set(row["weights"]["instances"]) >= {"true", "other"}
        assert_allclose(sum(row["weights"]["instances"].values()), 1)
    assert "identity" in rows[7]["weights"]["tasks"]
    assert rows[4]["machine"] == "1 core"
    before = out.read_text()
    capsys.readouterr()
    assert script.main(words) == 0
    assert out.read_text() == before
    assert capsys.readouterr().out.count("is there") == 8


def test_scores_are_those_of_a_model_made_by_hand(script, benchmarks):
    """Of training rows and labels alone, whose kernels are cut by hand, without descriptions that know their origin."""
    data = script.BENCHMARKS["davis"].load(None, None)
    machine = script.Machine()
    kernels = script.described(data.K, 18, machine), script.described(data.G, 15, machine)

    def cut(kernels, rows, columns):
        if rows is None:
            return None
        return {name: kernel[np.ix_(rows, columns)] for name, kernel in kernels.items()}

    for setting, name in (("A", "seed 0"), ("B", "fold 3"), ("C", "fold 3"), ("D", "fold 3")):
        unit = script.Unit("davis", setting, name, 2)
        found = script.run(unit, data, kernels, machine)
        split = script.cut(data, unit, 5)
        rows, columns = split.rows, split.columns
        model = script.LearnedKernelRidge(
            kernel="precomputed", task_kernel="precomputed", setting=setting, n_steps=2
        ).fit(cut(data.K, rows, rows), split.Y, cut(data.G, columns, columns))
        new = cut(data.K, split.new_rows, rows), cut(data.G, split.new_columns, columns)
        expected = mean_squared_error(split.truth, model.predict(*new))
        assert_allclose(found["scores"]["MSE"], expected, rtol=1e-9)
        assert found["n_test"] == np.isfinite(split.truth).sum()


def test_scores_that_are_not_defined(script, tmp_path):
    truth = np.array([[0.0, np.nan], [0.0, 0.0]])
    F = np.array([[0.5, 9.0], [0.5, 0.5]])
    for name, expected in (
        ("nr", {"AUPR": None, "AUC": None}),
        ("kiba", {"MSE": 0.25, "CI": None}),
        ("douban", {"RMSE": 0.5}),
    ):
        measures = script.BENCHMARKS[name].measures
        assert script.scores(measures, truth, F) == expected
    with pytest.raises(ValueError, match="NaN"):
        script.scores(measures, truth, np.full((2, 2), np.nan))
    script.append(tmp_path / "x", {"stage_errors": [0.5, np.inf], "weights": {"a": np.nan}})
    assert lines(tmp_path / "x") == [{"stage_errors": [0.5, None], "weights": {"a": None}}]


def test_a_unit_that_fails_does_not_stop_the_others(
    script, benchmarks, tmp_path, monkeypatch, capsys
):
    real = script.run

    def run(unit, *rest):
        if unit.unit == "fold 1":
            raise ValueError("a fault of the fold")
        return real(unit, *rest)

    out = tmp_path / "results.jsonl"
    words = f"--data nr --setting B --folds 0,1,2 --steps 1 --out {out}".split()
    with monkeypatch.context() as patch:
        patch.setattr(script, "run", run)
        assert script.main(words) == 1
    said = capsys.readouterr().err
    assert "nr B fold 1 (1 steps): failed" in said
    assert "a fault of the fold" in said
    assert [row["unit"] for row in lines(out)] == ["fold 0", "fold 2"]
    assert script.main(words) == 0
    assert [row["unit"] for row in lines(out)] == ["fold 0", "fold 2", "fold 1"]


def test_what_was_interrupted_is_no_result(script, benchmarks, tmp_path, monkeypatch):
    def interrupted(self, *args, **kwargs):
        script.warnings.warn("Learning was interrupted", SearchStoppedWarning, stacklevel=2)
        return self

    monkeypatch.setattr(script.LearnedKernelRidge, "fit", interrupted)
    out = tmp_path / "results.jsonl"
    with pytest.raises(KeyboardInterrupt):
        script.main(f"--data nr --setting B --folds 0 --steps 1 --out {out}".split())
    assert not out.exists()


def test_a_line_that_was_cut_off_is_left_out(script, shown, tmp_path):
    out = tmp_path / "results.jsonl"
    whole = {"data": "nr", "setting": "A", "unit": "fold 0", "steps": 60}
    script.append(out, whole)
    with out.open("a") as file:
        file.write('{"data": "nr", "sett')
    script.append(out, {**whole, "unit": "fold 1"})
    with pytest.warns(UserWarning, match=r"results\.jsonl, line 2: no result"):
        rows = shown.read_results([out])
    assert [row["unit"] for row in rows] == ["fold 0", "fold 1"]
    assert out.read_text().count("\n") == 3


# --- The table ------------------------------------------------------------------------------------


def result(data, setting, unit, scores, **more):
    return {
        "data": data,
        "setting": setting,
        "unit": unit,
        "steps": 60,
        "scores": scores,
        "seconds": 30.0,
        "memory": 1500,
        "machine": "2 cores",
        "versions": {"python": "3.11"},
        "date": "2026-01-02T03:04:05+00:00",
        **more,
    }


def test_the_table(shown):
    rows = [
        result("davis", "A", "seed 1", {"MSE": 0.1, "CI": 0.9}),
        result("davis", "A", "seed 0", {"MSE": 0.2, "CI": 0.8}, seconds=90.0, memory=2000),
        result(
            "davis",
            "A",
            "seed 2",
            {"MSE": 0.3, "CI": 0.7},
            seconds=6.0,
            machine="H200",
            device_memory=900,
        ),
        result("nr", "C", "fold 3", {"AUPR": 0.5, "AUC": None}, seconds=1200.0),
        result("nr", "A", "fold 3", {"AUPR": 0.5, "AUC": 0.75}, steps=10),
        result("douban", "A", "split 0", {"RMSE": 0.73}, date="2026-01-05T00:00:00+00:00"),
    ]
    found = shown.table(rows)
    for line in (
        "| Davis | A | seeds 0–2 | 0.200 ± 0.100 | 0.800 ± 0.100 | 0.195 / 0.906 (graph networks, "
        "other splits) | "
        "60 s, 2,000 MiB (2 cores); 6 s, 900 MiB (H200) |",
        "| nuclear receptors (nr) | C | fold 3 | 0.500 | – | – | 20 min, 1,500 MiB (2 cores) |",
        "| nuclear receptors (nr), 10 steps | A | fold 3 | 0.500 | 0.750 | 0.728 (NRLMF) | 30 s, "
        "1,500 MiB (2 cores) |",
        "| Douban | A | published split | 0.730 | 0.721 (IGMC); 0.734 (GC-MC) | 30 s, 1,500 MiB (2 "
        "cores) |",
        "Computed from 2026-01-02 to 2026-01-05 with python 3.11.",
    ):
        assert line in found.splitlines(), line
    assert "KIBA |" not in found
    assert shown.mean_and_deviation([0.5, None, 0.7]) == "0.600 ± 0.141 (of 2)"
    widths = {line.count("|") for line in found.splitlines() if line.startswith("|")}
    assert widths == {8, 7}


def test_the_page_is_filled(script, shown, tmp_path, capsys):
    results = tmp_path / "results.jsonl"
    page = tmp_path / "page.md"
    script.append(results, result("flixster", "A", "split 0", {"RMSE": 0.864}))
    page.write_text(f"# Title\n\n{shown.BEGIN}\nold\n{shown.END}\n\nThe end.\n", encoding="utf-8")
    assert script.main(["--table", str(results)]) == 0
    printed = capsys.readouterr().out
    for _ in range(2):  # filling again changes nothing
        assert script.main(["--table", str(results), "--page", str(page)]) == 0
        text = page.read_text(encoding="utf-8")
        assert text == f"# Title\n\n{shown.BEGIN}\n\n{printed}\n{shown.END}\n\nThe end.\n"
    for text, words in (
        ("", "must have the marks"),
        (f"{shown.BEGIN}{shown.END}" * 2, "once each"),
    ):
        with pytest.raises(ValueError, match=words):
            shown.fill(text, "text")


def test_the_page_of_the_documentation_has_the_marks(shown):
    page = (EXPERIMENTS.parent / "docs" / "records.md").read_text(encoding="utf-8")
    assert "text" in shown.fill(page, "text")
