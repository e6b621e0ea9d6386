"""The tables that the predictors are published with."""

import math
from dataclasses import asdict
from pathlib import Path

import pytest

from grpodyn.ablation.ledger import LEDGER, read
from grpodyn.ablation.results import load
from grpodyn.placement.judging import Choice, Predictor
from tests.simulation.scripts import report_script


@pytest.fixture(scope="module")
def report():
    return report_script("placement")


GAINED = {
    "a": {"layer 0": 0.5, "layer 1": 0.4, "layer 2": 0.1},
    "b": {"layer 0": 0.1, "layer 1": 0.4, "layer 2": 0.3},
}
WIDTHS = {"a": {"layer 0": 0.02, "layer 1": math.nan}}
PATCHED = Predictor("put-back", "two checkpoints: full run")
MOVED = Predictor("path length", "trace: full run", 0.25)
CHOICES = [
    Choice(PATCHED, "a", "layers", "layer 0", 0.0, 0.0, 1.0),
    Choice(PATCHED, "b", "layers", "layer 2", 0.1, 0.25, 0.5),
    Choice(MOVED, "a", "layers", "layer 2", 0.4, 0.8, -1.0),
    Choice(MOVED, "b", "layers", "layer 1", 0.0, 0.0, math.nan),
]
WHOLE = [
    Choice(Predictor("coherence", "trace: full run"), task, "layers", "layer 2", 0.3, lost, 0.0)
    for task, lost in (("a", 0.6), ("b", 0.2))
]
ONE_TASK = Choice(Predictor("effective rank", "two checkpoints: full run"), "a", "layers", "layer 0", 0.0, 0.0, 1.0)


def test_predictors_stand_in_the_order_of_what_they_lose_beside_chance(report):
    text = report.page(GAINED, [*CHOICES, ONE_TASK], [], WIDTHS)
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    assert "| a | 0.500 ± 0.020 | 0.400 | 0.100 |" in rows
    first, second, partial, chance = (
        next(i for i, row in enumerate(rows) if row.startswith(f"| {name}"))
        for name in ("put-back", "path length", "effective rank", "*a part drawn at random*")
    )
    # What says nothing of task b stands after the others, though it loses nothing on a.
    assert first < second < partial < chance
    # Columns: lost after a quarter and the whole of the run, leaders and rank correlation at the latest that is known.
    assert rows[first] == "| put-back | two checkpoints: full run | – | 12% | layer 0, 0% | layer 2, 25% | +0.75 |"
    assert rows[second] == "| path length | trace: full run | 40% | – | layer 2, 80% | layer 1, 0% | -1.00 |"
    # Chance: (0 + .2 + .8)/3 and (.75 + 0 + .25)/3.
    assert rows[chance] == "| *a part drawn at random* | – | – | 33% | 33% | 33% | – |"


def test_what_a_trace_adds_is_a_row_of_its_own(report):
    text = report.page(GAINED, CHOICES, [], WIDTHS)
    rows = [line for line in text.splitlines() if line.startswith("| layers |")]
    assert [row.split(" | ")[1] for row in rows] == ["two checkpoints"] * 2 + ["traces"] * 2 + ["both"] * 2
    # Judged on b, path length (0 %) is better than put-back (25 %): on a it loses .8.
    assert rows[4] == "| layers | both | a | path length, trace: full run, 25% | 80% |"
    assert rows[5] == "| layers | both | b | put-back, two checkpoints: full run, 100% | 25% |"


def test_a_source_that_never_pays_is_said(report):
    cost = {"task": "a", "source": "full run", "training_seconds": 40.0, "patch_test_seconds": 20.0}
    cost |= {"runs_cost": 1.0, "runs_cost_patch_tested": 1.5}
    never = {**cost, "saved_share": -0.02, "runs_until_paid": None, "runs_until_paid_patch_tested": None}
    after = {**cost, "saved_share": 0.1, "runs_until_paid": 10, "runs_until_paid_patch_tested": 15}
    text = report.page(GAINED, CHOICES, [never, after], WIDTHS)
    assert "| a | full run | 40 | 20 | 1.0 | 1.5 | -2% | never | never |" in text
    assert "| a | full run | 40 | 20 | 1.0 | 1.5 | 10% | 10 | 15 |" in text


def test_the_figure_puts_what_loses_least_on_top():
    figure_script = report_script("placement_figure")
    found = {
        "choices": [asdict(choice) for choice in (*CHOICES, *WHOLE, ONE_TASK)],
        "chance": {"a": {"layers": 0.3}, "b": {"layers": 0.5}},
    }
    (panel,) = figure_script.draw(found).axes
    # Nor is what says something of one task only.
    labels = [label.get_text() for label in panel.get_yticklabels()]
    # What a trace says after a quarter of the run is not drawn.
    assert labels == ["coherence, trace: full run", "put-back, two checkpoints: full run"]
    assert [bar.get_width() for bar in panel.patches] == pytest.approx([0.4, 0.125])
    dots = {line.get_label(): line.get_xdata().tolist() for line in panel.lines if line.get_marker() == "o"}
    assert dots == {"a": [0.6, 0.0], "b": [0.2, 0.25]}
    assert panel.lines[-1].get_xdata()[0] == pytest.approx(0.4)


def test_a_saving_is_of_processor_time_and_a_cost_of_the_sources_own_steps(report, monkeypatch):
    folder = Path(__file__).parents[2] / "docs" / "results" / "placement"
    steps = {"lora": (20.0, 10.0), "tenth": (2.0, 10.0)}
    monkeypatch.setattr(report, "seconds_of", lambda run: steps[run.parent.name])
    choices = [Choice(PATCHED, "string_commands", "layers", "layer 0", 0.0, 0.0, 1.0)]
    sources = {report.LORA_RUN: Path("lora"), "first tenth of an all-linear LoRA run": Path("tenth")}
    whole, tenth = report.costs(load(folder), read(folder / LEDGER), sources, choices)
    assert (whole["runs_cost"], whole["runs_cost_patch_tested"]) == (1.0, 1.5)
    assert (tenth["runs_cost"], tenth["runs_cost_patch_tested"]) == pytest.approx((0.1, 0.6))
    # Medians of the ledger's three test seeds, layer 0 alone (the best layer) over all-linear.
    by_arm = {}
    for record in read(folder / LEDGER):
        if (record.task, record.phase) == ("string_commands", "test"):
            by_arm.setdefault(record.arm, []).append(record.cpu_seconds)
    saved = 1 - sorted(by_arm["layer:0"])[1] / sorted(by_arm["all-linear"])[1]
    assert [whole["saved_share"], tenth["saved_share"]] == pytest.approx([saved, saved])
    assert tenth["runs_until_paid"] == 1
    assert report.costs(load(folder), read(folder / LEDGER), {"tenth": Path("tenth")}, choices) == []
