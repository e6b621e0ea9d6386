"""What a run config asks for where its accuracy is sampled."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from grpodyn.config import run
from grpodyn.errors import ConfigError
from grpodyn.training.heldout import EvaluateHeldOut
from grpodyn.training.loading import load_model, load_tokenizer
from grpodyn.training.sampled import sampled_test

SAMPLED = ["evaluate.samples=4", "evaluate.prompts=5", "evaluate.texts=[]", "evaluate.kl=false"]


class Sink:
    run_dir, recorded = Path("nowhere"), False

    def __init__(self) -> None:
        self.rows: list[tuple[int, dict[str, float]]] = []

    def add_evaluation(self, step, metrics):
        self.rows.append((step, dict(metrics)))


def test_it_is_measured_before_the_first_step():
    config = run.embedded(SAMPLED)
    tokenizer, model = load_tokenizer(config.model), load_model(config.model)
    test = sampled_test(config, tokenizer)
    assert test is not None
    assert config.evaluate is not None
    sink, said = Sink(), []
    display = SimpleNamespace(say=said.append)
    evaluation = EvaluateHeldOut(config.evaluate, None, tokenizer, sink, display, sampled=test)
    evaluation.on_train_begin(None, SimpleNamespace(global_step=0), None, model=model)
    ((step, metrics),) = sink.rows
    assert step == 0
    assert {"heldout/accuracy", "heldout/greedy_accuracy", "heldout/pass@4", "heldout/truncated"} <= set(metrics)
    assert "4 samples" in said[0]
    # The same prompts and the same seed: what differs is the model.
    assert test.measure(model).metrics() == metrics


def test_held_out_rows_that_the_judge_cannot_read_are_found_before_the_start(tmp_path):
    rows = [{"prompt": f"{n}+1=", "answer": str(n + 1) if n < 5 else "many"} for n in range(10)]
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    raw = {
        "model": "embedded",
        "task": {"dataset": str(path), "split": "train[:5]"},
        "rewards": ["numeric_match"],
        "evaluate": {"samples": 2, "split": "train[5:]"},
    }
    config = run.from_dict(raw, "test")
    with pytest.raises(ConfigError, match="numeric_match, row 0: the answer 'many' is no number"):
        sampled_test(config, load_tokenizer(config.model))


def test_held_out_prompts_that_the_context_cannot_hold_are_found_before_the_start(tmp_path):
    rows = [{"prompt": "1+" * (1 if n < 5 else n) + "1=", "answer": "2"} for n in range(10)]
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))

    def config(too_long):
        task = {"dataset": str(path), "split": "train[:5]", "max_prompt_tokens": 14, "too_long": too_long}
        raw = {"model": "embedded", "task": task, "rewards": ["numeric_match"], "grpo": {"max_completion_length": 8}}
        return run.from_dict({**raw, "evaluate": {"samples": 2, "split": "train[5:]"}}, "test")

    tokenizer = load_tokenizer(config("refuse").model)
    with pytest.raises(ConfigError, match=r"3 of 5 held-out prompts have more than 14 tokens"):
        sampled_test(config("refuse"), tokenizer)
    test = sampled_test(config("drop"), tokenizer)
    assert test is not None
    assert len(test.rows) == 2


def test_exact_accuracy_needs_none():
    config = run.embedded()
    assert sampled_test(config, load_tokenizer(config.model)) is None


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        (["evaluate.judge=exact_match"], "set `samples`"),
        (["evaluate.samples=4", "evaluate.judge=exact"], "one of the run's rewards: exact_match"),
        (["evaluate.samples=0"], "samples"),
    ],
)
def test_what_cannot_be_judged_is_refused(settings, why):
    with pytest.raises(ConfigError, match=why):
        run.embedded(settings)
