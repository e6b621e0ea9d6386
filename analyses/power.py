"""How many prompts, samples and seeds a difference needs, from the noise of recorded runs, and what they could see."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from grpodyn.analysis import Analysis
from grpodyn.arms.arm import Arm, arms_of
from grpodyn.arms.plan import Power, plan
from grpodyn.arms.planning import Design, Noise
from grpodyn.errors import MissingDataError
from grpodyn.evaluation.records import ACCURACY, PASS_AT
from grpodyn.groups import outcomes
from grpodyn.series.columns import evaluation

if TYPE_CHECKING:
    from grpodyn.trace.reader import Run

_PROMPTS = 1000
"""Held-out prompts where a run does not say how many it has."""
_LAST_SHARE = 0.25
"""Of a run without evaluations, the rollouts of this last share of the steps stand in."""


class PowerAnalysis(Analysis):
    """Sizes of comparisons from the noise of runs."""

    name: ClassVar[str] = "power"
    title: ClassVar[str] = (
        "How many prompts, samples and seeds a difference needs, and what a comparison could have seen"
    )
    requires: ClassVar[tuple[str, ...]] = ()
    reference: ClassVar[str] = "Cohen, Statistical Power Analysis for the Behavioral Sciences (1988), chapters 2 and 6."

    def run(self, run: Run, **options: Any) -> Power:
        """Return the `Power` of comparing two arms as noisy as `run` and the runs in the option `others`.

        Other options: `difference` (default .05), `prompts`, `samples` (0 for exact chances), `seeds`, `seed_spread`,
        `correlation`, `level`, `chance`; each replaces what the runs say.

        Raises:
            MissingDataError: a run holds neither held-out accuracies nor rollouts with right and wrong.
            UsageError: a value that makes no sense.
        """
        runs = (run, *options.get("others", ()))
        arms = arms_of(runs)
        between, within, basis = _prompt_noise(runs[-1])
        seed, seed_basis = _seed_noise(arms)
        spread = options.get("seed_spread")
        noise = Noise(2 * between, 2 * within, seed if spread is None else float(spread))
        design = _design(runs, arms, options)
        said = (basis, "the spread of seeds was given" if spread is not None else seed_basis)
        return plan(noise, design, _given(options, "difference", 0.05), said, **_risks(options))


def _risks(options: dict[str, Any]) -> dict[str, float]:
    return {key: float(options[key]) for key in ("level", "chance") if options.get(key) is not None}


def _design(runs: Sequence[Run], arms: Sequence[Arm], options: dict[str, Any]) -> Design:
    exact = evaluation(runs[-1], ACCURACY) is not None
    return Design(
        prompts=_given(options, "prompts", _held_out_prompts(runs[0])),
        samples=_given(options, "samples", 0 if exact else 1) or None,
        seeds=_given(options, "seeds", min(len(arm.runs) for arm in arms)),
        correlation=_given(options, "correlation", 0.0),
    )


def _given(options: dict[str, Any], name: str, otherwise: Any) -> Any:
    """Return an option, or what stands in for one that is not given; 0 is given, and judged where it is used."""
    value = options.get(name)
    return otherwise if value is None else type(otherwise)(value)


def _held_out_prompts(run: Run) -> int:
    stated = run.manifest.section("evaluate").get("prompts")
    return stated if type(stated) is int and stated > 0 else _PROMPTS


def _prompt_noise(run: Run) -> tuple[float, float, str]:
    """Return the variance of the solve rate over prompts, that of an answer to a prompt, and where they come from.

    pass@2 is E[1 − (1 − p)²], so that 2 pass@1 − pass@2 is E[p²]; of sampled groups, pairs of completions say the same.
    """
    one, two = evaluation(run, ACCURACY), evaluation(run, f"{PASS_AT}2")
    if one is not None and two is not None:
        mean, second = _last(one[1]), 2 * _last(one[1]) - _last(two[1])
        return max(0.0, second - mean**2), mean - second, f"{run.path}: held-out pass@1 {mean:.3f} and pass@2"
    if run.rows["rollouts"]:
        groups = outcomes.read(run)
        groups = groups.between(int(groups.step.max() * (1 - _LAST_SHARE)), None)
        if groups.right is not None:
            right, g = groups.right.astype(np.float64), groups.g
            mean, second = float(right.mean() / g), float((right * (right - 1)).mean() / (g * (g - 1)))
            where = f"{run.path}: training rollouts from step {groups.step.min()} on, solve rate {mean:.3f}"
            return max(0.0, second - mean**2), mean - second, where
    raise MissingDataError(
        f"{run.path} holds neither held-out pass@1 and pass@2 nor rollouts that tell right from wrong; give `--base` "
        "and no run, or record with `evaluate`"
    )


def _last(values: Any) -> float:
    finite = values[np.isfinite(values)]
    if not finite.size:
        raise MissingDataError("the held-out accuracy was never finite; give `--base` and no run")
    return float(finite[-1])


def _seed_noise(arms: Sequence[Arm]) -> tuple[float | None, str]:
    """Return the pooled standard deviation over seeds of the last held-out accuracy."""
    squares, freedom = 0.0, 0
    for arm in arms:
        columns = [evaluation(run, ACCURACY) for run in arm.runs]
        finals = np.array([_last(column[1]) for column in columns if column is not None])
        if finals.size > 1:
            squares += float(((finals - finals.mean()) ** 2).sum())
            freedom += finals.size - 1
    if not freedom:
        return None, "no two runs differ by seed alone: the spread of seeds is unknown and left out (`--seed-spread`)"
    return math.sqrt(
        squares / freedom
    ), f"spread of seeds from {freedom + 1} or more runs, {freedom} degrees of freedom"
