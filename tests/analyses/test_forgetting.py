"""`forgetting`: what was lost against what was gained."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from grpodyn import registry
from grpodyn.cli.app import build
from grpodyn.errors import MissingDataError
from grpodyn.evaluation import kept_losses
from grpodyn.evaluation.kept_losses import Kept
from grpodyn.trace.reader import Run
from tests.schema import must_fit
from tests.simulation.recorded import record

TOKENS = np.full(20, 10.0)


def text(step: int, loss: float, digest: str = "d", name: str = "wiki") -> Kept:
    hard = np.linspace(1, 3, 20)
    return Kept(step, "text", name, (hard + loss) * TOKENS, TOKENS, TOKENS / 2, digest)


def stage(step: int, accuracy: float) -> Kept:
    return Kept(
        step, "stage", "addition", np.clip(accuracy + np.linspace(-0.1, 0.1, 50), 0, 1), np.zeros(0), np.zeros(0)
    )


def drift(step: int, nats: float) -> Kept:
    return Kept(step, "drift", "kl", nats * np.linspace(0.5, 1.5, 30), np.full(30, 6.0), np.zeros(0))


def lossy(tmp_path: Path, *extra: Kept, **fields: Any) -> Run:
    """Write a run that gains .5 on its task while a text gets .2 nats a token worse."""
    run = record(
        tmp_path / "run",
        evaluations={step: {"heldout/accuracy": 0.1 + 0.05 * step} for step in (0, 5, 10)},
        **{"layers": {10: [1, 1, 8]}, **fields},
    )
    kept = [
        one
        for step in (0, 5, 10)
        for one in (text(step, 0.02 * step), stage(step, 0.8 - 0.02 * step), drift(step, 0.1 * step))
    ]
    kept_losses.append(run.path, [*kept, *extra])
    return run


def found(run: Run, **options: Any) -> Any:
    return registry.analysis("forgetting").run(run, **options)


def test_before_and_after_by_hand(tmp_path: Path) -> None:
    result = found(lossy(tmp_path))
    (wiki,) = result.perplexity
    # Mean loss 2 nats a token before, 2.2 after; two tokens a word.
    assert (wiki.before, wiki.after) == (pytest.approx(math.exp(2)), pytest.approx(math.exp(2.2)))
    assert (wiki.word_before, wiki.word_after) == (pytest.approx(math.exp(4)), pytest.approx(math.exp(4.4)))
    assert wiki.ratio.value == pytest.approx(math.exp(0.2))
    # Every window lost alike, so the pairs leave no doubt, although windows differ by 2 nats.
    assert wiki.ratio.high - wiki.ratio.low < 1e-9
    assert wiki.windows == 20
    (addition,) = result.stages
    assert (addition.before, addition.after) == (pytest.approx(0.8), pytest.approx(0.6))
    assert addition.difference.value == pytest.approx(-0.2)
    assert [(one.step, one.forward_kl.value) for one in result.kl] == [
        (0, 0),
        (5, pytest.approx(0.5)),
        (10, pytest.approx(1.0)),
    ]
    assert result.kl[-1].per_token == pytest.approx(1 / 6)
    assert result.kl[-1].forward_kl.low > 0.7


def test_the_curve_sets_loss_against_gain(tmp_path: Path) -> None:
    curve = found(lossy(tmp_path)).curve
    assert [point.step for point in curve] == [0, 5, 10]
    assert [point.gain for point in curve] == [0, pytest.approx(0.25), pytest.approx(0.5)]
    assert [point.perplexity_ratio["wiki"] for point in curve] == [
        1,
        pytest.approx(math.exp(0.1)),
        pytest.approx(math.exp(0.2)),
    ]
    assert curve[-1].stage_difference["addition"] == pytest.approx(-0.2)
    assert curve[-1].forward_kl == pytest.approx(1)


def test_a53_layers_stand_beside_it_without_a_claim(tmp_path: Path) -> None:
    result = found(lossy(tmp_path))
    assert max(result.layers, key=lambda name: result.layers[name]) == "model.layers.2"
    assert "says neither" in result.no_cause


def test_a_text_that_was_edited_in_between_is_not_compared_with_itself(tmp_path: Path) -> None:
    result = found(lossy(tmp_path, text(5, 9.0, digest="e"), text(10, 9.0, digest="e")))
    (wiki,) = result.perplexity
    assert wiki.ratio.value == pytest.approx(1)
    assert "wiki" not in result.curve[-1].perplexity_ratio


def test_texts_measured_afterwards_take_the_place_of_those_recorded(tmp_path: Path) -> None:
    later = [
        Kept(step, "text", "wiki", np.array([1.0, 2.0]) + 0.1 * step, np.array([1.0, 1.0]), np.ones(2), "x")
        for step in (0, 10)
    ]
    (wiki,) = found(lossy(tmp_path), measured=later).perplexity
    assert wiki.windows == 2
    assert wiki.ratio.value == pytest.approx(math.e)


def test_means_without_windows_have_no_interval(tmp_path: Path) -> None:
    run = record(
        tmp_path / "run",
        evaluations={
            0: {"perplexity/wiki": 10.0, "stage/a/accuracy": 0.5},
            9: {"perplexity/wiki": 12.0, "stage/a/accuracy": 0.4},
        },
    )
    result = found(run)
    (wiki,) = result.perplexity
    assert wiki.ratio.value == pytest.approx(1.2)
    assert not wiki.ratio.known
    assert result.stages[0].difference.value == pytest.approx(-0.1)
    assert "which layers moved is not recorded" in result.notes[0]
    assert "set `evaluate.every`" in result.notes[1]


def test_a_run_that_measured_nothing_beside_its_task_says_how_to(tmp_path: Path) -> None:
    run = record(tmp_path / "run", metrics={1: {"reward": 0.1}}, evaluations={0: {"heldout/accuracy": 0.1}})
    with pytest.raises(MissingDataError, match=r"--set 'evaluate\.texts=\[FILE\]'.*--text FILE"):
        found(run)


def test_the_command(tmp_path: Path) -> None:
    run = lossy(tmp_path)
    result = CliRunner().invoke(build(), ["forgetting", str(run.path), "--json"])
    printed = json.loads(result.output)
    must_fit("forgetting", printed)
    assert {"text", "before", "after", "ratio"} <= set(printed["perplexity"][0])
    assert {"perplexity", "kl", "stages"} <= set(printed)
    shown = CliRunner().invoke(build(), ["forgetting", str(run.path)], env={"COLUMNS": "100"}).output
    assert "× 1.221" in shown
    assert "stage addition" in shown
    assert "says neither" in " ".join(shown.split())


@pytest.mark.slow
def test_a53_a_recorded_run_and_its_saved_weights_say_the_same(tmp_path: Path) -> None:
    settings = {
        "grpo.max_steps": 4, "grpo.learning_rate": 1e-3, "grpo.per_device_train_batch_size": 32,
        "evaluate.prompts": 20, "evaluate.text_windows": 60, "evaluate.kl_prompts": 20,
        "evaluate.temperatures": "[1.0]",
    }  # fmt: skip
    options = [part for key, value in settings.items() for part in ("--set", f"{key}={value}")]
    directory = tmp_path / "run"
    recorded = CliRunner().invoke(build(), ["record", "--run-dir", str(directory), *options])
    assert recorded.exit_code == 0, recorded.output
    command = ["forgetting", str(directory), "--json"]
    within = json.loads(CliRunner().invoke(build(), command).stdout)
    again = json.loads(CliRunner().invoke(build(), [*command, "--text", "other_formats", "--windows", "60"]).stdout)
    (a,), (b,) = within["perplexity"], again["perplexity"]
    assert a["ratio"]["value"] > 1.01
    assert b["before"] == pytest.approx(a["before"], rel=1e-5)
    assert b["after"] == pytest.approx(a["after"], rel=1e-4)
    assert within["kl"][0]["forward_kl"]["value"] == pytest.approx(0, abs=1e-5)
    assert within["kl"][-1]["forward_kl"]["value"] > 0.01


def test_a_stage_that_was_asked_other_prompts_at_first_is_paired_from_there_on(tmp_path: Path) -> None:
    asked_less = Kept(0, "stage", "addition", np.full(7, 0.9), np.zeros(0), np.zeros(0))
    result = found(lossy(tmp_path, asked_less))
    (addition,) = result.stages
    assert addition.difference.value == pytest.approx(-0.1, abs=1e-6)
    assert "addition" not in result.curve[0].stage_difference


@pytest.mark.parametrize(
    "change",
    [{"kind": "else"}, {"kind": ["text"]}, {"step": 1e999}, {"values": []}, {"values": [[1.0]]}, {"tokens": [1.0]}],
)
def test_a_line_that_is_no_measurement_is_passed_over(tmp_path: Path, change: dict[str, Any]) -> None:
    run = lossy(tmp_path)
    with (run.path / kept_losses.FILE).open("a") as file:
        file.write(json.dumps({**text(10, 9.0).to_json(), **change}) + "\n")
    (wiki,) = found(run).perplexity
    assert wiki.ratio.value == pytest.approx(math.exp(0.2))


def test_a_perplexity_of_0_gives_no_ratio(tmp_path: Path) -> None:
    run = record(tmp_path / "run", evaluations={0: {"perplexity/wiki": 0.0}, 9: {"perplexity/wiki": 12.0}})
    (wiki,) = found(run).perplexity
    assert math.isnan(wiki.ratio.value)
