"""A report on runs: the right notebooks are run, and what they show becomes one page."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import nbformat

from grpodyn.errors import UnknownNameError, UsageError
from grpodyn.figures.drawn import FORMATS
from grpodyn.reporting import html
from grpodyn.reporting.choosing import KINDS, choose
from grpodyn.reporting.execution import Executed, execute
from grpodyn.reporting.gathering import gather
from grpodyn.trace.reader import open_run

PAGE = "report.html"
MOST_RUNS = 12
"""One page about more runs than that is neither read nor small."""


@dataclass(frozen=True)
class Report:
    """What was written."""

    page: Path
    notebooks: tuple[Path, ...]
    figures: tuple[Path, ...]
    failed: tuple[str, ...]
    """Notebooks that are not whole, each with the reason."""


def write_report(
    run_dirs: Sequence[str | os.PathLike[str]],
    out: str | os.PathLike[str],
    kinds: Sequence[str] = (),
    formats: Sequence[str] = (),
    done: Callable[[Executed], None] = lambda _: None,
) -> Report:
    """Write `report.html` and the executed notebooks into a folder, and figures if they are asked for.

    Args:
        run_dirs: directories of runs; the first is what others are held against.
        out: the folder; a report in it is replaced.
        kinds: notebooks to run; if none is named, those that have something to say about the runs.
        formats: `svg`, `pdf` and `png`: of figures that are also written as files, at paper size.
        done: is told of each notebook that was run.

    Raises:
        UnreadableError: a directory holds no run that can be read.
        UsageError: the folder cannot be one, a format or a kind does not exist, or there are too many runs.
    """
    folder = Path(out)
    _check(run_dirs, kinds, formats)
    runs = [open_run(path) for path in run_dirs]
    chosen, left_out = (list(dict.fromkeys(kinds)), {}) if kinds else choose(runs)
    _make(folder)
    parameters = {
        "run_dirs": [str(Path(path).resolve()) for path in run_dirs],
        "figures_dir": str((folder / "figures").resolve()) if formats else None,
        "formats": list(formats),
    }
    executed = execute(chosen, parameters, done)
    notebooks = [_write_notebook(folder / "notebooks" / f"{one.kind}.ipynb", one) for one in executed]
    only = runs[0].path.name if len(runs) == 1 else ""
    title = f"{runs[0].path.name}: report" if only else f"{runs[0].path.name} and {len(runs) - 1} more: report"
    text = html.render(title, runs, [gather(one, only) for one in executed], list(left_out.items()))
    page = folder / PAGE
    page.write_text(text, encoding="utf-8", errors="backslashreplace")
    figures = sorted((folder / "figures").glob("*")) if formats else []
    failed = tuple(f"{one.kind}: {one.failed}" for one in executed if one.failed is not None)
    return Report(page, tuple(notebooks), tuple(figures), failed)


def _check(run_dirs: Sequence[str | os.PathLike[str]], kinds: Sequence[str], formats: Sequence[str]) -> None:
    if not run_dirs or len(run_dirs) > MOST_RUNS:
        raise UsageError(f"{len(run_dirs)} runs: a report is about 1 to {MOST_RUNS} runs; `grpodyn compare` takes more")
    for what, named, known in (("kind of report", kinds, KINDS), ("figure format", formats, FORMATS)):
        for one in named:
            if one not in known:
                raise UnknownNameError.among(what, one, known)


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{folder} cannot be a folder for a report: {error.strerror or error}") from error


def _write_notebook(path: Path, executed: Executed) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", errors="backslashreplace") as file:
        nbformat.write(executed.notebook, file)
    return path
