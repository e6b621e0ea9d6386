"""`grpodyn probes`, `grpodyn analyses`, and the docs page that is made from the same registry."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from grpodyn import registry
from grpodyn.cli.app import build
from grpodyn.cli.catalogue import COSTS, markdown, probe_entries

PAGE = Path(__file__).parents[2] / "docs" / "catalogue.md"


def invoke(*arguments: str, columns: int = 120) -> str:
    result = CliRunner().invoke(build(), list(arguments), env={"COLUMNS": str(columns)})
    assert result.exit_code == 0, result.output
    return result.output


def as_json(command: str) -> list[dict[str, Any]]:
    return json.loads(invoke(command, "--json"))[command]


def test_the_page_is_made_from_the_registry():
    assert PAGE.read_text(encoding="utf-8") == markdown(), "run `python -m grpodyn.cli.catalogue`"


@pytest.mark.parametrize("kind", ["probes", "analyses"])
def test_the_page_and_the_commands_name_everything(kind: str):
    names = list(getattr(registry, kind)())
    assert [entry["name"] for entry in as_json(kind)] == names
    table, page = invoke(kind), PAGE.read_text(encoding="utf-8")
    for name in names:
        assert name in table
        assert f"### {name}\n" in page


def test_what_the_json_of_a_probe_holds():
    (entry,) = [entry for entry in as_json("probes") if entry["name"] == "update_ratio"]
    assert entry == {
        "name": "update_ratio",
        "title": registry.probe("update_ratio").title,
        "group": "tensors",
        "dims": ["row", "tensor"],
        "unit": "1",
        "dtype": "float32",
        "cost": "norm",
        "needs": ["previous_weight", "step"],
        "when": "point",
        "reduction": "sum",
        "cadence": {"light": 5, "standard": 1, "full": 1},
        "reference": registry.probe("update_ratio").reference,
    }


def test_what_the_json_of_an_analysis_holds():
    for entry in as_json("analyses"):
        assert set(entry) == {"name", "title", "requires", "reference"}
        for name in entry["requires"]:
            assert name in registry.probes() or name.split(":")[0] in ("metrics", "rollouts", "evaluations")


def test_cadence_of_the_presets():
    cadence = {entry["name"]: entry["cadence"] for entry in as_json("probes")}
    assert cadence["grad_norm"]["standard"] == 1
    assert cadence["delta_norm"]["standard"] == 5
    assert cadence["effective_rank"] == {"light": 0, "standard": 25, "full": 1}


def test_the_table_fits_a_narrow_terminal():
    table = invoke("probes", columns=80)
    assert max(len(line) for line in table.splitlines()) <= 80
    assert "…" not in table
    assert "update_norm_intended" in table


def test_the_page_says_what_every_cost_class_takes_in_every_preset():
    assert {probe.cost for probe in probe_entries()} == set(COSTS)
    rows = {line.split(" | ")[0].removeprefix("| "): line for line in markdown().splitlines() if line.startswith("| ")}
    assert "every step; every 5 steps; every 25 steps | every step; every 25 steps |" in rows["norm"]
    assert rows["forward"].endswith("| on request | on request | at the first and the last step |")
