"""Looks at a run again and again, and says what has become of it when something has."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from grpodyn import registry
from grpodyn.diagnosis import diagnose
from grpodyn.diagnosis.finding import Finding, Severity, at_least
from grpodyn.diagnosis.live import RULES, SETTLED
from grpodyn.diagnosis.of_run import observe_run
from grpodyn.errors import MissingDataError
from grpodyn.trace.lock import living_writer
from grpodyn.trace.reader import open_run
from grpodyn.trace.schema import COMMIT, MANIFEST
from grpodyn.watching.held import Held
from grpodyn.watching.snapshot import Fit, GroupShares, Snapshot, shares_of, take

if TYPE_CHECKING:
    from grpodyn.trace.reader import Run

_REFIT = 0.01
"""A curve is fitted anew when there are so many more points: in a long run one point more changes nothing."""

_UNTOLD = frozenset({"no_trend", "cannot_tell_yet", "fault"})
"""Verdicts with which no end is named: where nothing is foretold, curves that are possible say nothing likely."""


class Follower:
    """Follows one run.

    Nothing is watched by the operating system: a commit shows in `commit.json`, which is read, not asked for its time,
    so that a disk mounted over a network shows it too.

    Args:
        path: the run's directory.
        metric: what the curve is of; the training reward if None.
    """

    def __init__(self, path: Path, metric: str | None = None) -> None:
        self._path = path
        self._metric = metric
        self._held = Held()
        self._seen: tuple[Any, ...] | None = None
        self._fit: Fit | None = None
        self._fitted_rows = 0
        self.rows_read = 0
        """Rows of metrics, rollouts and evaluations that the last look had to read."""

    def look(self) -> Snapshot | None:
        """Return what can be told now, or None if nothing was committed since the last look.

        Raises:
            UnreadableError: the run cannot be read now; a later look may succeed.
        """
        state = self._state()
        if state == self._seen:
            return None
        run = open_run(self._path)
        self.rows_read = self._held.give(run)
        groups = self._groups(run)
        snapshot = take(run, self._fitted(run), _findings(run), groups)
        self._seen = state
        return snapshot

    def _state(self) -> tuple[Any, ...]:
        return (_content(self._path / COMMIT), _content(self._path / MANIFEST), living_writer(self._path) is not None)

    def _fitted(self, run: Run) -> Fit | None:
        rows = max(run.rows["rollouts"], run.rows["metrics"])
        grown = rows < self._fitted_rows or rows - self._fitted_rows >= max(1.0, _REFIT * self._fitted_rows)
        if self._fit is None or grown:
            try:
                self._fit = _fit(registry.analysis("reward_course").run(run, metric=self._metric), run.last_step)
            except MissingDataError:
                if self._metric is not None:
                    raise
                # A run that has just begun has no reward yet.
                self._fit = None
            self._fitted_rows = rows
        return self._fit

    def _groups(self, run: Run) -> GroupShares | None:
        try:
            return shares_of(registry.analysis("group_outcomes").run(run))
        except MissingDataError:
            return None


def _content(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except OSError:
        return None


def _findings(run: Run) -> tuple[Finding, ...]:
    seen = observe_run(run, tensors=False)
    level: Severity = "warning" if len(seen.steps) >= SETTLED else "critical"
    return tuple(finding for finding in diagnose(seen, RULES).findings if at_least(finding.severity, level))


def _fit(course: Any, step: int) -> Fit:
    forecast = course.forecast
    told = forecast.verdict not in _UNTOLD
    plateau, final = forecast.phases.plateau, forecast.final if told else None
    return Fit(
        step=step,
        metric=course.metric,
        steps=course.steps,
        rewards=course.rewards,
        curve=course.fitted,
        ahead=course.ahead if told else None,
        verdict=forecast.verdict,
        why=forecast.why,
        final=None if final is None else (final.value, final.low, final.high),
        plateau_step=None if plateau is None else plateau.value,
        stop_step=forecast.stop_step,
    )
