"""Which run is meant: a directory, the beginning of a name or of a run's id, or `latest`."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from grpodyn.errors import NotARunError, UsageError, did_you_mean
from grpodyn.trace.schema import MANIFEST

LATEST: Final = "latest"
RUNS: Final = Path("runs")
"""Where `grpodyn record` puts runs, and where a name without a folder is looked for."""


def find_run(wanted: Path) -> Path:
    """Return the directory of the run that is meant.

    What exists is taken as it is. Otherwise the last part of the path is `latest`, for the run that was started last,
    or the beginning of a directory's name or of a run's id. It is looked for in the folder before it; without one in
    `runs/` and here.

    Args:
        wanted: as it was typed.

    Raises:
        UsageError: several runs begin like that.
        NotARunError: none does; the message names those that are there.
    """
    if wanted.exists() or not wanted.name:
        return wanted
    folders = [wanted.parent] if wanted.parent != Path() else [RUNS, Path()]
    runs = [run for folder in folders for run in runs_in(folder)]
    where = " and ".join(str(folder) for folder in folders)
    if not runs:
        raise NotARunError(f"{wanted} does not exist, and {where} holds no runs; give the directory of a run")
    if wanted.name == LATEST:
        return max(runs, key=_started)
    found = [run for run in runs if run.name == wanted.name]
    found = found or [run for run in runs if run.name.startswith(wanted.name)]
    found = found or [run for run in runs if _run_id(run).startswith(wanted.name)]
    if len(found) > 1:
        raise UsageError(f"{wanted} may be {_listed(found)}: give more of the name")
    if not found:
        names = [run.name for run in runs]
        raise NotARunError(
            f"{wanted} does not exist, and no run's name or id begins like that{did_you_mean(wanted.name, names)}; "
            f"{where} holds {_listed(runs)}"
        )
    return found[0]


def find_runs(wanted: Iterable[Path]) -> list[Path]:
    """Return the directory of each run that is meant, in the same order; the folder of a sweep stands for its runs.

    Raises:
        UsageError, NotARunError: as `find_run`; or a sweep has recorded nothing yet, or a run is meant twice.
        UnreadableError, SchemaError: the index of a sweep cannot be read.
    """
    found = [run for path in wanted for run in _runs_meant(path)]
    seen: set[Path] = set()
    for run in found:
        place = run.resolve()
        if place in seen:
            # It would count as a second seed, one that agrees with the first to the last digit.
            raise UsageError(f"{run} is given twice, expected different runs; give it once")
        seen.add(place)
    return found


def _runs_meant(wanted: Path) -> list[Path]:
    from grpodyn.studies.index import is_sweep, recorded_runs

    for folder in (wanted, RUNS / wanted):
        if is_sweep(folder) and not (wanted.exists() and folder != wanted):
            runs = recorded_runs(folder)
            if not runs:
                raise NotARunError(f"the sweep in {folder} has recorded no run yet")
            return runs
    return [find_run(wanted)]


def runs_in(folder: Path) -> list[Path]:
    """Return the run directories directly in a folder, by name; none where there is no such folder."""
    try:
        return sorted(path for path in folder.iterdir() if (path / MANIFEST).is_file())
    except OSError:
        return []


def _started(run: Path) -> tuple[str, float]:
    """Return what sorts runs by their last start; times of several clocks are compared as they were written."""
    from grpodyn.errors import GrpodynError
    from grpodyn.trace.manifest import Manifest

    try:
        manifest = Manifest.read(run)
    except (GrpodynError, OSError):
        return "", 0.0
    starts = [str(segment["started_at"]) for segment in manifest.segments if segment.get("started_at")]
    return max([manifest.created_at, *starts]), (run / MANIFEST).stat().st_mtime


def _run_id(run: Path) -> str:
    from grpodyn.errors import GrpodynError
    from grpodyn.trace.manifest import Manifest

    try:
        return Manifest.read(run).run_id
    except (GrpodynError, OSError):
        return ""


def _listed(runs: list[Path]) -> str:
    shown = ", ".join(run.name for run in runs[:6])
    return f"{shown} and {len(runs) - 6} more" if len(runs) > 6 else shown
