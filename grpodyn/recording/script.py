"""Somebody's own script with a recorder in every transformers trainer that it builds; the script is not changed.

Nothing is imported for the script's sake before it runs: it may set environment variables that count only until
torch or transformers are imported. The recorder joins in when the script itself imports the trainers.
"""

from __future__ import annotations

import builtins
import importlib.util
import io
import os
import re
import runpy
import sys
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType, TracebackType
from typing import TYPE_CHECKING

from grpodyn.errors import UsageError

if TYPE_CHECKING:
    from grpodyn.config.record import RecordConfig
    from grpodyn.recording.recorder import Recorder
    from grpodyn.trace.manifest import RunStatus

_TRAINERS = "transformers.trainer"
_PYTHON = re.compile(r"python(\d+(\.\d+)*)?(\.exe)?")
_OURS = (str(Path(__file__).parents[1]) + os.sep, "<frozen ", runpy.__file__)


@dataclass(frozen=True)
class Script:
    """What stands after `--`: a file, or `-m` and a module, with its own arguments."""

    target: str
    arguments: tuple[str, ...]
    is_module: bool

    @property
    def name(self) -> str:
        """A short name for its run."""
        return self.target.rpartition(".")[2] if self.is_module else Path(self.target).stem


def parse(words: Sequence[str]) -> Script:
    """Return the script that a command line names.

    Raises:
        UsageError: there is none, or it is a command that this process cannot become.

    >>> parse(["python", "train.py", "--lr", "1e-5"])
    Script(target='train.py', arguments=('--lr', '1e-5'), is_module=False)
    >>> parse(["-m", "pkg.train"]).name
    'train'
    """
    left = list(words)
    if left and _PYTHON.fullmatch(Path(left[0]).name):
        left.pop(0)
    if left[:1] == ["-m"]:
        if len(left) == 1:
            raise UsageError("nothing after -m; expected a module: grpodyn record -- -m package.train")
        return Script(left[1], tuple(left[2:]), is_module=True)
    if not left:
        raise UsageError("nothing after --; expected a script: grpodyn record -- train.py")
    if left[0].startswith("-"):
        raise UsageError(
            f"the option {left[0]} is python's, which runs already; expected a script or -m MODULE. Give it before: "
            f"python {left[0]} -m grpodyn record -- train.py"
        )
    return Script(left[0], tuple(left[1:]), is_module=False)


def check(script: Script) -> None:
    """Refuse a script that is not there, before anything is written.

    Raises:
        UsageError: no such file or module.
    """
    if not script.is_module and not Path(script.target).exists():
        raise UsageError(
            f"no script {script.target}; expected a Python file or -m MODULE. For several processes, the launcher "
            "comes first: accelerate launch -m grpodyn record -- train.py"
        )


@dataclass
class Attachment:
    """The recorders of one script: the first trainer records into `run_dir`, a later one into `run_dir`-2 and so on."""

    run_dir: Path
    config: RecordConfig | None = None
    append: bool = False
    """Whether the first recording goes on with the run that is there."""
    recorders: list[Recorder] = field(default_factory=list)

    def join(self, trainers: ModuleType) -> None:
        """Put a recorder into every trainer that is built from now on."""
        from grpodyn.recording.script_recorder import recorder_class  # noqa: PLC0415  # it imports torch

        trainers.DEFAULT_CALLBACKS.append(recorder_class(self))

    def outcome(self) -> list[str]:
        """Return what has been recorded, a line a run, or why nothing was."""
        recorded = [f"recorded into {known.run_dir}" for known in self.recorders if known.recorded]
        reasons = sorted({known.refused for known in self.recorders if known.refused is not None})
        if not recorded and not reasons:
            reasons = ["no trainer of transformers has trained"]
        return recorded + [f"nothing recorded: {why}" for why in reasons]

    def close(self, status: RunStatus) -> None:
        """End what has not ended: a training that the script broke off."""
        for recorder in self.recorders:
            recorder.close(status)


def run(script: Script, attachment: Attachment) -> None:
    """Run a script as Python would, in this process, with the recorder on.

    Raises:
        BaseException: whatever the script raises, `SystemExit` included, with a traceback that begins in the script.
    """
    with _as_main(script), after_import(_TRAINERS, attachment.join):
        try:
            if script.is_module:
                runpy.run_module(script.target, run_name="__main__", alter_sys=True)
            elif Path(script.target).is_file() and not zipfile.is_zipfile(script.target):
                _run_file(script.target)
            else:
                runpy.run_path(script.target, run_name="__main__")
        except BaseException as error:
            attachment.close(_status(error))
            _show_only_the_script(error)
            raise
    attachment.close("stopped_early")


def _run_file(path: str) -> None:
    """Run a source file as `__main__`; `runpy` would put an absolute path into `sys.argv[0]`, which Python does not."""
    main = ModuleType("__main__")
    main.__dict__.update(__file__=os.path.abspath(path), __builtins__=builtins, __cached__=None)
    before, sys.modules["__main__"] = sys.modules["__main__"], main
    try:
        with io.open_code(main.__dict__["__file__"]) as source:
            # Not inheriting: this file's own `from __future__` is not the script's.
            code = compile(source.read(), main.__dict__["__file__"], "exec", dont_inherit=True)
        exec(code, main.__dict__)  # noqa: S102  # the user's own script is what is asked for
    finally:
        sys.modules["__main__"] = before


@contextmanager
def after_import(name: str, action: Callable[[ModuleType], None]) -> Iterator[None]:
    """Call `action` with a module as soon as it is imported, at once if it is already."""
    if name in sys.modules:
        action(sys.modules[name])
        yield
        return
    finder = _Finder(name, action)
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        if finder in sys.meta_path:
            sys.meta_path.remove(finder)


class _Finder(MetaPathFinder):
    """Finds one module as the others do, and acts when it has been executed."""

    def __init__(self, name: str, action: Callable[[ModuleType], None]) -> None:
        self._name = name
        self._action = action

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != self._name:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def exec_module(module: ModuleType) -> None:
                execute(module)
                self._action(module)

            setattr(spec.loader, "exec_module", exec_module)  # noqa: B010  # a loader's method is no attribute to mypy
        return spec


@contextmanager
def _as_main(script: Script) -> Iterator[None]:
    """Set `sys.argv` and the first place of the module path as Python does for a script."""
    argv, path = sys.argv, list(sys.path)
    folder = os.getcwd() if script.is_module else str(Path(script.target).resolve().parent)
    sys.argv = [script.target, *script.arguments]
    if not sys.flags.safe_path:
        sys.path[0] = folder
    try:
        yield
    finally:
        sys.argv, sys.path[:] = argv, path


def _status(error: BaseException) -> RunStatus:
    quiet = isinstance(error, KeyboardInterrupt) or (isinstance(error, SystemExit) and error.code in (None, 0))
    return "stopped_early" if quiet else "failed"


def _show_only_the_script(error: BaseException) -> None:
    """Let the traceback that Python prints at the end begin in the script, as if it had been run alone."""
    show = sys.excepthook

    def excepthook(kind: type[BaseException], value: BaseException, trace: TracebackType | None) -> None:
        if value is error:
            trace = _from_script(trace)
            value = value.with_traceback(trace)
        show(kind, value, trace)

    sys.excepthook = excepthook


def _from_script(trace: TracebackType | None) -> TracebackType | None:
    inner = trace
    while inner is not None and inner.tb_frame.f_code.co_filename.startswith(_OURS):
        inner = inner.tb_next
    # A script that does not even compile has no frame of its own.
    return inner
