"""The `grpodyn` command: finds one command per file in `grpodyn/cli/commands/` and turns errors into exit codes."""

from __future__ import annotations

import importlib
import pkgutil
import sys
from typing import Annotated, Any

import typer

import grpodyn
from grpodyn.cli import commands
from grpodyn.errors import GrpodynError

EXIT_CODES = "Exit codes: 0 done; 1 a finding the caller asked to fail on; 2 usage; 3 a run or file cannot be read."


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
    ) -> None: ...

    for info in sorted(pkgutil.iter_modules(commands.__path__), key=lambda i: i.name):
        module: Any = importlib.import_module(f"grpodyn.cli.commands.{info.name}")
        # The file `recommend_lora.py` holds `def command(...)`, shown as `recommend-lora`.
        app.command(name=info.name.replace("_", "-"))(module.command)
    return app


def main() -> None:
    """Run the command line; errors that grpodyn raises on purpose become one line and an exit code."""
    try:
        build()()
    except GrpodynError as error:
        typer.secho(f"grpodyn: {error}", err=True, fg=typer.colors.RED)
        sys.exit(error.exit_code)
