"""Every command has help with an example, and an entry in the docs."""

import importlib
import pkgutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from grpodyn.cli import commands
from grpodyn.cli.app import build, command_name

ROOT = Path(__file__).parents[2]
MODULES = {command_name(info.name): info.name for info in pkgutil.iter_modules(commands.__path__)}
NAMES = sorted(MODULES)


def test_the_commands_are_there() -> None:
    assert {"record", "status", "runs", "recommend-lora", "compare", "probes", "analyses"} <= set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_command_help_explains_and_gives_an_example(name: str) -> None:
    result = CliRunner().invoke(build(), [name, "--help"], env={"COLUMNS": "200"})
    assert result.exit_code == 0
    module = importlib.import_module(f"grpodyn.cli.commands.{MODULES[name]}")
    first_line = (module.command.__doc__ or "").strip().splitlines()[0]
    assert len(first_line) > 20
    assert first_line.rstrip(".") in result.output.replace("\n", " ")
    assert f"grpodyn {name}" in result.output, "help shows no example"


@pytest.mark.parametrize("name", NAMES)
def test_command_is_documented(name: str) -> None:
    assert f"## {name}\n" in (ROOT / "docs" / "commands.md").read_text()


def test_unknown_command_is_a_usage_error() -> None:
    assert CliRunner().invoke(build(), ["recrod"]).exit_code == 2
