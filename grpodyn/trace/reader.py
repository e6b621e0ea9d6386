"""Opens a run, living, killed or closed, and hands out what is committed as labelled arrays. Writes nothing."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from grpodyn.errors import MissingDataError, NotARunError, SchemaError, UnreadableError, did_you_mean
from grpodyn.trace.commit import Commit
from grpodyn.trace.dataset import GroupReader
from grpodyn.trace.lock import living_writer
from grpodyn.trace.manifest import Manifest
from grpodyn.trace.recount import recount
from grpodyn.trace.schema import EVENTS, GROUPS, MANIFEST, STORE
from grpodyn.trace.store import NODE
from grpodyn.trace.stored_view import Array
from grpodyn.trace.verify import damages, lost_chunks

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

logger = logging.getLogger(__name__)


def open_run(path: str | os.PathLike[str]) -> Run:
    """Open the run in directory `path`, as it is committed now.

    Raises:
        NotARunError: the path holds no run.
        SchemaError: the run is of another schema version, or its store of another format.
        UnreadableError: the path cannot be read.
    """
    directory = Path(path)
    try:
        _refuse_foreign(directory)
        manifest, alive = Manifest.read(directory), living_writer(directory) is not None
        if manifest.status == "running" and not alive:
            # The writer may have closed the run, or another taken it up, between the two looks.
            manifest, alive = Manifest.read(directory), living_writer(directory) is not None
        return Run(directory, manifest, alive)
    except OSError as error:
        raise UnreadableError(f"{directory} cannot be read: {error.strerror or error}") from error


class Run:
    """A read-only view of a run; the arrays are lazy and show one state, that of the moment it was opened."""

    def __init__(self, path: Path, manifest: Manifest, alive: bool) -> None:
        self.path = path
        self.manifest = manifest
        self.problems: list[str] = []
        """What is damaged or odd, one sentence each; reading arrays may add to it."""
        self._alive = alive
        self._recounted = False
        self._commit = self._read_commit()
        self._groups = {
            name: GroupReader(
                path / STORE, name, self._commit.rows.get(name, 0), self._commit.axes.get(name, {}), self._note
            )
            for name in GROUPS
        }
        if (path / STORE).is_dir():
            # Of a group that was never committed, files may be half made: a writer is at it, or was killed there.
            found = damages(path / STORE, GROUPS if self._recounted else self._commit.rows)
            for damage in [*found, *lost_chunks(path / STORE, self._commit.rows)]:
                self._note(damage.describe(path / STORE))
        elif any(self._commit.rows.values()):
            self._note(f"{STORE} is missing although {sum(self._commit.rows.values())} rows were committed")

    def __repr__(self) -> str:
        return f"<Run {str(self.path)!r}: {self.status}, last step {self.last_step}>"

    @property
    def status(self) -> str:
        """running, finished, stopped_early or failed; interrupted if its writer died; empty if it holds no row."""
        if self.manifest.status == "running" and self._alive:
            return "running"
        if not any(self.rows.values()):
            return "empty"
        return "interrupted" if self.manifest.status == "running" else self.manifest.status

    @property
    def last_step(self) -> int:
        """The last step whose update is recorded; −1 in an empty run."""
        last = -1
        for name, (step, _) in self._row_arrays.items():
            if len(self._kept[name]):
                # Rollouts carry the step of the update they are going to feed.
                last = max(last, int(step[self._kept[name]].max()) - (name == "rollouts"))
        return last

    @cached_property
    def rows(self) -> dict[str, int]:
        """Committed rows per group, without those that a later segment replaced."""
        return {name: len(kept) for name, kept in self._kept.items()}

    @cached_property
    def events(self) -> list[dict[str, Any]]:
        """What could not be measured or went wrong: `step, what, why` and more."""
        path = self.path / EVENTS
        if not path.exists():
            return []
        events: list[dict[str, Any]] = []
        lines = path.read_bytes().split(b"\n")
        for number, line in enumerate(lines, start=1):
            try:
                if line.strip():
                    events.append(_event(line))
            except ValueError:
                # The last line may be half written by a living or killed writer; it was never committed.
                if number < len(lines):
                    self._note(f"{EVENTS}: line {number} is no event")
        return events

    @cached_property
    def tensors(self) -> xr.Dataset:
        """Per-tensor probes, `(row, tensor)`."""
        return self._dataset("tensors")

    @cached_property
    def layers(self) -> xr.Dataset:
        """Per-layer probes, `(row, layer)`."""
        return self._dataset("layers")

    @cached_property
    def spectra(self) -> xr.Dataset:
        """Rank probes, `(row, tensor)`, and singular values, `(row, tensor, k)`."""
        return self._dataset("spectra")

    @cached_property
    def rollouts(self) -> xr.Dataset:
        """Rewards, lengths, terminations and advantages, `(row, prompt, generation)`."""
        return self._dataset("rollouts")

    @cached_property
    def metrics(self) -> xr.Dataset:
        """Scalars of the trainer: `values(row, metric)` and `time(row)`."""
        return self._dataset("metrics")

    @cached_property
    def evaluations(self) -> xr.Dataset:
        """Held-out results: `values(row, metric)`."""
        return self._dataset("evaluations")

    def metric(self, name: str) -> xr.DataArray:
        """Return one trainer metric over `row`, with its `step`; rows that did not log it are left out.

        Raises:
            MissingDataError: the trainer never logged it; the message lists what it logged.
        """
        values = self.metrics.get("values")
        known = [] if values is None else self.metrics["metric"].values.tolist()
        if values is None or name not in known:
            self._refuse_empty()
            raise MissingDataError(
                f"{self.path} holds no metric {name!r}{did_you_mean(name, known)}; the trainer "
                f"logged: {', '.join(known)}"
            )
        return values.sel(metric=name, drop=True).compute().dropna("row").rename(name)

    def require(self, *probes: str) -> None:
        """Check that the run holds what an analysis needs: probes, `metrics:<key>`, `rollouts`, `evaluations`.

        Raises:
            MissingDataError: it does not; the message names what is missing and how to record it.
        """
        self._refuse_empty()
        held = {name: set(self._groups[name].array_names()) if self.rows[name] else set() for name in GROUPS}
        measured = sorted(held["tensors"] | held["layers"] | held["spectra"] - {"measured_step"})
        for name in probes:
            if name.startswith("metrics:"):
                self.metric(name.removeprefix("metrics:"))
            elif name in GROUPS:
                if not self.rows[name]:
                    raise MissingDataError(f"{self.path} holds no {name}; {_HOW_TO_RECORD[name]}")
            elif name not in measured:
                raise MissingDataError(
                    f"{self.path} does not hold {name!r}{did_you_mean(name, measured)}{self._why_skipped(name)}; name "
                    f"it in `record.probes`, or record all probes with `grpodyn record --set record.probes=null` "
                    f"(the run holds: {', '.join(measured) or 'no probe'})"
                )

    @overload
    def to_pandas(self, group: str) -> pd.DataFrame: ...

    @overload
    def to_pandas(self, group: None = None) -> dict[str, pd.DataFrame]: ...

    def to_pandas(self, group: str | None = None) -> pd.DataFrame | dict[str, pd.DataFrame]:
        """Return a group as one table, or all groups that hold rows by name; see `grpodyn.exporters.to_pandas`.

        Raises:
            UnknownNameError: no group has that name.
        """
        from grpodyn.exporters import frames  # noqa: PLC0415  # the exporters read runs; only this method needs them

        if group is not None:
            return frames.to_pandas(self, group)
        return {name: frames.to_pandas(self, name) for name in frames.group_names(self)}

    def steps(self, group: str) -> list[int]:
        """Return the steps of the rows of a group."""
        step, _ = self._row_arrays[group]
        return [int(s) for s in step[self._kept[group]]]

    def metric_totals(self, *names: str) -> dict[str, float | None]:
        """Return the sum of each metric over all rows, None where it was never logged. Cheaper than `metrics`."""
        return {name: self._groups["metrics"].column_sum(name, self._kept["metrics"]) for name in names}

    def _why_skipped(self, probe: str) -> str:
        for item in self.manifest.recorder.get("skipped") or []:
            if isinstance(item, dict) and probe in str(item.get("what")):
                return f" ({item.get('why')})"
        return ""

    def _refuse_empty(self) -> None:
        if not any(self.rows.values()):
            reasons = [f"{event.get('what')}: {event.get('why')}" for event in self.events[-1:]]
            raise MissingDataError(
                f"{self.path} is empty: it holds no row{' (' + reasons[0] + ')' if reasons else ''}; record a run first"
            )

    def _dataset(self, group: str) -> xr.Dataset:
        step, segment = self._row_arrays[group]
        return self._groups[group].dataset(self._kept[group], step, segment)

    @cached_property
    def _row_arrays(self) -> dict[str, tuple[Array, Array]]:
        return {name: (group.row_array("step"), group.row_array("segment")) for name, group in self._groups.items()}

    @cached_property
    def _kept(self) -> dict[str, Array]:
        """Numbers of the rows that count: of a step that two segments recorded, the later segment's."""
        written = {int(s) for _, segments in self._row_arrays.values() for s in np.unique(segments)}
        limits = superseded_after(self.manifest.segments, written)
        kept: dict[str, Array] = {}
        for name, (step, segment) in self._row_arrays.items():
            limit = np.array([limits.get(int(s), np.inf) for s in segment]) if limits else np.inf
            kept[name] = np.flatnonzero((step >= 0) & (step <= limit))
            unread = int((step < 0).sum())
            if unread:
                self._note(f"{name}: {unread} of {len(step)} rows have no step and are left out")
        return kept

    def _read_commit(self) -> Commit:
        try:
            commit = Commit.read(self.path)
        except SchemaError as error:
            self._note(str(error))
            commit = None
        else:
            if commit is None and (self.path / STORE).is_dir():
                self._note("commit.json is missing; the rows were counted instead")
        if commit is None:
            self._recounted = True
            commit = recount(self.path / STORE)
        return commit

    def _note(self, problem: str) -> None:
        if problem not in self.problems:
            logger.debug("%s: %s", self.path, problem)
            self.problems.append(problem)


_HOW_TO_RECORD: Mapping[str, str] = {
    "metrics": "the trainer logged nothing: lower its `logging_steps`",
    "tensors": "record per-tensor probes, for instance with `record.preset=standard`",
    "layers": "record per-layer probes, for instance with `record.preset=standard`",
    "spectra": "record rank probes, for instance with `record.preset=standard`",
    "rollouts": "the presets `standard` and `full` record them where the trainer is TRL's GRPOTrainer",
    "evaluations": "evaluate while training: the `evaluate` section of the run config",
}


def superseded_after(segments: list[dict[str, Any]], written: set[int]) -> dict[int, float]:
    """Return, per segment, the last step whose rows count.

    A row of segment s is replaced iff a later segment that committed at least one row (in any group) started before the
    row's step. A later segment that never wrote hides nothing.

    >>> superseded_after([{"index": 0, "start_step": 0}, {"index": 1, "start_step": 80}], {0, 1})
    {0: 80, 1: inf}
    """
    limits: dict[int, float] = {}
    limit = float("inf")
    for segment in sorted(segments, key=lambda s: -int(s["index"])):
        index = int(segment["index"])
        limits[index] = limit
        if index in written:
            limit = min(limit, int(segment["start_step"]))
    return dict(sorted(limits.items()))


def _event(line: bytes) -> dict[str, Any]:
    event = json.loads(line)
    if not isinstance(event, dict) or type(event.get("step")) is not int:
        raise ValueError("expected a mapping with a whole `step`")
    return event


def _refuse_foreign(path: Path) -> None:
    if not path.exists():
        raise NotARunError(f"{path} does not exist; give the run directory that a recorder wrote")
    if not path.is_dir():
        raise NotARunError(f"{path} is a file; give the run directory that holds {MANIFEST}")
    for store in (path, path / STORE):
        if (store / ".zgroup").exists() or (store / ".zarray").exists():
            raise SchemaError(
                f"{store} is a Zarr format 2 store; grpodyn reads its own traces, which are Zarr format 3"
            )
    if (path / MANIFEST).exists():
        return
    if path.name == STORE and (path.parent / MANIFEST).exists():
        raise NotARunError(f"{path} is the store inside a run; give the run directory, {path.parent}")
    if (path / NODE).exists():
        raise NotARunError(
            f"{path} is a Zarr store but no run (it has no {MANIFEST}); read it with xarray.open_datatree"
        )
    runs = sorted(child.name for child in path.iterdir() if (child / MANIFEST).exists())
    hint = f"; it holds the runs {', '.join(runs[:5])}" if runs else "; give the folder that a recorder wrote"
    raise NotARunError(f"{path} holds no run: it has no {MANIFEST}{hint}")
