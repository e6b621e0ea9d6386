"""Reward over progress for several runs at once: one law in model size, initial performance and progress.

Two forms, after arXiv 2507.18014 and its follow-up; their constants were not published, so all of them are fitted here:

- `sigmoid`:     R = a·r₀ + b·ln M + c + g / (1 + exp(−d (t − t₀)))
- `saturation`:  R = r₀ + (R_∞ − r₀)(1 − exp(−t / (κ M^γ))),  R_∞ = c₀ + c₁·r₀ + c₂·ln M

with the size M, the reward r₀ at the start, and progress t. Both are linear but for two constants, which are taken from
a grid. What several runs of one size, or of one start, cannot tell is left out of the law.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t as student

from grpodyn.errors import MissingDataError, UsageError
from grpodyn.statistics.interval import Interval

Floats = NDArray[np.float64]

LEAST_RUNS = 4
LEAST_SIZES = 3
"""Different sizes before a law may say anything about size."""
_POINTS = 40
_SAME_START = 0.02
"""Starts that lie closer together than this tell nothing about what a start is worth."""
LEVEL = 0.8


@dataclass(frozen=True)
class Trajectory:
    """One run, as a law sees it."""

    name: str
    size: float
    """Parameters of the model."""
    initial: float
    """Reward before training."""
    progress: Floats
    """In units common to all runs."""
    reward: Floats

    @property
    def final(self) -> float:
        """Mean reward over the last tenth of the run."""
        return float(self.reward[-max(1, len(self.reward) // 10) :].mean())


@dataclass(frozen=True)
class Law:
    """A form with its constants."""

    form: str
    constants: Mapping[str, float]
    rmse: float
    """On the runs it was fitted to."""
    left_out_rmse: float
    """Root mean square error over a run that was left out, over all runs."""
    left_out_final: Mapping[str, float]
    """Error of each run's final reward, predicted without it."""
    left_out_constants: tuple[Mapping[str, float], ...]
    """Constants fitted without each run: how far they differ says how firmly they are known."""

    def predict(self, size: float, initial: float, progress: Floats) -> Floats:
        """Return the reward of a run of that size and start at each progress."""
        return _FORMS[self.form].predict(self.constants, size, initial, progress)


@dataclass(frozen=True)
class Scaling:
    """Laws of several runs, the better first, and what they are worth."""

    laws: tuple[Law, ...]
    knows_size: bool
    knows_start: bool
    baseline_rmse: float
    """The same error of the naive guess: the start plus the others' mean gain at that progress."""

    @property
    def best(self) -> Law:
        """The law with the smaller error on runs that were left out."""
        return self.laws[0]

    @property
    def helps(self) -> bool:
        """Whether the law beats the naive guess on runs that it was not fitted to."""
        return self.best.left_out_rmse < self.baseline_rmse

    def forecast(self, size: float, initial: float, progress: float) -> Interval:
        """Return the reward of a model that was not run.

        The interval rests on the errors on runs left out, on how far the forecasts of the fits without each run lie
        apart (the jackknife), and on what the other form says, as far as that is as good.
        """
        value = float(self.best.predict(size, initial, np.array([progress]))[0])
        errors = np.array(list(self.best.left_out_final.values()))
        n, form = len(errors), _FORMS[self.best.form]
        without = [form.predict(one, size, initial, np.array([progress]))[0] for one in self.best.left_out_constants]
        variance = float(np.mean(errors**2)) + (n - 1) * float(np.var(without))
        for other in self.laws[1:]:
            apart = float(other.predict(size, initial, np.array([progress]))[0]) - value
            variance += apart**2 * (self.best.left_out_rmse / max(other.left_out_rmse, 1e-300)) ** 2
        half = float(student.ppf(0.5 + LEVEL / 2, n - 1)) * float(np.sqrt(variance))
        return Interval(value, value - half, value + half, LEVEL)


def trajectory(name: str, size: float, progress: Floats, reward: Floats, initial: float | None = None) -> Trajectory:
    """Return a run as a law sees it: averaged in blocks, so that a run with more points does not count for more."""
    if len(reward) < 4:
        raise MissingDataError(f"{name} has {len(reward)} rewards; a law needs at least 4 of each run")
    blocks = np.array_split(np.arange(len(reward)), min(_POINTS, len(reward)))
    start = float(reward[: max(1, len(reward) // 20)].mean()) if initial is None else initial
    return Trajectory(
        name,
        size,
        start,
        np.array([progress[block].mean() for block in blocks]),
        np.array([reward[block].mean() for block in blocks]),
    )


def fit_scaling(runs: Sequence[Trajectory]) -> Scaling:
    """Fit both forms to all runs, and again to all but each one.

    Raises:
        UsageError: too few runs, or one of them twice.
    """
    if len(runs) < LEAST_RUNS:
        raise UsageError(
            f"{len(runs)} runs given; a law over runs needs at least {LEAST_RUNS}, better of different sizes"
        )
    names = [run.name for run in runs]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise UsageError(f"{', '.join(twice)} is given twice: left out, it would still be fitted to; give it once")
    sizes = {round(np.log(run.size), 3) for run in runs if run.size > 0}
    knows = _Knows(len(sizes) >= LEAST_SIZES, float(np.std([run.initial for run in runs])) >= _SAME_START)
    laws = sorted((_law(form, runs, knows) for form in _FORMS), key=lambda law: law.left_out_rmse)
    return Scaling(tuple(laws), knows.size, knows.start, _naive_rmse(runs))


@dataclass(frozen=True)
class _Knows:
    size: bool
    start: bool


def _law(form: str, runs: Sequence[Trajectory], knows: _Knows) -> Law:
    constants = _fit(form, runs, knows)
    squares, finals, fitted = [], {}, []
    for left_out in runs:
        others = [run for run in runs if run is not left_out]
        fitted.append(_fit(form, others, knows))
        predicted = _FORMS[form].predict(fitted[-1], left_out.size, left_out.initial, left_out.progress)
        squares.append(float(np.mean((predicted - left_out.reward) ** 2)))
        finals[left_out.name] = float(predicted[-1] - left_out.final)
    whole = [
        float(np.mean((_FORMS[form].predict(constants, run.size, run.initial, run.progress) - run.reward) ** 2))
        for run in runs
    ]
    return Law(form, constants, float(np.sqrt(np.mean(whole))), float(np.sqrt(np.mean(squares))), finals, tuple(fitted))


def _naive_rmse(runs: Sequence[Trajectory]) -> float:
    squares = []
    for left_out in runs:
        gains = [
            np.interp(left_out.progress, run.progress, run.reward - run.initial) for run in runs if run is not left_out
        ]
        predicted = left_out.initial + np.mean(gains, axis=0)
        squares.append(float(np.mean((predicted - left_out.reward) ** 2)))
    return float(np.sqrt(np.mean(squares)))


@dataclass(frozen=True)
class _Form:
    names: tuple[str, str]
    """The two constants that are not linear."""
    grids: Callable[[Floats, bool], tuple[Floats, Floats]]
    """From all progress, and whether sizes are known."""
    columns: Callable[[float, float, Trajectory, _Knows], dict[str, Floats]]
    target: Callable[[Trajectory, float, float], Floats]
    predict: Callable[[Mapping[str, float], float, float, Floats], Floats]


def _fit(form: str, runs: Sequence[Trajectory], knows: _Knows) -> dict[str, float]:
    """Return the constants of least squares, every run weighing the same."""
    law = _FORMS[form]
    first, second = law.grids(np.concatenate([run.progress for run in runs]), knows.size)
    weights = np.concatenate([np.full(len(run.reward), len(run.reward) ** -0.5) for run in runs])
    best: tuple[float, dict[str, float]] = (np.inf, {})
    for one in first:
        for two in second:
            parts = [law.columns(one, two, run, knows) for run in runs]
            names = list(parts[0])
            x = np.stack([np.concatenate([part[name] for part in parts]) for name in names], axis=1)
            y = np.concatenate([law.target(run, one, two) for run in runs])
            solution, *_ = np.linalg.lstsq(x * weights[:, None], y * weights, rcond=None)
            rest = float((((y - x @ solution) * weights) ** 2).sum())
            if rest < best[0]:
                linear = dict(zip(names, (float(value) for value in solution), strict=True))
                best = rest, {**linear, law.names[0]: float(one), law.names[1]: float(two)}
    return best[1]


def _log_size(size: float) -> float:
    """Return ln M in billions of parameters."""
    return float(np.log(size / 1e9)) if size > 0 else 0.0


# sigmoid


def _sigmoid_share(d: float, t0: float, t: Floats) -> Floats:
    share: Floats = 1 / (1 + np.exp(-np.clip(d * (t - t0), -60, 60)))
    return share


def _sigmoid_columns(d: float, t0: float, run: Trajectory, knows: _Knows) -> dict[str, Floats]:
    ones = np.ones(len(run.reward))
    columns = {"c": ones, "g": _sigmoid_share(d, t0, run.progress)}
    if knows.start:
        columns["a"] = run.initial * ones
    if knows.size:
        columns["b"] = _log_size(run.size) * ones
    return columns


def _sigmoid_predict(constants: Mapping[str, float], size: float, initial: float, t: Floats) -> Floats:
    level = constants["c"] + constants.get("a", 0.0) * initial + constants.get("b", 0.0) * _log_size(size)
    return level + constants["g"] * _sigmoid_share(constants["d"], constants["t0"], t)


def _sigmoid_grids(progress: Floats, knows_size: bool) -> tuple[Floats, Floats]:
    top = float(progress.max())
    return np.geomspace(2 / top, 60 / top, 16), np.linspace(-0.1 * top, top, 23)


# saturation


def _saturation_share(kappa: float, gamma: float, size: float, t: Floats) -> Floats:
    constant = kappa * (size / 1e9) ** gamma if size > 0 else kappa
    share: Floats = -np.expm1(-t / constant)
    return share


def _saturation_columns(kappa: float, gamma: float, run: Trajectory, knows: _Knows) -> dict[str, Floats]:
    share = _saturation_share(kappa, gamma, run.size, run.progress)
    columns = {"c0": share}
    if knows.start:
        columns["c1"] = run.initial * share
    if knows.size:
        columns["c2"] = _log_size(run.size) * share
    return columns


def _saturation_target(run: Trajectory, kappa: float, gamma: float) -> Floats:
    return run.reward - run.initial * (1 - _saturation_share(kappa, gamma, run.size, run.progress))


def _saturation_predict(constants: Mapping[str, float], size: float, initial: float, t: Floats) -> Floats:
    share = _saturation_share(constants["kappa"], constants["gamma"], size, t)
    end = constants["c0"] + constants.get("c1", 0.0) * initial + constants.get("c2", 0.0) * _log_size(size)
    return initial + (end - initial) * share


def _saturation_grids(progress: Floats, knows_size: bool) -> tuple[Floats, Floats]:
    top = float(progress.max())
    # The follow-up's exponent of the time constant is .3; ours is fitted.
    return np.geomspace(0.02 * top, 5 * top, 30), np.linspace(-0.6, 0.9, 16) if knows_size else np.zeros(1)


_FORMS: Mapping[str, _Form] = {
    "sigmoid": _Form(("d", "t0"), _sigmoid_grids, _sigmoid_columns, lambda run, d, t0: run.reward, _sigmoid_predict),
    "saturation": _Form(
        ("kappa", "gamma"), _saturation_grids, _saturation_columns, _saturation_target, _saturation_predict
    ),
}
