"""`grpodyn record … -- SCRIPT`: what stands after `--` is somebody's own command line, which no parser may see."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from grpodyn.errors import UsageError

if TYPE_CHECKING:
    from grpodyn.config.record import RecordConfig
    from grpodyn.recording.script import Attachment, Script

_COMMAND = "record"


def split(argv: Sequence[str]) -> tuple[list[str], list[str] | None]:
    """Return (own arguments, script and its arguments or None); only `record` takes a script.

    >>> split(["record", "-d", "a", "--", "train.py", "--", "x"])
    (['record', '-d', 'a'], ['train.py', '--', 'x'])
    >>> split(["status", "--", "-odd-name"])
    (['status', '--', '-odd-name'], None)
    """
    words = list(argv)
    if words[:1] != [_COMMAND] or "--" not in words:
        return words, None
    at = words.index("--")
    return words[:at], words[at + 1 :]


class ScriptCall:
    """A script to run, and how; the `record` command fills it in while it checks its own options.

    Args:
        words: all that stands after `--`.
    """

    def __init__(self, words: Sequence[str]) -> None:
        self._words = words
        self._script: Script | None = None
        self._config: RecordConfig | None = None
        self.run: Callable[[], None] | None = None
        """Runs the script; None as long as not everything has been checked."""

    def check(self, unfit: Sequence[str], settings: Sequence[str]) -> Script:
        """Return the script.

        Args:
            unfit: options that were given and say how to train, which the script does by itself.
            settings: the values of `--set`.

        Raises:
            UsageError: there are unfit options or settings, or there is no such script.
        """
        from grpodyn.config import overrides
        from grpodyn.config.record import RecordConfig
        from grpodyn.config.validation import validate
        from grpodyn.recording import script

        values = overrides.apply({"record": {}}, settings)
        unfit = [*unfit, *(f"--set {key}" for key in values if key != "record")]
        if unfit:
            raise UsageError(
                f"{', '.join(unfit)}, and a script after --: it trains with its own settings; expected no more than "
                "--run-dir, --name, --resume and --set record.KEY=VALUE"
            )
        self._config = validate(RecordConfig, values["record"], "--set record")
        self._script = script.parse(self._words)
        script.check(self._script)
        return self._script

    def record_into(self, directory: Path, *, append: bool, speaks: bool) -> None:
        """Let the script run, recorded into `directory`; `speaks` if this process tells what came of it."""
        from grpodyn.recording.script import Attachment

        if self._script is not None:
            # The script may go elsewhere before it trains.
            script, attachment = self._script, Attachment(Path.cwd() / directory, self._config, append)
            self.run = lambda: _run(script, attachment, speaks)


def _run(script: Script, attachment: Attachment, speaks: bool) -> None:
    from grpodyn.recording.script import run

    try:
        run(script, attachment)
    finally:
        for line in attachment.outcome() if speaks else ():
            typer.echo(f"grpodyn: {line}", err=True)
