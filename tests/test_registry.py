"""The table of models agrees with the classes, and with the pages that list them."""

import ast
import inspect
from pathlib import Path

from sklearn.base import BaseEstimator

import dyadlearn
import problems
from dyadlearn._documenting import parameter_docs
from dyadlearn._registry import MODELS
from sweeps import lines, over

ROOT = Path(__file__).resolve().parents[1]
CLASSES = sorted(
    {name for each in MODELS.values() for name in (each.model, each.search) if name is not None}
)


def test_the_table_says_what_the_classes_are(each):
    X, Y, T = problems.data(6, 5, 2, 2)
    for name in each(MODELS):
        entry = MODELS[name]
        model = getattr(dyadlearn, entry.model)
        parameters = inspect.signature(model).parameters
        assert entry.alphas == tuple(
            alpha for alpha in ("alpha", "task_alpha") if alpha in parameters
        )
        assert model.searches is (entry.search == entry.model)
        if entry.search is not None:
            search = getattr(dyadlearn, entry.search)
            assert search.searches
            grids = tuple(
                alpha.removesuffix("s")
                for alpha in inspect.signature(search).parameters
                if "alphas" in alpha
            )
            assert grids == entry.alphas
        if entry.search not in (None, entry.model):
            fitted = model().fit(X, Y, T).fitted_
            assert "".join(setting.value for setting in fitted.settings) == entry.settings


def test_pages_list_every_model():
    api = (ROOT / "docs/api.md").read_text(encoding="utf-8").split()
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert [name for name in CLASSES if name not in api or name not in dyadlearn.__all__] == []
    rows = [f"| `{each.model}` | {each.title} |" for each in MODELS.values()]
    assert [row for row in rows if row not in readme] == []


POSITIONAL = {
    "IndependentTaskRidge": ["alpha"],
    "IndependentTaskRidgeCV": ["alphas"],
    "KroneckerRidge": ["alpha"],
    "KroneckerRidgeCV": ["alphas"],
    "Landmarks": ["n_components"],
    "LearnedKernelRidge": [],
    "MultiwayRidge": ["terms"],
    "OnlineTwoStepRidge": ["alpha", "task_alpha"],
    "PairKernelRidge": ["alpha"],
    "PairKernelRidgeCV": ["alphas", "shares"],
    "PairRegressor": ["model"],
    "TwoStepRegressor": ["instance_estimator", "task_estimator"],
    "TwoStepRidge": ["alpha", "task_alpha"],
    "TwoStepRidgeCV": ["alphas", "task_alphas"],
}


def test_parameters_are_keyword_only_except_the_first_ones():
    estimators = {}
    for name in dyadlearn.__all__:
        kind = getattr(dyadlearn, name)
        if inspect.isclass(kind) and issubclass(kind, BaseEstimator):
            parameters = inspect.signature(kind).parameters.values()
            estimators[name] = [
                parameter.name
                for parameter in parameters
                if parameter.kind is not inspect.Parameter.KEYWORD_ONLY
            ]
    assert estimators == POSITIONAL


@over(lines("name", *CLASSES))
def test_every_parameter_is_documented_once(name):
    kind = getattr(dyadlearn, name)
    wanted = inspect.signature(kind).parameters
    assert list(parameter_docs(kind)) == list(wanted)
    section = kind.__doc__.partition("Parameters\n")[2].partition("Attributes\n")[0]
    lines = [
        line
        for line in inspect.cleandoc(section).splitlines()
        if " : " in line and not line.startswith(" ")
    ]
    documented = [parameter for line in lines for parameter in line.partition(" : ")[0].split(", ")]
    assert sorted(documented) == sorted(wanted)


@over(lines("name", *CLASSES))
def test_documented_defaults_are_the_defaults(name):
    kind = getattr(dyadlearn, name)
    parameters = inspect.signature(kind).parameters
    for entry in parameter_docs(kind).values():
        first_line = entry.splitlines()[0]
        names, _, rest = first_line.partition(" : ")
        _, _, documented = rest.partition("default=")
        if documented:
            defaults = [parameters[parameter].default for parameter in names.split(", ")]
            values = ast.literal_eval(f"[{documented.replace(' and ', ', ')}]")
            assert values in (defaults, defaults[:1]), first_line
