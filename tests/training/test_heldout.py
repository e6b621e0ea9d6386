"""What is measured before, during and after training, and where it is kept."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from transformers import AutoModelForCausalLM, AutoTokenizer

from grpodyn.config.run import RunConfig, from_dict
from grpodyn.embedded import MODEL_DIR
from grpodyn.errors import ConfigError
from grpodyn.evaluation.kept_losses import FILE, START
from grpodyn.training import data
from grpodyn.training.heldout import EvaluateHeldOut
from grpodyn.training.retention import retention


class Sink:
    def __init__(self, run_dir: Path, recorded: bool = True) -> None:
        self.run_dir = run_dir
        self.recorded = recorded
        self.rows: list[tuple[int, dict[str, float]]] = []

    def add_evaluation(self, step: int, metrics: Mapping[str, float]) -> None:
        self.rows.append((step, dict(metrics)))


class Lines:
    def __init__(self) -> None:
        self.said: list[str] = []

    def say(self, line: str) -> None:
        self.said.append(line)


def config(**evaluate: Any) -> RunConfig:
    asked = {"prompts": 4, "temperatures": [1.0], **evaluate}
    raw = {"model": "embedded", "task": "arithmetic_format", "evaluate": asked, "grpo": {"max_completion_length": 8}}
    return from_dict(raw, "here")


def callback(chosen: RunConfig, sink: Sink, lines: Lines, base_is_known: bool = False) -> EvaluateHeldOut:
    assert chosen.evaluate is not None
    tokenizer = AutoTokenizer.from_pretrained(MODEL_DIR)
    prompts = data.train_prompts(chosen.task)
    held_out = data.held_out(chosen.task, "report", chosen.evaluate.prompts) if chosen.evaluate.prompts else None
    beside = retention(chosen, tokenizer, prompts, held_out)
    return EvaluateHeldOut(chosen.evaluate, held_out, tokenizer, sink, lines, base_is_known, beside)


@pytest.fixture(scope="module")
def model() -> Any:
    return AutoModelForCausalLM.from_pretrained(MODEL_DIR)


def at(step: int, of: int = 10) -> SimpleNamespace:
    return SimpleNamespace(global_step=step, max_steps=of)


def test_everything_is_measured_before_in_between_and_at_the_end(model: Any, tmp_path: Path) -> None:
    sink, lines = Sink(tmp_path), Lines()
    stage = {"name": "sums", "task": {"name": "arithmetic_format"}, "split": "choose", "prompts": 3}
    chosen = config(every=5, texts=["other_formats"], text_windows=6, kl=True, kl_prompts=3, stages=[stage])
    hook = callback(chosen, sink, lines)
    hook.on_train_begin(None, at(0), None, model=model)
    for step in (1, 5, 10):
        hook.on_step_end(None, at(step), None, model=model)
    # One evaluation is one row.
    assert [step for step, _ in sink.rows] == [0, 5, 10]
    accuracy = sink.rows[0][1]
    assert "perplexity/other_formats" in accuracy
    # More tries never find the answer less often.
    tries = [accuracy["heldout/accuracy"], *(accuracy[f"heldout/pass@{k}"] for k in (2, 4, 8, 16))]
    assert tries == sorted(tries)
    beside = sink.rows[-1][1]
    assert beside["kl/forward"] == pytest.approx(0, abs=1e-5)
    assert 0 < beside["stage/sums/accuracy"] < 1
    assert len((tmp_path / FILE).read_text().splitlines()) == 9
    assert any("perplexity of other_formats" in line and "nats a completion" in line for line in lines.said)


def test_texts_alone_need_no_answers(model: Any, tmp_path: Path) -> None:
    sink = Sink(tmp_path)
    hook = callback(config(prompts=0, texts=["other_formats"], text_windows=2), sink, Lines())
    hook.on_train_begin(None, at(0), None, model=model)
    ((step, metrics),) = sink.rows
    assert step == 0
    assert set(metrics) == {"perplexity/other_formats", "word_perplexity/other_formats"}


def test_drift_without_held_out_prompts_is_measured_on_those_trained_on(model: Any, tmp_path: Path) -> None:
    sink = Sink(tmp_path)
    hook = callback(config(prompts=0, kl=True, kl_prompts=2), sink, Lines())
    hook.on_train_begin(None, at(0), None, model=model)
    assert "kl/forward" in sink.rows[0][1]
    assert (tmp_path / START).exists()


def test_a_run_that_was_refused_writes_nothing_into_somebody_elses_directory(model: Any, tmp_path: Path) -> None:
    hook = callback(config(texts=["other_formats"], text_windows=2, kl=True), Sink(tmp_path, recorded=False), Lines())
    hook.on_train_begin(None, at(0), None, model=model)
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_ends_no_training(model: Any, tmp_path: Path) -> None:
    sink, lines = Sink(tmp_path / "gone"), Lines()
    hook = callback(config(texts=["other_formats"], text_windows=2, kl=True, kl_prompts=2), sink, lines)
    hook.on_train_begin(None, at(0), None, model=model)
    assert len(sink.rows) == 1
    assert any("are not kept" in line for line in lines.said)


def test_a_base_that_is_known_is_not_measured_again(model: Any, tmp_path: Path) -> None:
    sink = Sink(tmp_path)
    hook = callback(config(texts=["other_formats"], text_windows=2), sink, Lines(), base_is_known=True)
    hook.on_train_begin(None, at(0), None, model=model)
    hook.on_train_begin(None, at(7), None, model=model)
    assert sink.rows == []


@pytest.mark.parametrize(
    ("evaluate", "message"),
    [
        ({"texts": ["other_formats", "elsewhere/other_formats.txt"]}, "other_formats occurs twice"),
        ({"texts": ["nowhere.txt"]}, "cannot be read"),
        ({"stages": [{"name": "s", "task": "arithmetic_format", "split": "train"}]}, "which is trained on"),
    ],
)
def test_what_cannot_be_measured_is_found_before_anything_is_loaded(evaluate: dict[str, Any], message: str) -> None:
    def build() -> None:
        chosen = config(**evaluate)
        retention(chosen, AutoTokenizer.from_pretrained(MODEL_DIR), data.train_prompts(chosen.task), None)

    with pytest.raises(ConfigError, match=message):
        build()
