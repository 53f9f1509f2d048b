"""Tables of cases hold what they promise."""

import itertools

from sweeps import covering, every, lines, over

COLUMNS = {"a": list(range(5)), "b": {"x": 1, "y": 2}, "c": [0.0, 1e-3, 1.0, 1e3], "d": "pq"}


def together(table, names):
    return {tuple(repr(case[name]) for name in names) for case in table}


def test_a_covering_table_has_all_pairs_and_far_fewer_rows():
    whole = every(**COLUMNS)
    for strength, most in ((1, 5), (2, 20), (3, 45)):
        table = covering(strength=strength, **COLUMNS)
        assert len(table) <= most < len(whole) == 80
        for names in itertools.combinations(COLUMNS, strength):
            assert together(table, names) == together(whole, names)


def test_what_must_not_or_must_stand_in_a_table():
    table = covering(
        **COLUMNS,
        where=lambda a, b, c, d: a != 3 or b == 1,
        also=[{"a": 9, "b": 1, "c": 0.0, "d": "p"}],
    )
    assert ("3", "y") not in together(table, ("a", "b"))
    assert {("3", "x"), ("2", "y"), ("9", "1")} <= together(table, ("a", "b"))


def test_every_case_runs_with_fixtures_of_its_own(each, monkeypatch, tmp_path):
    seen = []

    @over(lines("a b", (1, 2), (3, 4)))
    @over(every(c={"five": 5, "six": 6}, d=[len]))
    def test(a, b, c, d, monkeypatch, tmp_path):
        seen.append((a, b, c))
        assert d("ab") == 2
        monkeypatch.setenv("SEEN", str(seen))
        assert not list(tmp_path.iterdir())
        (tmp_path / "file").touch()

    test(each=each, monkeypatch=monkeypatch, tmp_path=tmp_path)
    assert seen == [(1, 2, 5), (1, 2, 6), (3, 4, 5), (3, 4, 6)]
