"""An option that would change nothing is an error: one sentence, and the exit code of wrong usage."""

from __future__ import annotations

import pytest

from sweeps import every, over

MODELS = ("two-step", "kronecker", "independent", "online")
# The options of tune and evaluate that not every model has, with a value, the commands and the models that have them.
OPTIONS = {
    "--task-alphas": ("0.1,1", {"tune": {"two-step", "online"}}),
    "--task-alpha": ("10", {"evaluate": {"two-step"}}),
    "--task-kernel": ("linear", {"tune": {"two-step", "kronecker", "online"}, "evaluate": {"two-step", "kronecker"}}),
    "--task-groups": ("GROUPS", {"tune": {"two-step", "kronecker", "online"}}),
    "--keep-labels": (None, {"tune": {"online"}}),
    "--device": ("cpu", {"tune": set(MODELS), "evaluate": set(MODELS) - {"online"}}),
    "--exhaustive": (None, {"tune": set(MODELS)}),
    "--alphas": ("0.1,1", {"tune": set(MODELS)}),
    "--alpha": ("10", {"evaluate": set(MODELS) - {"online"}}),
    "--cv": ("3", {"tune": set(MODELS), "evaluate": set(MODELS) - {"online"}}),
    "--no-intercept": (None, {"tune": set(MODELS), "evaluate": set(MODELS) - {"online"}}),
}


@pytest.fixture
def given(tables):
    """Return the words of a command on labels, and a file of groups."""
    groups = tables.folder / "groups.csv"
    groups.write_text("item,group\n" + "".join(f"{item},{place % 2}\n" for place, item in enumerate(tables.items)))

    def words(command: str, *, tasks: bool = True) -> list[str]:
        found = [command, str(tables.labels), "--instances", str(tables.instances), "--quiet"]
        found += ["--tasks", str(tables.tasks)] if tasks else []
        return found + (["-o", str(tables.folder / "m.dyad"), "--force"] if command in ("tune", "learn") else [])

    return words, {"GROUPS": str(groups)}


@over(every(option=list(OPTIONS), command=["tune", "evaluate"], model=list(MODELS)))
def test_options_that_a_model_lacks(run, given, option, command, model):
    (value, having), (words, files) = OPTIONS[option], given
    if command not in having or (command, model) == ("evaluate", "online"):
        return
    said = [option] if value is None else [option, files.get(value, value)]
    setting = ["--setting", "C"] if option == "--task-groups" and model != "independent" else []
    setting += ["--alphas", "1"] if command == "tune" and option != "--alphas" else []  # which is quick
    ran = run(*words(command), "--model", model, *setting, *said)
    if model in having[command]:
        assert "is no option of" not in ran.err
        assert ran.code == 0 or "cpu" in said, ran.err
        return
    found = [name for name in MODELS if name in having[command]]
    assert (ran.code, ran.out) == (2, "")
    assert (
        ran.err == f"dyadlearn: {option} is no option of --model {model}: use it with --model {' or '.join(found)}.\n"
    )


@over(
    every(
        command=["tune", "learn", "evaluate"],
        option=[
            "--task-kernel linear",
            "--tasks-smiles s",
            "--task-groups GROUPS",
            "--task-alpha 1",
            "--task-alphas 1",
        ],
    )
)
def test_options_of_tasks_without_tasks(run, given, command, option):
    has = {"--task-alpha": ["evaluate"], "--task-alphas": ["tune"], "--task-groups": ["tune", "learn"]}
    option, value = option.split()
    if command not in has.get(option, [command]):
        return
    for model in ("independent", "online") if command == "tune" else ("independent",):
        how = [] if command == "learn" else ["--model", model]
        ran = run(*given[0](command, tasks=False), *how, option, given[1].get(value, value))
        assert (ran.code, ran.out) == (2, "")
        assert (
            ran.err
            == f"dyadlearn: {option} is about tasks, and there are none: give them by --tasks, or leave it out.\n"
        )


# What is given beside a model file, labels or an option that it goes with, and what is said of it.
UNUSED = {
    "evaluate MODEL --kernel rbf": "--kernel goes with labels and --instances: a model in a file has its own",
    "evaluate MODEL --tasks TASKS": "--tasks goes with labels and --instances: a model in a file has its own",
    "evaluate MODEL --model kronecker": "--model goes with labels and --instances: a model in a file has its own",
    "evaluate MODEL --model two-step": "--model goes with labels and --instances: a model in a file has its own",
    "evaluate MODEL --transpose": "--transpose goes with labels and --instances: a model in a file has its own",
    "evaluate MODEL --no-intercept": "--no-intercept goes with labels and --instances: a model in a file has its own",
    "evaluate MODEL --device cpu": "--device goes with labels and --instances: a model in a file has its own",
    "evaluate MODEL --task-alpha 2": "--task-alpha is no option of KroneckerRidge, which has --alpha alone",
    "evaluate MODEL --cells 3": "--cells goes with --verify: add it, or leave --cells out",
    "evaluate MODEL --no-nested": "--no-nested goes with models of dyadlearn learn, and this one learned no kernels",
    "evaluate LABELS --instances X --tasks TASKS --no-nested": "--no-nested goes with models of dyadlearn learn",
    "tune LABELS --instances X --tasks TASKS -o OUT --fingerprint radius=3": "--fingerprint goes with SMILES: name "
    "their column by --instances-smiles or --tasks-smiles",
    "learn LABELS --instances X --tasks TASKS -o OUT --fingerprint radius=3": "--fingerprint goes with SMILES",
    "tune LABELS --instances X --tasks FASTA -o OUT --tasks-smiles s": "holds sequences, and --tasks-smiles names a "
    "column of a table: leave it out",
    "tune LABELS --instances X --tasks TASKS -o OUT --kernel linear:gamma=1": "linear",
    "tune LABELS --instances X --tasks TASKS -o OUT --task-kernel rbf:degree=1": "degree",
    "predict MODEL --instances X --tasks-smiles s": "--tasks-smiles goes with --tasks: add it, or leave --tasks-smiles "
    "out",
    "predict MODEL --instances X --instances-smiles s": "--instances-smiles s: the model was made from features, not "
    "from SMILES, so leave it out",
    "recommend MODEL --for u0 --smiles s": "--smiles goes with --new: add it, or leave --smiles out",
    "recommend MODEL --pairs --side task": "--side goes with --for and --new: leave it out",
    "explain MODEL --instance u0 --task i0 --instances-smiles s": "--instances-smiles goes with --new-instance: add it",
    "explain MODEL --instance u0 --task i0 --by task": "--by goes with --output: add it, or leave --by out",
}


def test_options_that_nothing_uses(run, tables, tmp_path):
    from dyadlearn import KroneckerRidge, save
    from dyadlearn._tables import Ids, Table

    rows, columns = Ids(tuple(tables.users)), Ids(tuple(tables.items))
    model = KroneckerRidge(1.0).fit(
        Table(tables.X, rows), Table(tables.Y, rows, columns), tasks=Table(tables.T, columns)
    )
    fasta, saved = tmp_path / "p.fasta", tmp_path / "k.dyad"
    fasta.write_text("".join(f">{item}\nMKV\n" for item in tables.items))
    save(model, saved)
    files = {"MODEL": saved, "LABELS": tables.labels, "X": tables.instances, "TASKS": tables.tasks}
    files |= {"OUT": tmp_path / "m.dyad", "FASTA": fasta}
    for line, message in UNUSED.items():
        ran = run(*(files.get(word, word) for word in line.split()))
        assert (ran.code, ran.out) == (2, ""), line
        assert message in ran.err, (line, ran.err)
        assert ran.err.count("\n") == 1, line
