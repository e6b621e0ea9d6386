"""What is retained: measured, kept by window, and read back."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from grpodyn.evaluation import kept_losses
from grpodyn.evaluation.answer_scores import score_answers
from grpodyn.evaluation.kept_losses import FILE, START, Kept
from grpodyn.evaluation.retention import Retention, Stage
from grpodyn.evaluation.text import Document, HeldOutText
from grpodyn.tasks import Examples
from tests.simulation.recorded import record

TEXT = HeldOutText("plain", (Document("abab"), Document("bb")))
STAGE = Stage("first", Examples(("a", "b"), ("b", "a")))


@pytest.fixture
def retention(toy_tokenizer) -> Retention:
    return Retention(
        toy_tokenizer, texts=[TEXT], stages=[STAGE], drift_prompts=["a", "ab", "b"], max_new_tokens=3, window=2
    )


def line(step: int, values: list[float], **changes) -> str:
    fields = {"step": step, "kind": "stage", "name": "s", "values": values, "tokens": [], "words": [], "digest": ""}
    return json.dumps({**fields, **changes})


def test_what_is_measured(retention: Retention, toy_model, tmp_path: Path) -> None:
    retention.begin(toy_model, tmp_path, at_start=True, keep=True)
    measured = retention.measure(toy_model, 0)
    assert set(measured.metrics) == {
        "perplexity/plain",
        "word_perplexity/plain",
        "stage/first/accuracy",
        "stage/first/greedy_accuracy",
        "kl/forward",
        "kl/forward_per_token",
    } - {"word_perplexity/plain"}  # both documents are one word, which begins in the token that is not scored
    right = np.exp(score_answers(toy_model, retention.tokenizer, ["a", "b"], ["b", "a"]).log_probability[0])
    assert measured.metrics["stage/first/accuracy"] == pytest.approx(right.mean())
    assert {(one.kind, one.name, len(one.values)) for one in measured.kept} == {
        ("text", "plain", 3),
        ("stage", "first", 2),
        ("drift", "kl", 3),
    }


def test_a_run_that_goes_on_measures_drift_from_where_it_first_started(
    retention: Retention, toy_model, toy_tokenizer, tmp_path: Path
) -> None:
    retention.begin(toy_model, tmp_path, at_start=True, keep=True)
    with torch.no_grad():
        toy_model.lm_head.weight.mul_(2)
    expected = retention.measure(toy_model, 5).metrics["kl/forward"]
    assert expected > 0.01
    resumed = Retention(toy_tokenizer, drift_prompts=["a", "ab", "b"], max_new_tokens=3)
    resumed.begin(toy_model, tmp_path, at_start=False, keep=True)
    assert resumed.measure(toy_model, 5).metrics["kl/forward"] == pytest.approx(expected)


def test_without_what_the_start_answered_there_is_no_drift(retention: Retention, toy_model, tmp_path: Path) -> None:
    retention.begin(toy_model, tmp_path, at_start=False, keep=True)
    assert "kl/forward" not in retention.measure(toy_model, 5).metrics
    assert not (tmp_path / START).exists()


def test_what_is_kept_comes_back(retention: Retention, toy_model, tmp_path: Path) -> None:
    run = record(tmp_path / "run", evaluations={0: {"kl/forward": 0.0}, 5: {"kl/forward": 0.1}})
    retention.begin(toy_model, run.path, at_start=True, keep=True)
    for step in (0, 5):
        kept_losses.append(run.path, retention.measure(toy_model, step).kept)
    found = kept_losses.read(run)
    assert [(one.step, one.kind) for one in found] == [(s, k) for s in (0, 5) for k in ("text", "stage", "drift")]
    text = found[0]
    assert (text.digest, text.tokens.tolist()) == (TEXT.digest, [2, 1, 1])


def test_a_line_that_a_kill_cut_short_is_left_out_and_swallows_nothing(tmp_path: Path) -> None:
    run = record(tmp_path / "run", evaluations={0: {"x": 1.0}, 5: {"x": 1.0}, 10: {"x": 1.0}})
    (run.path / FILE).write_text(line(0, [0.5]) + "\n" + line(5, [0.25])[:-9])
    kept_losses.append(run.path, [Kept(10, "stage", "s", np.array([0.75]), np.zeros(0), np.zeros(0))])
    assert [(one.step, one.values.tolist()) for one in kept_losses.read(run)] == [(0, [0.5]), (10, [0.75])]


def test_of_a_step_that_was_measured_twice_the_later_counts(tmp_path: Path) -> None:
    run = record(tmp_path / "run", evaluations={5: {"x": 1.0}})
    # Step 9 was trained and measured, then training went back before it.
    (run.path / FILE).write_text("\n".join([line(5, [0.1]), line(9, [0.9]), line(5, [0.2])]) + "\n")
    assert [(one.step, one.values.tolist()) for one in kept_losses.read(run)] == [(5, [0.2])]


def test_a_loss_that_is_not_finite_comes_back_as_nan(tmp_path: Path) -> None:
    run = record(tmp_path / "run", evaluations={5: {"x": 1.0}})
    kept_losses.append(run.path, [Kept(5, "stage", "s", np.array([np.nan, 1.0]), np.zeros(0), np.zeros(0))])
    (one,) = kept_losses.read(run)
    assert np.isnan(one.values[0])
    assert one.values[1] == 1


def test_a_run_that_kept_nothing(tmp_path: Path) -> None:
    assert kept_losses.read(record(tmp_path / "run", evaluations={5: {"x": 1.0}})) == []
