"""Forecasts and the stopping rule on recorded runs of the embedded model.

    python benchmarks/forecast_fleet.py distil RUNS_FOLDER     # recorded runs -> benchmarks/data/fleet.jsonl
    python benchmarks/forecast_fleet.py                        # judge on that file; docs/results/forecast.md quotes it

Stopping is judged by held-out accuracy (the exact probability of the right answer over prompts that were never trained
on, every few steps, not seen by the rule), against patience and a fixed step that save as much.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from grpodyn.errors import GrpodynError
from grpodyn.forecasting.forecast import forecast
from grpodyn.forecasting.stopping import EPSILON, LOOKS, NEW_POINTS, look_further
from grpodyn.series import RewardSeries, reward_series
from grpodyn.series.columns import evaluation
from grpodyn.trace.reader import open_run

Floats = NDArray[np.float64]
DATA = Path(__file__).parent / "data" / "fleet.jsonl"
FRACTIONS = (0.3, 0.5)
EPSILONS = (0.005, 0.01, 0.02, 0.03, 0.05)
PATIENCE = (5, 8, 10, 15, 20, 25, 30, 40, 50, 70)
SMOOTHED = 5
"""Points over which patience averages the reward."""
HEALTHY = "healthy"


@dataclass(frozen=True)
class FleetRun:
    """One recorded run: what the rule sees, and what it is judged by."""

    name: str
    series: RewardSeries
    held_out_step: NDArray[np.int64]
    held_out: Floats

    def accuracy(self, step: float) -> float:
        """Return held-out accuracy at a step, between evaluations on the line between them."""
        return float(np.interp(step, self.held_out_step, self.held_out))

    @property
    def end(self) -> int:
        """Return the last step."""
        return int(self.series.step[-1])


def distil(folder: Path, target: Path) -> None:
    """Write what is needed of every finished run with held-out evaluations, one JSON object a line."""
    lines = []
    for path in sorted(path for path in folder.iterdir() if path.is_dir()):
        try:
            run = open_run(path)
            series, tested = reward_series(run), evaluation(run, "heldout/accuracy")
        except GrpodynError as error:
            print(f"left out {path.name}: {error}")
            continue
        if run.status != "finished" or tested is None or not len(series):
            print(f"left out {path.name}: {run.status}, {'without' if tested is None else 'with'} held-out accuracy")
            continue
        known = np.isfinite(tested[1])
        rate = series.learning_rate
        lines.append(
            json.dumps(
                {
                    "name": path.name,
                    "max_steps": series.max_steps,
                    "step": series.step.tolist(),
                    "reward": [round(float(value), 6) for value in series.value],
                    "trials": None if series.trials is None else series.trials.astype(int).tolist(),
                    "learning_rate": None if rate is None else [None if np.isnan(one) else float(one) for one in rate],
                    "held_out_step": tested[0][known].tolist(),
                    "held_out": [round(float(value), 6) for value in tested[1][known]],
                }
            )
        )
    target.parent.mkdir(exist_ok=True)
    target.write_text("\n".join(lines) + "\n")
    print(f"{len(lines)} runs in {target}")


def load(path: Path) -> list[FleetRun]:
    """Return the runs of a distilled file."""
    return [_run(json.loads(line)) for line in path.read_text().splitlines()]


def _run(row: dict[str, Any]) -> FleetRun:
    rate = row["learning_rate"]
    series = RewardSeries(
        "reward",
        np.array(row["step"], np.int64),
        np.array(row["reward"]),
        trials=None if row["trials"] is None else np.array(row["trials"], float),
        learning_rate=None if rate is None else np.array([np.nan if one is None else one for one in rate]),
        max_steps=row["max_steps"],
        bounds=None if row["trials"] is None else (0.0, 1.0),
    )
    return FleetRun(row["name"], series, np.array(row["held_out_step"], np.int64), np.array(row["held_out"]))


def coverage(runs: Sequence[FleetRun]) -> None:
    """Print how often the 80 % interval holds the end of a run."""
    print("\n## Forecasts of the final reward\n")
    print("The end is the mean reward of the last tenth of the steps; held-out accuracy at the end stands beside it.\n")
    print(
        "| from the first | runs | abstained | covered | held-out covered | width | error | error of the last value |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for share in FRACTIONS:
        rows = []
        for run in runs:
            n = round(len(run.series) * share)
            final = forecast(run.series.take(slice(0, n))).final
            truth = float(run.series.value[-max(1, len(run.series) // 10) :].mean())
            last = abs(float(run.series.value[max(0, n - 5) : n].mean()) - truth)
            if final is None:
                rows.append((1.0, np.nan, np.nan, np.nan, np.nan, last))
                continue
            tested = final.contains(run.accuracy(run.end))
            rows.append((0.0, final.contains(truth), tested, final.high - final.low, abs(final.value - truth), last))
        mean = np.nanmean(np.array(rows, float), axis=0)
        print(
            f"| {share:.0%} | {len(rows)} | {mean[0]:.1%} | {mean[1]:.1%} | {mean[2]:.1%} | {mean[3]:.3f} | "
            f"{mean[4]:.3f} | {mean[5]:.3f} |"
        )


# Stopping rules: each returns the number of points after which it stops a run, or None.

Rule = Callable[[FleetRun], int | None]


def marginal(looks: dict[str, list[tuple[int, bool, float, float]]], epsilon: float) -> Rule:
    """Return the rule of `EarlyStop` at an epsilon, as a share of the level."""

    def stops(run: FleetRun) -> int | None:
        held = 0
        for points, told, expected, level in looks[run.name]:
            held = held + 1 if told and expected < epsilon * abs(level) else 0
            if held >= LOOKS:
                return points
        return None

    return stops


def watched(run: FleetRun) -> list[tuple[int, bool, float, float]]:
    """Return every look that `EarlyStop` takes at a run; like it, without the counts behind the rewards."""
    seen = RewardSeries("reward", run.series.step, run.series.value, max_steps=run.series.max_steps)
    looks, points = [], 10
    while points <= len(seen):
        looks.append((points, *look_further(seen.take(slice(0, points)))))
        points += max(3, round(NEW_POINTS * points))
    return looks


def patience(points: int) -> Rule:
    """Return the rule that stops when the smoothed reward has had no new best for so many points."""

    def stops(run: FleetRun) -> int | None:
        smooth = np.convolve(run.series.value, np.ones(SMOOTHED) / SMOOTHED, "valid")
        best, since = -np.inf, 0
        for i, value in enumerate(smooth, start=SMOOTHED):
            best, since = (value, 0) if value > best else (best, since + 1)
            if since >= points:
                return i
        return None

    return stops


def fixed(share: float) -> Rule:
    """Return the rule that stops every run at the same share of its steps."""
    return lambda run: max(1, round(share * len(run.series))) if share < 1 else None


@dataclass(frozen=True)
class Outcome:
    """What a rule did over all runs."""

    saved: float
    """Mean share of the steps."""
    lost: float
    """Mean loss of held-out accuracy, end minus stop; negative where the run was better earlier."""
    worst: float
    stopped: float
    """Share of runs that it stopped."""


def outcome(rule: Rule, runs: Sequence[FleetRun]) -> Outcome:
    """Return what a rule saves and loses."""
    saved, lost, stopped = [], [], []
    for run in runs:
        points = rule(run)
        step = run.end if points is None else int(run.series.step[points - 1])
        saved.append(1 - step / run.end)
        lost.append(run.accuracy(run.end) - run.accuracy(step))
        stopped.append(points is not None)
    return Outcome(float(np.mean(saved)), float(np.mean(lost)), float(np.max(lost)), float(np.mean(stopped)))


def stopping(runs: Sequence[FleetRun]) -> None:
    """Print the rule against patience and a fixed step, each at the same mean saving."""
    looks = {run.name: watched(run) for run in runs}
    patiences = [outcome(patience(points), runs) for points in PATIENCE]
    print(f"\n## Stopping, judged by held-out accuracy (default epsilon {EPSILON:g} of the level)\n")
    print("| rule | saved | held-out accuracy lost | worst run | runs stopped |")
    print("|---|---|---|---|---|")
    for epsilon in EPSILONS:
        ours = outcome(marginal(looks, epsilon), runs)
        _print(f"marginal, epsilon {epsilon:g}", ours)
        near = min(range(len(PATIENCE)), key=lambda i: abs(patiences[i].saved - ours.saved))
        _print(f"— patience {PATIENCE[near]} (nearest saving)", patiences[near])
        _print("— one fixed step", outcome(fixed(1 - ours.saved), runs))


def _print(name: str, one: Outcome) -> None:
    print(f"| {name} | {one.saved:.1%} | {one.lost:+.4f} | {one.worst:+.4f} | {one.stopped:.0%} |")


def faults(runs: Sequence[FleetRun]) -> None:
    """Print what the rule and the forecast say of runs with an injected fault."""
    print("\n## Runs with an injected fault (the rule sees the reward alone)\n")
    print("| run | steps | verdict at the end | stopped at step | held-out accuracy at start, best, end |")
    print("|---|---|---|---|---|")
    for run in runs:
        points = marginal({run.name: watched(run)}, EPSILON)(run)
        stopped = "–" if points is None else str(int(run.series.step[points - 1]))
        ends = f"{run.held_out[0]:.3f}, {run.held_out.max():.3f}, {run.held_out[-1]:.3f}"
        print(f"| {run.name} | {run.end} | {forecast(run.series).verdict} | {stopped} | {ends} |")


def main(arguments: Sequence[str] | None = None) -> None:
    """Distil recorded runs, or judge on those that were."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("action", nargs="?", choices=["judge", "distil"], default="judge")
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--data", type=Path, default=DATA)
    given = parser.parse_args(arguments)
    if given.action == "distil":
        distil(given.folder, given.data)
        return
    runs = load(given.data)
    healthy = [run for run in runs if run.name.startswith(HEALTHY)]
    print(f"# {len(healthy)} healthy recorded runs, {len(runs) - len(healthy)} with an injected fault")
    coverage(healthy)
    stopping(healthy)
    faults([run for run in runs if run not in healthy])


if __name__ == "__main__":
    main()
