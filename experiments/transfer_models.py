r"""The approaches of the second experiment (`transfer.py`), for all target tasks at once.

Every task is the target in turn, but no model is fitted for each of them: what a model would
predict had it not seen column t, or only some of its rows, comes for all t together out of
operators of the tasks. With
:math:`\mathbf{H}` the hat matrix of a side, :math:`\mathbf{R} = \mathbf{I} - \mathbf{H}`,
:math:`\mathbf{e} = \mathrm{diag}\,\mathbf{R}` and :math:`\mathbf{L}` the leave-one-out operator:

========================  =============================================================================================
zero-shot, two-step       :math:`\mathbf{P}\mathbf{Y}\mathbf{L}_g^\top`, with P the map from
training to test instances zero-shot, Kronecker      instances rotated, each is a ridge problem over
the tasks: leave one out of it almost zero-shot          the block of missing labels in closed form
(`dyadlearn.solve.columns`)
========================  =============================================================================================

All regularisations are chosen by squared error of exact leave-one-out predictions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property

import numpy as np

from dyadlearn import landscape
from dyadlearn.filters import Tikhonov
from dyadlearn.holdout import Problem, holdout
from dyadlearn.pairing import Kronecker, TwoStep
from dyadlearn.solve.columns import step_over_instances
from dyadlearn.solve.leaving import column_weights, leave_out_columns
from dyadlearn.spectrum import Spectrum

# Pairs of regularisations are worked on in arrays of about this many numbers, which stay in the
# cache.
_BLOCK_NUMBERS = 2**18


class Tasks:
    r"""The tasks under each of t regularisations: what no training set changes.

    Attributes
    ----------
    hats, residuals, others : arrays of shape (q, t, q)
        :math:`\mathbf{H}_g`, :math:`\mathbf{R}_g` and the hat with a zero diagonal, one regularisation after the other.
    leverage, slack : arrays of shape (t, q)
        Diagonals of the first two.
    """

    def __init__(self, G: np.ndarray, alphas: Sequence[float]) -> None:
        self.G = G
        self.alphas = alphas
        self.spectrum = Spectrum.from_gram(G)
        sides = [self.spectrum.smoother(Tikhonov(), alpha) for alpha in alphas]
        self.leverage = np.stack([side.leverage for side in sides])
        self.slack = np.stack([side.slack for side in sides])
        self.hats = np.stack([side.hat() for side in sides], axis=1)
        self.residuals = np.stack([side.residual() for side in sides], axis=1)
        self.others = np.stack([side.off_diagonal() for side in sides], axis=1)

    @cached_property
    def without_two(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        r"""What leaves out two columns, j and the target t: see `new_both_errors`.

        :math:`\alpha_{jt} = e_t/\Delta_{jt}` and :math:`\beta_{jt} = r_{jt}/\Delta_{jt}`, zero for j = t, with
        :math:`\Delta_{jt} = e_j e_t - r_{jt}^2`; then
        :math:`\mathbf{R}_g(\boldsymbol\alpha\circ\boldsymbol\beta) - \boldsymbol\beta`. All of shape (q, t, q).
        """
        determinant = self.slack.T[:, :, None] * self.slack - self.residuals**2
        diagonal = np.arange(len(self.G))
        determinant[diagonal, :, diagonal] = np.inf
        alpha = self.slack / determinant
        beta = self.residuals / determinant
        stack = zip(
            *(np.moveaxis(part, 1, 0) for part in (self.residuals, alpha, beta)), strict=True
        )
        return alpha, beta, np.stack([R @ (a * b) - b for R, a, b in stack], axis=1)


def pick(operators: np.ndarray, choice: np.ndarray) -> np.ndarray:
    """Return (q, q): each column from the operator (q, t, q) under the regularisation chosen for it (q,)."""
    return operators[:, choice, np.arange(operators.shape[2])]


class Training:
    r"""Training instances with their labels, under each of a regularisations, and what leads to the test instances.

    Parameters
    ----------
    K : array of shape (n, n)
    Y : array of shape (n, q)
    K_test : array of shape (r, n)
    alphas : sequence of a floats
    """

    def __init__(
        self, K: np.ndarray, Y: np.ndarray, K_test: np.ndarray, alphas: Sequence[float]
    ) -> None:
        self.Y = Y
        self.K_test = K_test
        self.alphas = alphas
        self.spectrum = Spectrum.from_gram(K)
        self.sides = [self.spectrum.smoother(Tikhonov(), alpha) for alpha in alphas]
        self.rotated = self.spectrum.rotate(Y)
        self.reach = K_test @ self.spectrum.vectors
        values = self.spectrum.values
        # On null directions every kernel row is zero: there 1/λ would only amplify rounding.
        self.phi = np.where(values[:, None] > 0, 1.0 / (values[:, None] + np.array(alphas)), 0.0)

    def predict(self, labels: np.ndarray, choice: np.ndarray) -> np.ndarray:
        """Return ridge predictions (r, q) for the test instances, each column (n, q) by the regularisation chosen."""
        return self.reach @ (self.phi[:, choice] * self.spectrum.rotate(labels))

    def two_step(self, tasks: Spectrum) -> TwoStep:
        """Return two-step ridge regression with some tasks, both sides under a regularisation of one."""
        return TwoStep(self.spectrum.smoother(Tikhonov(), 1.0), tasks.smoother(Tikhonov(), 1.0))

    def kronecker(self, tasks: Spectrum, alpha: float = 1.0) -> Kronecker:
        """Return Kronecker ridge regression with some tasks."""
        return Kronecker(self.spectrum, tasks, alpha)


def _squares(errors: np.ndarray) -> np.ndarray:
    """Return sums of squares over the instances, the first axis."""
    return np.einsum("i...,i...->...", errors, errors)


def _products(
    operators: Iterator[np.ndarray], Y: np.ndarray, right: np.ndarray
) -> Iterator[tuple[int, slice, np.ndarray]]:
    """Yield P_a Y W_b for all pairs of instance operators (n, n) and task operators (q, t, c), some b at a time.

    Of the two products the one that makes the smaller matrix comes first.
    """
    n, q = Y.shape
    _, t, c = right.shape
    step = max(1, _BLOCK_NUMBERS // (n * c))
    half = (Y @ right.reshape(q, t * c)).reshape(n, t, c) if n < q else None
    for a, operator in enumerate(operators):
        left, factor = (operator @ Y, right) if half is None else (operator, half)
        for start in range(0, t, step):
            block = slice(start, min(start + step, t))
            yield a, block, (left @ factor[:, block].reshape(factor.shape[0], -1)).reshape(n, -1, c)


def independent_errors(training: Training) -> np.ndarray:
    """Return leave-one-out errors (a, q) of every task on its own."""
    held_out = (side.leave_one_out(training.Y, training.rotated) for side in training.sides)
    return np.stack([_squares(grid - training.Y) for grid in held_out])


def pair_errors(training: Training, tasks: Tasks) -> np.ndarray:
    r"""Return the errors (a, t, q) of each column in setting A, two-step.

    .. math:: Y - F_A = \frac{\mathbf{R}_k\mathbf{Y}\mathbf{H}_g + \mathbf{Y}\mathbf{R}_g}
                             {\mathbf{e}_k\mathbf{1}^\top + \mathbf{h}_k\mathbf{e}_g^\top}
    """
    Y = training.Y
    n, q = training.Y.shape
    errors = np.empty((len(training.alphas), len(tasks.alphas), q))
    rest = (Y @ tasks.residuals.reshape(q, -1)).reshape(n, -1, q)
    residuals = (side.residual() for side in training.sides)
    for a, block, numerator in _products(residuals, Y, tasks.hats):
        side = training.sides[a]
        numerator += rest[:, block]
        numerator /= side.slack[:, None, None] + side.leverage[:, None, None] * tasks.slack[block]
        errors[a, block] = _squares(numerator)
    return errors


def completed_errors(training: Training, tasks: Tasks, changes: np.ndarray) -> np.ndarray:
    r"""Return the errors (a, t, q, s) of `pair_errors` in the column of each target, once its labels have changed.

    Where task t is the target its labels, and only its, gain :math:`\boldsymbol\delta_t`, by which
    the numerator of its column gains :math:`h\mathbf{R}_k\boldsymbol\delta_t +
    e\boldsymbol\delta_t`, with h and e the leverage and slack of the task. The square is multiplied
    out: with the denominators as weights, all s changes are then one product.

    Parameters
    ----------
    training : Training
    tasks : Tasks
    changes : array of shape (q, s, n)
        The :math:`\boldsymbol\delta_t`, s of them for each target.
    """
    Y = training.Y
    n, q = training.Y.shape
    t = len(tasks.alphas)
    errors = np.empty((len(training.alphas), t, q, changes.shape[1]))
    step = max(1, 4 * _BLOCK_NUMBERS // (n * (t + changes.shape[1])))
    # Arrays of shape (targets, t, n): the operators are symmetric, so that their rows are their
    # columns.
    rest = (tasks.residuals.reshape(-1, q) @ Y.T).reshape(q, t, n)
    for a, side in enumerate(training.sides):
        R = side.residual()
        labels = Y.T @ R
        for start in range(0, q, step):
            here = slice(start, min(start + step, q))
            delta = changes[here]
            shrunk = (delta.reshape(-1, n) @ R).reshape(delta.shape)
            numerator = rest[here] + (tasks.hats[here].reshape(-1, q) @ labels).reshape(-1, t, n)
            h = tasks.leverage.T[here, :, None]
            e = tasks.slack.T[here, :, None]
            weights = 1.0 / (side.slack + side.leverage * e) ** 2
            weighted = weights * numerator
            errors_here = np.sum(weighted * numerator, axis=-1, keepdims=True)
            for factor, left, right in (
                (2 * h, weighted, shrunk),
                (2 * e, weighted, delta),
                (h**2, weights, shrunk**2),
                (2 * h * e, weights, shrunk * delta),
                (e**2, weights, delta**2),
            ):
                errors_here = errors_here + factor * (left @ right.transpose(0, 2, 1))
            errors[a, :, here] = errors_here.transpose(1, 0, 2)
    return errors


def new_instance_errors(training: Training, tasks: Tasks) -> np.ndarray:
    """Return mean errors (a, t) over the whole grid in setting B, two-step."""
    problem = Problem.of(training.two_step(tasks.spectrum), training.Y)
    return -landscape(
        problem, alphas=training.alphas, task_alphas=tasks.alphas, setting="B", progress=False
    )["B"]


def new_both_errors(training: Training, tasks: Tasks) -> np.ndarray:
    r"""Return the errors (a, t, q) of two-step in setting D on the auxiliary tasks, whichever task is the target.

    A model that saw neither column j nor the target t errs in column j, over all instances, by

    .. math:: \mathbf{a}_j + \frac{e_t\mathbf{E}_j - r_{jt}\mathbf{E}_t}{e_j e_t - r_{jt}^2}, \qquad
              \mathbf{a} = \mathbf{Y} - \mathbf{L}_k\mathbf{Y},\ \mathbf{E} =
              \mathbf{L}_k\mathbf{Y}\mathbf{R}_g,\ \mathbf{r} = \mathbf{R}_g.

    With :math:`\alpha` and :math:`\beta` the two factors, the sum of their squares over the
    instances and over j is one of columns, but for
    :math:`-2\sum_i\mathbf{E}\circ(\mathbf{a}\boldsymbol\beta
    + \mathbf{E}(\boldsymbol\alpha\circ\boldsymbol\beta))`, which takes one product beside E.
    """
    Y = training.Y
    n, q = training.Y.shape
    t = len(tasks.alphas)
    alpha, beta, mixed = tasks.without_two
    rest = (Y @ beta.reshape(q, -1)).reshape(n, t, q)
    residuals = [Y - side.leave_one_out(Y, training.rotated) for side in training.sides]
    norms, crosses, errors = (np.empty((len(training.alphas), t, q)) for _ in range(3))
    left_out = (side.off_diagonal() / side.slack[:, None] for side in training.sides)
    for a, block, product in _products(
        left_out, Y, np.concatenate([tasks.residuals, mixed], axis=2)
    ):
        E = product[..., :q]
        turned = product[..., q:]
        turned += rest[:, block]
        norms[a, block] = _squares(E)
        crosses[a, block] = np.einsum("ij,ibj->bj", residuals[a], E)
        errors[a, block] = -2 * np.einsum("ibj,ibj->bj", E, turned)
    totals = np.stack([_squares(grid) for grid in residuals])
    errors += (totals.sum(axis=1, keepdims=True) - totals)[:, None, :] + np.sum(
        beta**2, axis=0
    ) * norms
    for b in range(t):
        errors[:, b] += 2 * crosses[:, b] @ alpha[:, b] + norms[:, b] @ alpha[:, b] ** 2
    return errors


def kronecker_errors(training: Training, tasks: Tasks) -> np.ndarray:
    """Return the errors (a, q) of each column in setting A, Kronecker."""
    problem = Problem.of(training.kronecker(tasks.spectrum), training.Y)
    held_out = (holdout(problem.at(alpha), "A") for alpha in training.alphas)
    return np.stack([_squares(grid - training.Y) for grid in held_out])


def best(errors: np.ndarray) -> tuple[np.ndarray, ...]:
    """Return where each column (…, q) has its smallest error: one position (q,) for each other axis."""
    shape = errors.shape[:-1]
    return np.unravel_index(errors.reshape(-1, errors.shape[-1]).argmin(axis=0), shape)


def of_all(errors: np.ndarray) -> np.ndarray:
    """Return the errors (…, q) of all columns together, the same for every target."""
    return np.broadcast_to(errors.sum(axis=-1, keepdims=True), errors.shape)


def of_others(errors: np.ndarray) -> np.ndarray:
    """Return the errors (…, q) of all columns but the target."""
    return errors.sum(axis=-1, keepdims=True) - errors


def two_step_multi_task(
    training: Training, tasks: Tasks, choice: Sequence[np.ndarray]
) -> np.ndarray:
    """Return predictions (r, q) for test instances and tasks with training labels."""
    return training.predict(training.Y @ pick(tasks.hats, choice[1]), choice[0])


def two_step_zero_shot(
    training: Training, tasks: Tasks, choice: Sequence[np.ndarray]
) -> np.ndarray:
    """Return predictions (r, q) for test instances, each task predicted by a model that saw the others only."""
    q = training.Y.shape[1]
    new = pick(tasks.others, choice[1]) / tasks.slack[choice[1], np.arange(q)]
    return training.predict(training.Y @ new, choice[0])


def kronecker_multi_task(training: Training, tasks: Tasks, choice: int) -> np.ndarray:
    """Return predictions (r, q) for test instances and tasks with training labels, by one regularisation."""
    model = training.kronecker(tasks.spectrum, training.alphas[choice])
    return training.K_test @ model.coefficients(training.Y) @ tasks.G


def kronecker_zero_shot(training: Training, tasks: Tasks, choice: np.ndarray) -> np.ndarray:
    r"""Return predictions (r, q) for test instances, each task predicted by a model that saw the others only.

    With :math:`\mathbf{K} = \mathbf{U}\,\mathrm{diag}(\boldsymbol\sigma)\mathbf{U}^\top`, row i of
    :math:`\mathbf{U}^\top\mathbf{Y}` is a ridge problem of its own over the tasks with kernel
    :math:`\sigma_i\mathbf{G}`, out of which every task can be left at once. Divided by :math:`\sigma_i`, what is
    predicted there are coefficients for new instances.
    """
    values = training.spectrum.values
    rows = training.rotated.T
    inverse = np.where(values > 0, 1.0 / np.where(values > 0, values, 1.0), 0.0)
    predictions = np.empty((len(training.K_test), rows.shape[0]))
    for index in np.unique(choice):
        weights, direct = column_weights(
            tasks.spectrum, values, np.array([[training.alphas[index]]])
        )
        weighted = (weights, direct, rows, tasks.spectrum.rotate(rows))
        left_out = leave_out_columns(tasks.spectrum, *weighted, None, 0.0)[0]
        targets = choice == index
        predictions[:, targets] = training.reach @ (left_out[targets] * inverse).T
    return predictions


def impute(
    training: Training, tasks: Tasks, n_observed: int, choice: Sequence[np.ndarray]
) -> np.ndarray:
    """Return what two-step puts in the place of each task's labels (n - n_observed, q) beyond the first ones.

    Of the other tasks all labels are known, and each has regularisations of its own.
    """
    missing = np.arange(n_observed, len(training.Y))
    S_observed = training.Y[:n_observed] @ pick(tasks.hats, choice[1])
    S_missing = training.Y[n_observed:] @ pick(tasks.others, choice[1])
    slack = tasks.slack[choice[1], np.arange(training.Y.shape[1])]
    filled = np.empty(S_missing.shape)
    for index in np.unique(choice[0]):
        targets = choice[0] == index
        columns = (S_observed[:, targets], S_missing[:, targets], slack[targets])
        filled[:, targets] = step_over_instances(training.sides[index], missing, *columns)
    return filled


def almost_zero_shot(
    training: Training, tasks: Tasks, sizes: Sequence[int], choices: Sequence[Sequence[np.ndarray]]
) -> np.ndarray:
    """Return predictions (s, r, q) for test instances where each task in turn has only its first labels.

    Parameters
    ----------
    training : Training
        With all labels.
    tasks : Tasks
    sizes : sequence of s ints
        How many labels the target has.
    choices : sequence of s pairs of arrays of shape (q,)
        Positions of the regularisations that impute the others. Those that predict from the
        completed labels are chosen here, by the errors of the completed column.
    """
    q = training.Y.shape[1]
    changes = np.zeros((len(sizes), *training.Y.shape))
    for change, size, choice in zip(changes, sizes, choices, strict=True):
        change[size:] = impute(training, tasks, size, choice) - training.Y[size:]
    errors = completed_errors(training, tasks, np.ascontiguousarray(changes.transpose(2, 0, 1)))
    predictions = []
    for index, change in enumerate(changes):
        a, b = best(errors[..., index])
        smoothed = training.Y @ pick(tasks.hats, b) + change * tasks.leverage[b, np.arange(q)]
        predictions.append(training.predict(smoothed, a))
    return np.stack(predictions)


def choice_without(method: str, training: Training, tasks: Tasks, target: int) -> tuple[int, ...]:
    """Return the regularisations that setting A chooses on a grid without the target, as if it were not there.

    For zero-shot learning `best(of_others(…))` stands for this: it leaves the errors of the target
    out, but its labels take part in the predictions of the others.
    """
    kept = np.delete(np.arange(training.Y.shape[1]), target)
    auxiliary = Spectrum.from_gram(tasks.G[np.ix_(kept, kept)])
    if method == "kronecker":
        pairing = training.kronecker(auxiliary)
    else:
        pairing = training.two_step(auxiliary)
    problem = Problem.of(pairing, training.Y[:, kept])
    scores = landscape(
        problem, alphas=training.alphas, task_alphas=tasks.alphas, setting="A", progress=False
    )["A"]
    return tuple(int(index) for index in np.unravel_index(scores.argmax(), scores.shape))


def curves(
    K: np.ndarray,
    Y: np.ndarray,
    tasks: Tasks,
    train: np.ndarray,
    test: np.ndarray,
    sizes: Sequence[int],
    alphas: Sequence[float],
) -> Iterator[tuple[str, int, np.ndarray]]:
    """Yield (approach, position of the size, predictions (r, q) of all targets) for growing training sets.

    Parameters
    ----------
    K : array of shape (m, m)
    Y : array of shape (m, q)
    tasks : Tasks
    train, test : integer arrays
        Training instances in the order in which they are added, and the r test instances.
    sizes : sequence of ints
        Ascending; the last is what auxiliary tasks have where their amount is fixed.
    alphas : sequence of floats
    """
    choices = []
    training = None
    for index, size in enumerate(sizes):
        rows = train[:size]
        training = Training(K[np.ix_(rows, rows)], Y[rows], K[np.ix_(test, rows)], alphas)
        yield (
            "independent",
            index,
            training.predict(training.Y, *best(independent_errors(training))),
        )
        errors = kronecker_errors(training, tasks)
        yield (
            "multi_kronecker_A",
            index,
            kronecker_multi_task(training, tasks, int(best(of_all(errors))[0][0])),
        )
        yield (
            "zero_kronecker_A",
            index,
            kronecker_zero_shot(training, tasks, *best(of_others(errors))),
        )
        errors = pair_errors(training, tasks)
        choices.append(best(errors))
        yield "multi_two_step_A", index, two_step_multi_task(training, tasks, best(of_all(errors)))
        yield "zero_two_step_A", index, two_step_zero_shot(training, tasks, best(of_others(errors)))
        errors = np.repeat(new_instance_errors(training, tasks)[..., None], Y.shape[1], axis=-1)
        yield "multi_two_step_B", index, two_step_multi_task(training, tasks, best(errors))
        yield (
            "zero_two_step_D",
            index,
            two_step_zero_shot(training, tasks, best(new_both_errors(training, tasks))),
        )
    assert training is not None
    for index, predictions in enumerate(almost_zero_shot(training, tasks, sizes, choices)):
        yield "almost", index, predictions
