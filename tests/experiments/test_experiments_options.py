"""Options that the experiments of the paper share."""

import pytest

NUMBERS = {
    "transfer": ["--repeats", "--every", "--grid-step"],
    "online_text": ["--repeats", "--components"],
}
FETCHERS = {
    "transfer": ("fetch_davis", ["--data", "davis"]),
    "drug_target": ("fetch_yamanishi", ["--sets", "nr"]),
}


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_below_one_are_refused(load, name, capsys):
    script = load(name)
    assert script.parse(["--quick"]).repeats < script.parse([]).repeats
    for option in NUMBERS[name]:
        with pytest.raises(SystemExit):
            script.main([option, "0"])
        assert "must be at least 1" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["transfer", "online_text", "drug_target"])
def test_figures_without_matplotlib_are_refused_at_once(load, name, monkeypatch, capsys):
    script = load(name)
    monkeypatch.setattr(script.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(SystemExit):
        script.main(["--figures", "nowhere"])
    assert "pip install 'dyadlearn[plots]'" in capsys.readouterr().err


@pytest.mark.parametrize("name", FETCHERS)
def test_data_that_cannot_be_downloaded_end_in_a_sentence(load, name, monkeypatch):
    script = load(name)
    fetch, arguments = FETCHERS[name]

    def unreachable(*_, **__):
        raise ConnectionError("Could not download it.")

    monkeypatch.setattr(script, fetch, unreachable)
    with pytest.raises(SystemExit, match="Could not download it"):
        script.main(arguments)
