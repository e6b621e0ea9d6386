"""Back-test of forecasts and of the stopping rule on simulated curves, whose truth is known.

python benchmarks/forecast_backtest.py                       # seeds 1000-1999, what docs/results/forecast.md quotes
python benchmarks/forecast_backtest.py --seeds 0 200         # tuning seeds, a shorter run
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "simulation"))
import curves  # type: ignore[import-not-found]  # beside the tests, not a package

from grpodyn.forecasting import outlook
from grpodyn.forecasting.forecast import fit, forecast, of_fit
from grpodyn.forecasting.stopping import EPSILON, LOOKS, NEW_POINTS, look_further
from grpodyn.series import RewardSeries

Floats = NDArray[np.float64]
FRACTIONS = (0.3, 0.5)
FLAT_RHOS = (0.0, 0.3, 0.5, 0.7)
FLAT_LOGGING = (1, 5, 10)
EPSILONS = (0.005, 0.01, 0.015, 0.02, 0.03, 0.05)
TUNING = range(0, 300)
"""Seeds on which the baselines' widths are set, so that all methods are compared at about equal coverage."""


def series_of(curve: Any, share: float = 1.0) -> RewardSeries:
    """Return the first share of a curve as a program that watches it would have it."""
    n = max(2, round(len(curve.step) * share))
    counts = curve.trials is not None
    return RewardSeries(
        "reward",
        curve.step[:n],
        curve.value[:n],
        trials=curve.trials[:n] if counts else None,
        max_steps=curve.max_steps,
        bounds=(0.0, 1.0) if counts else None,
    )


def crps(draws: Floats, truth: float) -> float:
    """Return the continuous ranked probability score of draws: E|X − truth| − E|X − X'| / 2."""
    ordered, n = np.sort(draws), len(draws)
    spread = float(np.sum((2 * np.arange(1, n + 1) - n - 1) * ordered)) / n**2
    return float(np.mean(np.abs(draws - truth))) - spread


# Coverage.


@dataclass(frozen=True)
class Case:
    """One forecast of the final reward from a first share of a curve."""

    shape: str
    verdict: str
    covered: float
    """1 or 0; nan where the forecast abstains."""
    width: float
    crps: float
    last_value: float
    """Error of the mean of the last five points."""
    line: float
    """Error of a line through the last third of the points."""


def case(curve: Any, share: float) -> Case:
    """Return how one forecast did."""
    series = series_of(curve, share)
    found = fit(series)
    result = forecast(series) if found is None else of_fit(found)
    last, line = baselines(series, curve.max_steps)
    errors = (curve.final - last, curve.final - line)
    if found is None or found.end is None or result.final is None:
        return Case(curve.shape, result.verdict, np.nan, np.nan, np.nan, *errors)
    draws = outlook.predicted(found.curves, found.data, found.end, found.share_left, found.series.bounds)
    inside = result.final.low <= curve.final <= result.final.high
    return Case(
        curve.shape,
        result.verdict,
        float(inside),
        result.final.high - result.final.low,
        crps(draws, curve.final),
        *errors,
    )


def baselines(series: RewardSeries, end: int) -> tuple[float, float]:
    """Return the last value and a local line's value at the end, both within [0, 1]."""
    last = float(np.mean(series.value[-5:]))
    third = max(3, len(series) // 3)
    if len(series) < 3:
        return last, last
    slope, intercept = np.polyfit(series.step[-third:].astype(float), series.value[-third:], 1)
    return last, float(np.clip(slope * end + intercept, 0.0, 1.0))


def coverage(seeds: range, shapes: Sequence[str], out: Callable[[str], None]) -> None:
    """Print coverage, width and CRPS by shape and in all; every shape has the same number of seeds."""
    widths = {share: _baseline_spreads(share, shapes) for share in FRACTIONS}
    for share in FRACTIONS:
        cases = [case(curves.simulate(shapes[seed % len(shapes)], seed), share) for seed in seeds]
        out(f"\n## From the first {share:.0%}: 80 % interval of the final mean reward, {len(cases)} runs\n")
        out("| shape | runs | abstained | covered | of all | width | CRPS | last value | local line | verdicts |")
        out("|---|---|---|---|---|---|---|---|---|---|")
        for shape in (*shapes, "all"):
            chosen = [one for one in cases if shape in (one.shape, "all")]
            out(_coverage_row(shape, chosen, widths[share]))


def _baseline_spreads(share: float, shapes: Sequence[str]) -> tuple[float, float]:
    """Return half-widths that give each baseline 80 % coverage on tuning seeds."""
    errors = []
    for seed in TUNING:
        curve = curves.simulate(shapes[seed % len(shapes)], seed)
        errors.append([abs(curve.final - value) for value in baselines(series_of(curve, share), curve.max_steps)])
    last, line = np.quantile(errors, 0.8, axis=0)
    return float(last), float(line)


def _normal_crps(error: Floats, half_width: float) -> float:
    """Return the mean CRPS of normal forecasts whose 80 % interval has that half-width."""
    draws = half_width / 1.2816 * np.random.default_rng(0).standard_normal(2000)
    return float(np.mean([crps(draws, one) for one in error]))


def _coverage_row(shape: str, cases: list[Case], spreads: tuple[float, float]) -> str:
    covered = np.array([one.covered for one in cases])
    offered = np.isfinite(covered)
    verdicts = Counter(one.verdict for one in cases)
    last, line = np.array([one.last_value for one in cases]), np.array([one.line for one in cases])
    said = ", ".join(f"{name} {count}" for name, count in verdicts.most_common())
    return (
        f"| {shape} | {len(cases)} | {(~offered).mean():.1%} | {covered[offered].mean():.1%} | "
        f"{np.nansum(covered) / len(cases):.1%} | {np.nanmean([one.width for one in cases]):.3f} | "
        f"{np.nanmean([one.crps for one in cases]):.4f} | "
        f"{_normal_crps(last, spreads[0]):.4f} (width {2 * spreads[0]:.2f}) | "
        f"{_normal_crps(line, spreads[1]):.4f} (width {2 * spreads[1]:.2f}) | {said} |"
    )


# Flat runs.


def flat(seeds: range, out: Callable[[str], None]) -> None:
    """Print the share of flat runs that are called flat, by autocorrelation and averaging."""
    out("\n## Flat runs: share with the verdict `no_trend`\n")
    out("| ρ | logging_steps | runs | at 30 % | at the end | plain AICc, best form not the constant |")
    out("|---|---|---|---|---|---|")
    cells = [(rho, logging) for rho in FLAT_RHOS for logging in FLAT_LOGGING]
    all_shares: list[tuple[float, float]] = []
    for number, (rho, logging) in enumerate(cells):
        chosen = [seed for seed in seeds if seed % len(cells) == number]
        found = [curves.simulate("constant", seed, autocorrelation=rho, logging_steps=logging) for seed in chosen]
        shares = [
            np.mean([forecast(series_of(one, share)).verdict == "no_trend" for one in found]) for share in (0.3, 1)
        ]
        all_shares += [(float(shares[0]), float(shares[1]))] * len(found)
        naive = np.mean([_naive_trend(series_of(one)) for one in found])
        out(f"| {rho} | {logging} | {len(found)} | {shares[0]:.1%} | {shares[1]:.1%} | {naive:.1%} |")

    early, late = np.mean(all_shares, axis=0)
    out(f"| all | all | {len(all_shares)} | {early:.1%} | {late:.1%} | |")


def _naive_trend(series: RewardSeries) -> bool:
    from grpodyn.forecasting.candidates import fit_all  # noqa: PLC0415
    from grpodyn.forecasting.noise import plain  # noqa: PLC0415

    return fit_all(plain(series.position, series.value), plain=True)[0].model != "constant"


# Stopping.


@dataclass(frozen=True)
class Watched:
    """All looks at one run, to which any epsilon can be applied afterwards."""

    curve: Any
    looks: tuple[tuple[int, bool, float, float], ...]
    """Points so far; whether the rise is past its inflection; expected gain; level."""

    def stops(self, epsilon: float) -> int | None:
        """Return the number of points at which the rule stops the run, or None."""
        held = 0
        for points, told, expected, level in self.looks:
            held = held + 1 if told and expected < epsilon * abs(level) else 0
            if held >= LOOKS:
                return points
        return None


def watch(curve: Any) -> Watched:
    """Look at a run as the rule does while it grows."""
    series, looks, points = series_of(curve), [], 10
    while points <= len(series):
        told, expected, level = look_further(series.take(slice(0, points)))
        looks.append((points, told, expected, level))
        points += max(3, round(NEW_POINTS * points))
    return Watched(curve, tuple(looks))


def stopping(seeds: range, out: Callable[[str], None]) -> None:
    """Print what the stopping rule saves and loses, as a curve over epsilon."""
    kinds = curves.SATURATING
    rising = [watch(curves.simulate(kinds[seed // 2 % len(kinds)], seed)) for seed in seeds if seed % 3]
    late = [watch(curves.simulate("late_riser", seed)) for seed in seeds if seed % 3 == 0]
    ended = [one for one in rising if one.curve.saturates]
    out(f"\n## Stopping rule (default epsilon {EPSILON:g} of the level)\n")
    out(
        f"{len(rising)} runs of saturating shapes, of which {len(ended)} end within 1 % of their ceiling "
        f"(*saturated*); {len(late)} late risers."
    )
    out(
        "\n| epsilon | saved, saturated | lost | 95 % lose less than | saved, all | lost, all "
        "| late risers stopped before their rise |"
    )
    out("|---|---|---|---|---|---|---|")
    for epsilon in EPSILONS:
        saved, lost = _outcome(ended, epsilon)
        saved_all, lost_all = _outcome(rising, epsilon)
        early = np.mean([_stopped_before_rise(one, epsilon) for one in late])
        out(
            f"| {epsilon:g} | {saved.mean():.1%} | {lost.mean():.2%} | {np.quantile(lost, 0.95):.2%} | "
            f"{saved_all.mean():.1%} | {lost_all.mean():.2%} | {early:.1%} |"
        )


def _outcome(watched: Sequence[Watched], epsilon: float) -> tuple[Floats, Floats]:
    """Return share of steps saved and share of the final reward lost."""
    saved, lost = [], []
    for one in watched:
        points, curve = one.stops(epsilon), one.curve
        saved.append(0.0 if points is None else 1 - curve.step[points - 1] / curve.max_steps)
        lost.append(0.0 if points is None else (curve.final - curve.mean[points - 1]) / curve.final)
    return np.array(saved), np.array(lost)


def _stopped_before_rise(one: Watched, epsilon: float) -> bool:
    points = one.stops(epsilon)
    return points is not None and bool(one.curve.step[points - 1] < one.curve.rise_begins)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the back-test and print it as Markdown."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seeds", nargs=2, type=int, default=(1000, 2000), metavar=("FIRST", "END"))
    parser.add_argument("--parts", nargs="+", default=["coverage", "flat", "stopping"])
    given = parser.parse_args(arguments)
    seeds = range(*given.seeds)
    print(f"# Back-test, seeds {seeds[0]}-{seeds[-1]}", flush=True)
    parts = {
        "coverage": lambda: coverage(seeds, curves.SHAPES, _say),
        "flat": lambda: flat(seeds, _say),
        "stopping": lambda: stopping(seeds, _say),
    }
    for name in given.parts:
        began = time.perf_counter()
        parts[name]()
        print(f"\n({name}: {time.perf_counter() - began:.0f} s)", flush=True)


def _say(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    main()
