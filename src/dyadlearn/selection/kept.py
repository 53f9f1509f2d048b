"""What a search keeps of the predictions that it was chosen by, and what simple means reach beside them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np
from sklearn.utils.validation import check_is_fitted

from dyadlearn._array import Array, as_array_of, is_sparse, to_numpy
from dyadlearn._tables import read_table
from dyadlearn.holdout import Units, plan
from dyadlearn.models._base import PairwiseRidge
from dyadlearn.selection.baselines import baseline_scores
from dyadlearn.selection.observed import prepared_score
from dyadlearn.settings import Setting, as_setting

__all__ = ["KeptHoldout"]


class KeptHoldout(PairwiseRidge, stored=False):
    """A model that keeps held-out predictions of one setting, in the file too."""

    setting: str
    scoring: Any

    holdout_: Any
    holdout_method_: str
    holdout_setting_: str
    # What left together for them, without which nothing else can be held out alike.
    _units: Units

    _shapes: ClassVar[Mapping[str, str]] = {**PairwiseRidge._shapes, "holdout_": "sparse m q"}

    def state(self) -> dict[str, Any]:
        """Return the parameters and what was learnt; held-out predictions as an array, whatever the labels came in."""
        found = super().state()
        if not hasattr(self, "holdout_") or self._is_listed:
            return found
        kept = self._kept_holdout(self._searched_setting)
        return found if kept is None else {**found, "holdout_": kept[0]}

    def _fits(self) -> bool:
        if not super()._fits():
            return False
        if not self._is_listed:
            return not is_sparse(self.holdout_) and self._units.fit(self._grid.values.shape)
        return self._keeps_pairs() and self._units.fit(self._grid.values.shape, (self._grid.values.nnz,))

    def _keeps_pairs(self) -> bool:
        """Tell whether what is kept are predictions of the pairs that are observed."""
        kept, labels = self.holdout_, self._grid.values
        return is_sparse(kept) and all(
            np.array_equal(getattr(kept, name), getattr(labels, name)) for name in ("indptr", "indices")
        )

    def _pose_again(self, changed: Mapping[str, Any]) -> None:
        super()._pose_again(changed)
        self.holdout_ = self.holdout_ if self._is_listed else self._grid.restore(self.holdout_)

    def _in_kept_form(self, held_out: Array) -> Any:
        """Return held-out predictions in the form that labels came in; of observed pairs as a sparse matrix."""
        if self._is_listed:
            return self._fitted_problem.labels.to_sparse(held_out)
        return self._grid.restore(self._home(held_out))

    @property
    def _searched_setting(self) -> Setting:
        """The setting that the regularisation was chosen for, whatever `setting` was set to since."""
        return as_setting(getattr(self, "holdout_setting_", self.setting))

    @property
    def baselines_(self) -> dict[str, float]:
        """What simple means reach in the setting of the search, held out as the predictions that it was chosen by."""
        check_is_fitted(self)
        setting = self._searched_setting
        kept = self._kept_holdout(setting)
        units = plan(self._problem(), setting).units if kept is None else kept[2]
        return baseline_scores(self._problem(), setting, units, self._score(setting))

    def _score(self, setting: Setting) -> Callable[[Any], Any]:
        """Return what the model was chosen by: a score of predictions (m, q), squared error where it names none."""
        scoring = "neg_mean_squared_error" if self.scoring is None else self.scoring
        return prepared_score(self._problem(), scoring, setting)

    def _kept_holdout(self, setting: Setting) -> tuple[Array, str, Units] | None:
        # Nothing of another setting than that of the search, nor after a file that kept less.
        if setting is not self._searched_setting or not hasattr(self, "holdout_"):
            return None
        if self._is_listed:
            like = self._problem().targets
            return as_array_of(self.holdout_.data, like, like.dtype), self.holdout_method_, self._units
        Y = self._grid.values
        kept = to_numpy(read_table(self.holdout_, "holdout_").values).reshape(Y.shape[0], -1)
        # Ids of rows may stand in a first column.
        return as_array_of(kept[:, -Y.shape[1] :], Y, Y.dtype), self.holdout_method_, self._units
