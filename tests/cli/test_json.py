"""What `--json` prints fits the schema in the docs, which is made from the dataclasses."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from typer.testing import CliRunner

from grpodyn.cli.app import build
from grpodyn.cli.schemas import COMMANDS, documents
from tests.cli.test_help import NAMES
from tests.schema import must_fit, schema
from tests.watching.conftest import LiveRun

ROOT = Path(__file__).parents[2]
STORED = ROOT / "tests/data/trace_v1"
LOG = "trainer_state.json"
COMMAND_LINES = [
    "status {runs}/a",
    "status {runs}/a --repair",
    "runs {runs}",
    "watch {runs}/a",
    "diagnose {runs}/a",
    "diagnose {runs}/trainer_state.json",
    "forecast {runs}/a --at 60",
    "group-size {runs}/a {runs}/b",
    "compare {runs}/a {runs}/b",
    "power --base 0.7 --difference 0.05",
    "power {runs}/a {runs}/b --difference 0.05",
    "probes",
    "analyses",
    "export {runs}/a --to csv -o {out}",
    "import {runs}/trainer_state.json -o {out}",
]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    for name, right in (("a", 1), ("b", 2)):
        run = LiveRun(folder / name, planned=60)
        run.steps(1, 20, right=right, **{"completions/clipped_ratio": 0.0})
        run.steps(21, 40, right=3, **{"completions/clipped_ratio": 0.9})
        run.writer.add_row("evaluations", 0, {"heldout/accuracy": 0.1})
        run.writer.add_row("evaluations", 40, {"heldout/accuracy": 0.4})
        run.writer.event(3, "spectra", "no time")
        run.writer.close("finished")
    (folder / "broken").mkdir()
    (folder / "broken" / "run.json").write_text("{")
    log = [{"step": i, "reward": 0.1 * (i % 7), "loss": 0.0, "kl": None} for i in range(1, 30)]
    (folder / LOG).write_text(json.dumps({"log_history": log, "global_step": 29}))
    return folder


def printed(*arguments: str, code: int = 0) -> Any:
    result = CliRunner().invoke(build(), [*arguments, "--json"])
    assert result.exit_code == code, (result.output, result.exception)
    return json.loads(result.stdout)


def test_schemas_and_page_are_made_from_the_dataclasses() -> None:
    for name, content in documents().items():
        assert (ROOT / name).read_text(encoding="utf-8") == content, f"{name}: run `python -m grpodyn.cli.schemas`"


def test_every_command_has_a_schema() -> None:
    assert sorted(COMMANDS) == sorted(NAMES)


@pytest.mark.parametrize("command", COMMANDS)
def test_schemas_are_schemas(command: str) -> None:
    jsonschema.Draft202012Validator.check_schema(schema(command))


@pytest.mark.parametrize("words", COMMAND_LINES)
def test_what_is_printed_fits_its_schema(runs: Path, tmp_path: Path, words: str) -> None:
    arguments = [word.format(runs=runs, out=tmp_path / "out") for word in words.split()]
    must_fit(arguments[0], printed(*arguments))


def test_real_output_of_every_command_is_held_against_its_schema() -> None:
    held = {line.split()[0] for line in COMMAND_LINES}
    # What takes a model or a training stands in the tests that have one.
    for path in (ROOT / "tests").rglob("test_*.py"):
        held |= set(re.findall(r'must_fit\("([a-z-]+)", ', path.read_text(encoding="utf-8")))
    assert held == set(COMMANDS)


def test_a_schema_refuses_what_lacks_a_key(runs: Path) -> None:
    content = printed("status", str(runs / "a"))
    del content["rows"]
    with pytest.raises(jsonschema.ValidationError, match="'rows' is a required property"):
        jsonschema.validate(content, schema("status"))


def test_undefined_numbers_are_null_and_null_is_allowed(runs: Path) -> None:
    content = printed("watch", str(runs / "a"))
    assert content["recorder_share"] == pytest.approx(0.005)
    content["recorder_share"] = None
    jsonschema.validate(content, schema("watch"))
