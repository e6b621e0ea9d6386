"""The `grpodyn` command: finds one command per file in `grpodyn/cli/commands/` and turns errors into exit codes."""

from __future__ import annotations

import importlib
import io
import pkgutil
import sys
from typing import Annotated, Any

import typer

import grpodyn
from grpodyn.cli import commands
from grpodyn.cli.output import ended_by_the_reader, failed_to_write, silence
from grpodyn.cli.script_call import ScriptCall, split
from grpodyn.cli.text import visible
from grpodyn.cli.verbosity import colours, set_verbosity
from grpodyn.errors import EXIT_UNREADABLE, GrpodynError

EXIT_CODES = "Exit codes: 0 done; 1 a finding the caller asked to fail on; 2 usage; 3 a run or file cannot be read."

WORKS_ON = frozenset({"record", "ablate", "pilot", "attribute", "report", "sweep"})
"""Commands that go on where nobody reads what they say: hours of work are not lost with a terminal.

They run other people's code too, of whose errors the traceback is needed.
"""


def _version(show: bool) -> None:
    if show:
        typer.echo(f"grpodyn {grpodyn.__version__}")
        raise typer.Exit


def build() -> typer.Typer:
    """Return the application with every command of `grpodyn/cli/commands/`."""
    app = typer.Typer(
        name="grpodyn",
        help="See what happened inside a GRPO run, and what to change next.",
        epilog=EXIT_CODES,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )

    @app.callback()
    def _root(
        version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Print it.")] = False,
        quiet: Annotated[bool, typer.Option("-q", "--quiet", help="Say nothing but results and errors.")] = False,
        verbose: Annotated[bool, typer.Option("-v", "--verbose", help="Say what is done on the way.")] = False,
    ) -> None:
        set_verbosity(quiet=quiet, verbose=verbose)

    for info in sorted(pkgutil.iter_modules(commands.__path__), key=lambda i: i.name):
        module: Any = importlib.import_module(f"grpodyn.cli.commands.{info.name}")
        # The file `recommend_lora.py` holds `def command(...)`, shown as `recommend-lora`; `import_.py` is `import`.
        app.command(name=command_name(info.name))(module.command)
    return app


def command_name(module_name: str) -> str:
    """Return a command's name on the command line; a trailing underscore stands where Python has a keyword.

    >>> command_name("recommend_lora"), command_name("import_")
    ('recommend-lora', 'import')
    """
    return module_name.rstrip("_").replace("_", "-")


def _write_what_the_terminal_can() -> None:
    """Escape what the terminal's encoding lacks: a `·` in a progress line must not end a training run."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _complain(message: str) -> None:
    typer.secho(f"grpodyn: {message}", err=True, fg=typer.colors.RED, color=colours())


def main() -> None:
    """Run the command line; errors that grpodyn raises on purpose become one line and an exit code.

    `record … -- SCRIPT` runs somebody's script. It runs here, outside of the parser and of this program's error
    handling: its exit code, its traceback and its own `GrpodynError` are its own.
    """
    ours, script = split(sys.argv[1:])
    call = None if script is None else ScriptCall(script)
    if call is None:
        _write_what_the_terminal_can()
    show = sys.excepthook
    try:
        with ended_by_the_reader(not WORKS_ON.intersection(ours)):
            try:
                build()(args=ours, obj=call)
            finally:
                # At the exit it would fail with a traceback and a code of its own.
                sys.stdout.flush()
    except OSError as error:
        if error.filename is not None and not WORKS_ON.intersection(ours):
            _complain(visible(f"{error.filename}: {error.strerror}; give a path that can be read, or written to"))
            sys.exit(EXIT_UNREADABLE)
        if not failed_to_write(error):
            raise
        silence(sys.stdout)
        _complain(f"cannot write to standard output: {error.strerror}")
        sys.exit(EXIT_UNREADABLE)
    except GrpodynError as error:
        _complain(visible(error))
        sys.exit(error.exit_code)
    except SystemExit:
        # The parser exits when it is done.
        if call is None or call.run is None:
            raise
    finally:
        sys.excepthook = show
    if call is not None and call.run is not None:
        call.run()
