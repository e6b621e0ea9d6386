"""Carries out a sweep: trains what is not done yet, keeps the index, and says after each run what is known."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import yaml

from grpodyn.config.resume import check_same, is_longer, recorded_config
from grpodyn.errors import DirectoryInUseError, GrpodynError
from grpodyn.studies.child import Child, Outcome
from grpodyn.studies.conclude import conclude
from grpodyn.studies.expand import PlannedRun
from grpodyn.studies.index import Entry, Index, is_sweep, read_index
from grpodyn.studies.measures import measures
from grpodyn.studies.pool import Pool
from grpodyn.studies.results import SweepResult
from grpodyn.studies.study import SweepStudy
from grpodyn.trace.lock import WriterLock
from grpodyn.trace.manifest import Manifest
from grpodyn.trace.reader import open_run
from grpodyn.trace.schema import LOCK, MANIFEST
from grpodyn.trace.writer import contents

CONFIGS, LOGS = "configs", "logs"
"""Folders inside a sweep's: each run's whole config, and what each run's process said."""
TICK_SECONDS = 1.0
LEAST_SECONDS = 20.0
"""A run is not started for less: loading would take most of it."""


class Observer(Protocol):
    """Is shown how a sweep gets on."""

    def begun(self, entry: Entry, log: Path) -> None:
        """A run has started."""
        ...

    def ended(self, entry: Entry) -> None:
        """A run has ended, one way or another."""
        ...

    def tick(self, index: Index, running: Sequence[Entry]) -> None:
        """Time has passed."""
        ...

    def found(self, result: SweepResult) -> None:
        """There is a new state of the result."""
        ...

    def say(self, text: str) -> None:
        """Something happened that should stay visible."""
        ...


@dataclass(frozen=True)
class Finished:
    """How a start of a sweep has ended."""

    result: SweepResult
    why: str
    """`complete`, or why it has stopped."""


def carry_out(
    study: SweepStudy,
    planned: Sequence[PlannedRun],
    settings: Sequence[str],
    folder: Path,
    make_pool: Callable[[], Pool] | None,
    observer: Observer,
    max_minutes: float | None = None,
) -> Finished:
    """Train every run of a sweep that is not done yet.

    A kill at any moment loses of each run what came after its last checkpoint. When time is up, and at Ctrl-C, every
    run ends after its step with a checkpoint; the next start goes on from there.

    Args:
        study: the study.
        planned: its runs.
        settings: `--set` of the command line.
        folder: where runs, index and results go.
        make_pool: where to train; None only reads what is there, and writes nothing.
        observer: is shown how it gets on.
        max_minutes: when to stop.

    Raises:
        DirectoryInUseError: another process carries out a sweep there, or a run's directory is somebody else's.
        ConfigError: the folder holds runs of other settings.
        KeyboardInterrupt: the user has stopped it.
    """
    if make_pool is None:
        return Finished(_Sweep(study, planned, settings, folder, observer, writes=False).publish(), "only read")
    is_new = not folder.exists()
    folder.mkdir(parents=True, exist_ok=True)
    lock = WriterLock.acquire(folder)
    try:
        sweep = _Sweep(study, planned, settings, folder, observer, writes=True)
        with _ends_in_order():
            why = sweep.train(make_pool, lock, max_minutes)
        return Finished(sweep.publish(), why)
    finally:
        lock.release()
        if is_new and not is_sweep(folder):
            # Nothing has begun, such as where no pool could be made: nothing is left behind.
            (folder / LOCK).unlink(missing_ok=True)
            with suppress(OSError):
                folder.rmdir()


@contextmanager
def _ends_in_order() -> Iterator[None]:
    """Let a request to end (`kill`, a closed terminal) do what Ctrl-C does, unless it is to be ignored (nohup)."""
    before: dict[int, Any] = {}
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGTERM, getattr(signal, "SIGHUP", signal.SIGTERM)):
            if signal.getsignal(number) is not signal.SIG_IGN and number not in before:
                before[number] = signal.signal(number, signal.default_int_handler)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class _Sweep:
    """The loop and its state."""

    def __init__(
        self,
        study: SweepStudy,
        planned: Sequence[PlannedRun],
        settings: Sequence[str],
        folder: Path,
        observer: Observer,
        *,
        writes: bool,
    ) -> None:
        self._study = study
        self._planned = {run.name: run for run in planned}
        self._folder = folder
        self._observer = observer
        self._writes = writes
        self._measured: dict[str, dict[str, float]] = {}
        self._versions: dict[str, str] = {}
        self._began: dict[str, float] = {}
        known = {entry.name: entry for entry in read_index(folder).entries} if is_sweep(folder) else {}
        entries = [self._entry(run, known.get(run.name)) for run in planned]
        self._index = Index(study.name, study.question, study.model_dump(mode="json"), tuple(settings), tuple(entries))

    def write(self) -> None:
        """Write what is planned."""
        self._write_configs()
        self._index.write(self._folder)

    def _entry(self, run: PlannedRun, known: Entry | None) -> Entry:
        """Return what is known of a run, checked against its directory."""
        run_dir = self._folder / run.name
        entry = known or Entry(run.name, run.arm, run.seed)
        if not (run_dir / MANIFEST).is_file():
            if not entry.starts and contents(run_dir):
                raise DirectoryInUseError(f"{run_dir} holds files of something else; choose another --output")
            return replace(entry, state="pending", error=None)
        # Its numbers will stand beside those of other runs: it must have been evaluated alike too.
        check_same(run_dir, run.config, whole=True, longer=True)
        longer = is_longer(recorded_config(run_dir), run.config)
        if Manifest.read(run_dir).status == "finished" and not longer:
            return replace(entry, state="done", error=None)
        if entry.state == "done" and not longer:
            return entry
        # What failed is tried again, and what ran when its sweep was killed goes on.
        return replace(entry, state="interrupted", error=None)

    def _write_configs(self) -> None:
        folder = self._folder / CONFIGS
        folder.mkdir(exist_ok=True)
        for run in self._planned.values():
            # Without tokens: the folder is handed around. They come from the environment.
            text = yaml.safe_dump(run.config.to_record(), sort_keys=False, allow_unicode=True)
            (folder / f"{run.name}.yaml").write_text(text, encoding="utf-8")

    def _child(self, name: str) -> Child:
        # Absolute: another process, or another machine, may stand somewhere else.
        folder = self._folder.resolve()
        return Child(name, folder / name, folder / CONFIGS / f"{name}.yaml", folder / LOGS / f"{name}.log")

    def train(self, make_pool: Callable[[], Pool], lock: WriterLock, max_minutes: float | None) -> str:
        """Train until nothing is pending or time is up; return which."""
        todo = [entry.name for entry in self._index.entries if entry.state != "done"]
        if not todo:
            self.write()
            return "complete"
        end = None if max_minutes is None else time.monotonic() + 60 * max_minutes
        # First, as it may not be there: then nothing has been written.
        pool = make_pool()
        running: dict[str, Child] = {}
        stopping = False
        try:
            self.write()
            while True:
                left = float("inf") if end is None else end - time.monotonic()
                while todo and pool.free and left > LEAST_SECONDS and not stopping:
                    name = todo.pop(0)
                    running[name] = self._begin(pool, name)
                if not running:
                    return "time is up" if todo or stopping else "complete"
                if left <= 0 and not stopping:
                    stopping = True
                    self._observer.say("time is up: every run ends after its step, with a checkpoint")
                    pool.interrupt()
                self._look(pool, running, lock)
        except KeyboardInterrupt:
            self._stop(pool, running, lock)
            raise
        finally:
            pool.close()

    def _stop(self, pool: Pool, running: dict[str, Child], lock: WriterLock) -> None:
        """End every run in order; each further Ctrl-C is more urgent."""
        self._observer.say("stopping: every run ends after its step, with a checkpoint; once more to stop at once")
        pool.interrupt()
        while running:
            try:
                self._look(pool, running, lock)
            except KeyboardInterrupt:
                pool.interrupt()
        self.publish()

    def _begin(self, pool: Pool, name: str) -> Child:
        entry = self._index.entry(name)
        child = self._child(name)
        self._change(replace(entry, state="running", starts=entry.starts + 1, error=None))
        self._began[name] = time.monotonic()
        pool.submit(child)
        self._observer.begun(self._index.entry(name), child.log)
        return child

    def _look(self, pool: Pool, running: dict[str, Child], lock: WriterLock) -> None:
        for child, outcome in pool.ended(TICK_SECONDS):
            running.pop(child.name, None)
            self._end(child.name, outcome)
        lock.beat()
        self._observer.tick(self._index, [self._index.entry(name) for name in running])

    def _end(self, name: str, outcome: Outcome) -> None:
        entry = self._index.entry(name)
        since = time.monotonic() - self._began.pop(name)
        seconds = entry.seconds + (since if outcome.seconds is None else outcome.seconds)
        self._change(replace(entry, state=outcome.state, error=outcome.error, seconds=seconds))
        self._observer.ended(self._index.entry(name))
        if outcome.state == "done":
            self._observer.found(self.publish())

    def _change(self, entry: Entry) -> None:
        self._index = self._index.with_entry(entry)
        if self._writes:
            self._index.write(self._folder)

    def publish(self) -> SweepResult:
        """Return what is known so far, and write it unless this only reads."""
        for entry in self._index.entries:
            if entry.state == "done" and entry.name not in self._measured:
                self._measure(entry.name)
        result = conclude(self._study, self._index, list(self._planned.values()), self._measured, self._versions)
        if self._writes:
            result.write(self._folder)
        return result

    def _measure(self, name: str) -> None:
        try:
            run = open_run(self._folder / name)
        except GrpodynError as error:
            self._observer.say(f"{name} cannot be read: {error}")
            self._change(replace(self._index.entry(name), state="failed", error=str(error)))
            return
        self._measured[name] = measures(run, self._study.at)
        self._versions = self._versions or _versions(run.manifest)


def _versions(manifest: Manifest) -> dict[str, str]:
    held: Any = manifest.environment.get("versions")
    return {str(name): str(version) for name, version in held.items()} if isinstance(held, dict) else {}
