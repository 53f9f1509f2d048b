"""Which pairs count as unobserved, and predictions that were computed without the labels of their pairs."""

from __future__ import annotations

import numpy as np

from dyadlearn._array import to_numpy
from dyadlearn._messages import Message
from dyadlearn.diagnostics.fitted import held_out
from dyadlearn.models.fitted import Fitted
from dyadlearn.settings import Setting

# Method of predictions of the model itself.
FROM_ALL = "predicted from all observed labels"
# Why a model predicts nothing for some pairs, as the end of an error.
NO_CONSTANT = Message(
    "the tasks have no labels to estimate an intercept from. Use <fit_intercept=False>, or a model "
    "with task features."
)


def zeros_are_unobserved(values: np.ndarray, zeros: bool | None) -> bool:
    """Return whether zero labels count as not observed: `zeros`, or by default whether every pair has the label 0 or 1.

    Where labels are missing (NaN), pairs that are not observed are marked already, so that zeros
    are labels.
    """
    if zeros is not None:
        return bool(zeros)
    return bool(((values == 0) | (values == 1)).all())


def unobserved(labels: np.ndarray, zeros: bool) -> np.ndarray:
    """Return which labels are missing, or zero if zeros count as not observed."""
    missing = np.asarray(np.isnan(labels))
    return missing | (labels == 0) if zeros else missing


def labels_of_pairs(Y: np.ndarray, fitted: Fitted) -> np.ndarray:
    """Return the labels of a grid; for a network, leave out missing labels of a node with itself."""
    if not fitted.is_network:
        return Y
    is_self = np.eye(len(Y), dtype=bool)
    return np.asarray(Y[~(is_self & np.isnan(Y))])


def unused_predictions(
    fitted: Fitted, Y: np.ndarray, setting: Setting, cv: int | None, *, has_labels: bool
) -> tuple[np.ndarray, str]:
    """Return predictions (m, q) that were computed without the labels of their pairs, and the name of the method.

    Parameters
    ----------
    fitted : Fitted
    Y : array of shape (m, q)
        Labels; NaN means missing.
    setting : Setting
    cv : int or None
    has_labels : bool
        Whether pairs with a label are ranked: zeros that count as not observed, or observed pairs.

    Raises
    ------
    ValueError
        If a list of pairs is held out, of which each has a label.
    """
    labels = fitted.labels
    m, q = labels.shape
    # Hold-out predicts the pairs that have an entry among the labels: of a list, the observed ones.
    predicts_all = labels.observed.size == m * q
    if not predicts_all and setting is not Setting.A and not has_labels:
        raise ValueError(
            Message(
                "<setting={setting!r}> predicts each pair without labels of its rows, but "
                "hold-out of a list predicts only its {n_labels} observed pairs, which are not "
                "recommended: use <setting='A'>, or fit the model on a grid of {m} × {q} labels "
                "with NaN for missing ones.",
                setting=setting.value,
                n_labels=labels.size,
                m=m,
                q=q,
            )
        )
    completed = to_numpy(fitted.completed)
    if setting is Setting.A and not has_labels:
        # Missing labels were not used in training, so the model itself can predict them.
        return completed, FROM_ALL
    F, method = held_out(fitted, setting, cv)
    if setting is Setting.A:
        F = np.where(np.isnan(Y), completed, F)
    return F, method


def advice_on_zeros(zeros: bool) -> str:
    """Return advice for the end of an error: zeros may count as not observed, unless they do so already."""
    if zeros:
        return ""
    return Message("; use <zeros=True> if a zero means 'not observed'")
