"""Tables of cases: a test that runs through one counts as one, and its failure says which case it was at.

`@over(...)` gives a test the columns of a table, in place of a product of
`pytest.mark.parametrize`:

    @over(covering(shape=SHAPES, alpha=ALPHAS, dtype=["float64", "float32"]))
    def test_something(shape, alpha, dtype, library): ...

A table is a list of dictionaries: `lines` that are written out, `every` combination of values, or a
`covering` few of them, which meet in all pairs: every value of one column stands beside every value
of every other. Values given as a dictionary have names, and a failure shows those.
"""

import functools
import inspect
import itertools
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

Case = dict[str, Any]


class Named:
    """A value with the name that a failure shows."""

    def __init__(self, name: Any, value: Any):
        self.name = name
        self.value = value

    def __repr__(self) -> str:
        return str(self.name)


def _column(values: Iterable[Any]) -> list[Any]:
    if isinstance(values, Mapping):
        return [Named(name, value) for name, value in values.items()]
    return [
        Named(value.__name__, value) if hasattr(value, "__name__") else value for value in values
    ]


def every(**columns: Iterable[Any]) -> list[Case]:
    """Return all combinations of the values of each column."""
    values = [_column(column) for column in columns.values()]
    return [dict(zip(columns, chosen, strict=True)) for chosen in itertools.product(*values)]


def lines(names: str, *values: Any) -> list[Case]:
    """Return a table written out: names with spaces between them, then a tuple of values for every row."""
    heads = names.split()
    wrapped = values if len(heads) > 1 else ((value,) for value in values)
    return [dict(zip(heads, row, strict=True)) for row in wrapped]


def covering(
    *,
    strength: int = 2,
    where: Callable[..., bool] | None = None,
    also: Iterable[Case] = (),
    **columns: Iterable[Any],
) -> list[Case]:
    """Return a few combinations among which any values of `strength` columns are together at least once.

    Chosen greedily, the same each time: always the combination that covers most of what is still
    uncovered.

    Parameters
    ----------
    strength : int
        How many columns meet: 2 for all pairs.
    where : callable
        Takes a combination as keywords and tells whether it may stand in the table.
    also : iterable of dict
        Combinations that must stand in it.
    **columns : iterables, or dictionaries of named values
        The values of each column.
    """
    values = [_column(column) for column in columns.values()]
    sizes = [len(column) for column in values]
    places = np.indices(sizes).reshape(len(sizes), -1).T
    if where is not None:
        places = places[_allowed(where, dict(zip(columns, values, strict=True)), places)]
    # For each set of columns the number of the combination of values that a row has in them.
    keys = []
    missing = []
    for group in itertools.combinations(range(len(values)), min(strength, len(values))):
        key = np.ravel_multi_index(places[:, group].T, [sizes[column] for column in group])
        keys.append(key)
        missing.append(np.isin(np.arange(np.prod([sizes[column] for column in group])), key))
    table = list(also)
    used = np.zeros(len(places))
    gain = sum(found[key].astype(int) for found, key in zip(missing, keys, strict=True))
    while gain.any():
        # Among equals the one whose values stand in the fewest rows so far.
        best = int(np.argmax(gain - used / (used.max(initial=0.0) + 1.0)))
        used += (places == places[best]).sum(axis=1)
        for found, key in zip(missing, keys, strict=True):
            if found[key[best]]:
                found[key[best]] = False
                gain -= key == key[best]
        table.append(dict(zip(columns, _at(values, places[best]), strict=True)))
    return table


def _allowed(
    where: Callable[..., bool], columns: dict[str, list[Any]], places: np.ndarray
) -> np.ndarray:
    """Return whether each combination may stand in the table.

    `where` is asked once for the values of the columns it reads: all of them, unless it ends in `**_`.
    """
    parameters = inspect.signature(where).parameters.values()
    rest = [each.name for each in parameters if each.kind is each.VAR_KEYWORD]
    named = list(columns)
    if not rest or rest == ["_"]:
        named = [each.name for each in parameters if each.kind is not each.VAR_KEYWORD]
    read = {name: columns[name] for name in named}
    answers = [bool(where(**_plain(case))) for case in every(**read)]
    table = np.array(answers).reshape([len(column) for column in read.values()])
    order = list(columns)
    return table[tuple(places[:, order.index(name)] for name in named)]


def _at(values: list[list[Any]], places: np.ndarray) -> list[Any]:
    return [column[place] for column, place in zip(values, places, strict=True)]


def _plain(case: Case) -> Case:
    return {
        name: value.value if isinstance(value, Named) else value for name, value in case.items()
    }


def _share(table: list[Case], library: Any) -> list[Case]:
    """Return the rows that an array library takes; numpy takes the odd ones in single precision."""
    if library is None or library.name == "array-api-strict" or len(table) == 1:
        return table
    return table[library.name == "numpy-float32" :: 2]


def over(table: Iterable[Case]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Run the test for every row of a table; fixtures come as ever.

    What a case changes with `monkeypatch` is undone before the next, and each has a folder of its
    own in `tmp_path`. Tables may be stacked, and then all rows of one meet all rows of the other.
    With the fixture `library` the strictest library takes all rows, and the others every second
    one.
    """
    table = list(table)

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        signature = inspect.signature(test)
        given = set(table[0])
        fixtures = [
            parameter for name, parameter in signature.parameters.items() if name not in given
        ]
        asks = "each" in signature.parameters
        if not asks:
            fixtures.append(inspect.Parameter("each", inspect.Parameter.KEYWORD_ONLY))

        @functools.wraps(test)
        def through_the_table(*args: Any, **kwargs: Any) -> None:
            each = kwargs["each"] if asks else kwargs.pop("each")
            folder = kwargs.get("tmp_path")
            for number, case in enumerate(each(_share(table, kwargs.get("library")))):
                if folder is not None:
                    kwargs["tmp_path"] = folder / str(number)
                    kwargs["tmp_path"].mkdir()
                if "monkeypatch" in kwargs:
                    with kwargs["monkeypatch"].context() as patch:
                        test(*args, **{**kwargs, "monkeypatch": patch}, **_plain(case))
                else:
                    test(*args, **kwargs, **_plain(case))

        through_the_table.__signature__ = signature.replace(parameters=fixtures)
        return through_the_table

    return decorate
