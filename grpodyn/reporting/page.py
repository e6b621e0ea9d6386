"""The page that a notebook fills: runs, analyses of them, and views of what they found; what is missing is said."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from IPython.display import display

from grpodyn import registry
from grpodyn.errors import GrpodynError
from grpodyn.figures import Drawn
from grpodyn.reporting.blocks import Block, Heading, Picture, Sentence
from grpodyn.trace.reader import Run, open_run

View = Callable[..., Any]
"""From a result to a figure (called once for each width), a block, several blocks, or None for nothing to show."""
Source = str | Callable[..., Any]
"""Name of an analysis, or a function that takes a run."""

_NARROW = "column"


class Page:
    """Shows what analyses say of some runs.

    Args:
        run_dirs: directories of runs.
        figures_dir: folder that every figure is also written to, at paper size.
        formats: of those files: `svg`, `pdf`, `png`.

    Raises:
        UnreadableError: one of the directories holds no run that can be read.
    """

    def __init__(
        self,
        run_dirs: Sequence[str | os.PathLike[str]],
        figures_dir: str | os.PathLike[str] | None = None,
        formats: Sequence[str] = (),
    ) -> None:
        self.runs: list[Run] = [open_run(path) for path in run_dirs]
        self._figures_dir = None if figures_dir is None else Path(figures_dir)
        self._formats = tuple(formats)
        self._found: dict[tuple[str, str], Any] = {}
        """Results and failures by analysis and run: two cells that show one analysis compute it once."""

    @property
    def several(self) -> bool:
        """Whether the page is about more than one run."""
        return len(self.runs) > 1

    def begin(self, run: Run) -> None:
        """Begin what is said about one run: with its name, if there are several."""
        if self.several:
            display(Heading(_name(run)))

    def show(self, run: Run, source: Source, *views: View, **options: Any) -> None:
        """Show views of one analysis of one run, or one sentence that says why not.

        Args:
            run: an opened run.
            source: name of the analysis, or a function of the run.
            views: what to show of its result.
            options: of the analysis.
        """
        self._show(views, lambda: self._result(run, source, options), run.path.name)

    def show_all(self, source: str, *views: View, **options: Any) -> None:
        """Show views of an analysis of all runs together, the first of them being what the others are held against."""
        first, *others = self.runs
        options = {**options, "others": tuple(others)}
        self._show(views, lambda: self._result(first, source, options), "all")

    def result(self, run: Run, source: Source, **options: Any) -> Any | None:
        """Return what an analysis finds, or None where the run lacks what it needs."""
        try:
            return self._result(run, source, options)
        except GrpodynError:
            return None

    def say(self, *blocks: Block | None) -> None:
        """Show blocks."""
        for block in blocks:
            if block is not None:
                display(block)

    def draw(self, view: Callable[[str], Drawn], where: str) -> None:
        """Show a figure, which is drawn once for a page's width and once for a column's.

        Args:
            view: from a width to the figure.
            where: name of what it is about, for its file.
        """
        wide, narrow = view("page"), view(_NARROW)
        display(Picture(wide.name, wide.title, wide.alt, wide.svg(), narrow.svg()))
        if self._figures_dir is not None:
            self._figures_dir.mkdir(parents=True, exist_ok=True)
            for kind in self._formats:
                wide.save(self._figures_dir / f"{_file_name(where, wide.name)}.{kind}")

    def _show(self, views: Iterable[View], result: Callable[[], Any], where: str) -> None:
        try:
            found = result()
        except GrpodynError as error:
            self.say(Sentence(str(error), missing=True))
            return
        for view in views:
            shown = view(found)
            if isinstance(shown, Drawn):
                self.draw(lambda width, view=view: view(found, width=width), where)  # type: ignore[misc]
            elif isinstance(shown, Block):
                self.say(shown)
            elif shown is not None:
                self.say(*shown)

    def _result(self, run: Run, source: Source, options: dict[str, Any]) -> Any:
        name = source if isinstance(source, str) else source.__qualname__
        key = (f"{name} {sorted(options)}", str(run.path))
        if key not in self._found:
            try:
                analyse = registry.analysis(source).run if isinstance(source, str) else source
                self._found[key] = analyse(run, **options)
            except GrpodynError as error:
                self._found[key] = error
        found = self._found[key]
        if isinstance(found, GrpodynError):
            raise found
        return found


def _name(run: Run) -> str:
    return run.path.name or str(run.path)


def _file_name(where: str, figure: str) -> str:
    """Return a file name that every file system takes.

    >>> _file_name("a run/ä", "reward")
    'a_run_ä-reward'
    """
    return "".join(one if one.isalnum() or one in "._-" else "_" for one in f"{where}-{figure}")
