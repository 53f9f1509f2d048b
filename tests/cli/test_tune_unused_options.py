"""An option that would change nothing is an error: one sentence, and the exit code of wrong usage."""

import pytest

from dyadlearn import _registry
from dyadlearn._registry import names_where
from sweeps import every, over

MODELS = names_where()
SIX = {"two-step", "kronecker", "pair", "independent", "online", "learned"}
GRIDS = names_where(has_alpha="alpha")
WITH_TASKS = names_where(setting="C")
NEEDING_TASKS = tuple(name for name in MODELS if _registry.MODELS[name].needs_tasks)
# The options of tune that not every model has, with a value and the models that have them.
OPTIONS = {
    "--task-alphas": ("0.1,1", set(names_where(has_alpha="task_alpha"))),
    "--task-kernel": ("linear", set(WITH_TASKS)),
    "--task-groups": ("GROUPS", set(WITH_TASKS)),
    "--constants": ("1", {"kronecker", "pair"}),
    "--shares": ("1,1,1", {"pair"}),
    "--keep-labels": (None, {"online"}),
    "--device": ("cpu", {*GRIDS, "learned"}),
    "--exhaustive": (None, set(GRIDS)),
    "--alphas": ("0.1,1", set(GRIDS)),
    "--scoring": ("r2", {*GRIDS, "learned"}),
    "--cv": ("3", set(MODELS)),
    "--no-intercept": (None, set(MODELS)),
    "--steps": ("2", {"learned"}),
    "--seed": ("2", {"learned"}),
}


@pytest.fixture
def given(tables):
    """Return the words of tune, and a file of groups."""
    groups = tables.folder / "groups.csv"
    groups.write_text(
        "item,group\n" + "".join(f"{item},{place % 5}\n" for place, item in enumerate(tables.items))
    )

    def words(*, tasks=True):
        found = ["tune", str(tables.labels), "--instances", str(tables.instances), "--quiet"]
        found += ["--tasks", str(tables.tasks)] if tasks else []
        return [*found, "-o", str(tables.folder / "m.dyad"), "--force"]

    return words, {"GROUPS": str(groups)}


@over(every(model=MODELS))
def test_options_that_a_model_has_and_lacks(run, given, model):
    """All that it has are given at once, the others one by one."""
    words = [*given[0](), f"--model {model}"]
    own = []
    for option, (value, having) in OPTIONS.items():
        asked = [option] if value is None else [option, given[1].get(value, value)]
        if model in having:
            # --cv does not go with groups, and a new model may need its intercept
            if model in SIX:
                unasked = ("--device", "--cv")
            else:
                unasked = ("--device", "--cv", "--no-intercept")
            own += [] if option in unasked else asked
        else:
            those = " or ".join(name for name in MODELS if name in having)
            ran = run(*words, *asked)
            assert (ran.code, ran.out) == (2, "")
            assert (
                ran.err
                == f"dyadlearn: --model {model} has no option {option}: use it with --model "
                f"{those}.\n"
            )
    ran = run(*words, *own, *(["--setting C"] if "--task-groups" in own else []))
    assert ran.code == 0, ran.err


def test_the_table_of_models():
    """What the table says of these models; a new model may only be added."""
    assert set(MODELS) >= SIX
    assert SIX & set(GRIDS) == SIX - {"learned"}
    assert SIX & set(WITH_TASKS) == SIX - {"independent"}
    assert SIX & set(names_where(has_alpha="task_alpha")) == {"two-step", "online"}
    assert SIX & set(NEEDING_TASKS) == {"two-step", "kronecker", "pair"}


@over(every(model=NEEDING_TASKS))
def test_models_that_need_tasks(run, given, model):
    ran = run(*given[0](tasks=False), f"--model {model}")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == (
        f"dyadlearn: The {model} model learns from tasks: give them by --tasks, or use --model "
        f"independent.\n"
    )


@over(
    every(
        option=[
            "--task-kernel linear",
            "--tasks-smiles s",
            "--task-groups GROUPS",
            "--task-alphas 1",
        ]
    )
)
def test_options_of_tasks_without_tasks(run, given, option):
    option, value = option.split()
    for model in set(MODELS) - set(NEEDING_TASKS):
        ran = run(*given[0](tasks=False), f"--model {model} {option}", given[1].get(value, value))
        assert (ran.code, ran.out) == (2, "")
        assert ran.err == f"dyadlearn: {option} goes with --tasks: add it, or leave {option} out.\n"
