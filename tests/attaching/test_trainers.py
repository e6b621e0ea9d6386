"""Any trainer of transformers and TRL is recorded: what it has no rollouts of, it says."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import (
    PreTrainedTokenizerFast,
    Qwen2Config,
    Qwen2ForCausalLM,
    Trainer,
    TrainerCallback,
    TrainingArguments,
)

from grpodyn import Recorder, open_run
from grpodyn.config.record import RecordConfig

WORDS = ["<pad>", "<eos>", "<unk>", *"0123456789", "+", "="]
FULL = RecordConfig(preset="full")
NAME = "model.layers.0.mlp.up_proj.weight"


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    inner = Tokenizer(models.WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="<unk>"))
    inner.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    made = PreTrainedTokenizerFast(
        tokenizer_object=inner, pad_token="<pad>", eos_token="<eos>", unk_token="<unk>", padding_side="left"
    )
    made.chat_template = "{% for message in messages %}{{ message['content'] }}{% endfor %}"
    return made


def tiny_model() -> Any:
    torch.manual_seed(0)
    config = Qwen2Config(
        vocab_size=len(WORDS), hidden_size=16, intermediate_size=24, num_hidden_layers=1, num_attention_heads=2,
        num_key_value_heads=1, max_position_embeddings=64, tie_word_embeddings=True, bos_token_id=None, eos_token_id=1,
        pad_token_id=0,
    )  # fmt: skip
    return Qwen2ForCausalLM(config)


def settings(folder: Path, **changes: Any) -> dict[str, Any]:
    return {
        "output_dir": str(folder / "out"), "max_steps": 4, "use_cpu": True, "bf16": False, "report_to": [],
        "disable_tqdm": True, "save_strategy": "no", "logging_steps": 1, "per_device_train_batch_size": 2,
        "gradient_checkpointing": False, "learning_rate": 1e-3, **changes,
    }  # fmt: skip


class Watcher(TrainerCallback):
    """Keeps every gradient norm and update norm of one tensor."""

    def __init__(self) -> None:
        self.gradients: list[float] = []
        self.updates: list[float] = []
        self._before = torch.zeros(())

    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        weight = dict(kwargs["model"].named_parameters())[NAME]
        self.gradients.append(float(weight.grad.double().norm()))
        self._before = weight.detach().clone()

    def on_optimizer_step(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        weight = dict(kwargs["model"].named_parameters())[NAME]
        self.updates.append(float((weight.detach().double() - self._before.double()).norm()))


def sft(folder: Path, tokenizer: Any, callbacks: list[Any]) -> Any:
    from trl import SFTConfig, SFTTrainer  # noqa: PLC0415

    data = Dataset.from_dict({"text": [f"{i % 10}+{i // 10}=1" for i in range(32)]})
    return SFTTrainer(
        tiny_model(), args=SFTConfig(**settings(folder)), train_dataset=data, processing_class=tokenizer,
        callbacks=callbacks,
    )  # fmt: skip


def dpo(folder: Path, tokenizer: Any, callbacks: list[Any]) -> Any:
    from trl import DPOConfig, DPOTrainer  # noqa: PLC0415

    rows = [{"prompt": f"{i % 10}+1=", "chosen": "1", "rejected": "22"} for i in range(32)]
    reference = tiny_model()
    return DPOTrainer(
        tiny_model(), reference, args=DPOConfig(**settings(folder)), train_dataset=Dataset.from_list(rows),
        processing_class=tokenizer, callbacks=callbacks,
    )  # fmt: skip


def rloo(folder: Path, tokenizer: Any, callbacks: list[Any]) -> Any:
    from trl import RLOOConfig, RLOOTrainer  # noqa: PLC0415

    def reward(completions: list[str], **_: Any) -> list[float]:
        return [float("1" in text) for text in completions]

    data = Dataset.from_dict({"prompt": [f"{i % 10}+{i // 10}=" for i in range(32)]})
    arguments = settings(folder, per_device_train_batch_size=4, beta=0.0)
    return RLOOTrainer(
        tiny_model(), reward, args=RLOOConfig(**arguments, num_generations=4, max_completion_length=4),
        train_dataset=data, processing_class=tokenizer, callbacks=callbacks,
    )  # fmt: skip


SLOW = pytest.mark.slow


@pytest.mark.parametrize("make", [sft, pytest.param(dpo, marks=SLOW), pytest.param(rloo, marks=SLOW)])
def test_a_trainer_of_trl(tmp_path: Path, tokenizer: Any, make: Callable[..., Any]) -> None:
    watcher = Watcher()
    with warnings.catch_warnings():
        # TRL's own, recorded or not.
        warnings.simplefilter("ignore")
        trainer = make(tmp_path, tokenizer, [watcher, Recorder(tmp_path / "run", FULL)])
        trainer.train()
    run = open_run(tmp_path / "run")
    assert run.status == "finished"
    assert run.manifest.recorder["faults"] == {}
    assert run.manifest.trainer["class"].endswith(type(trainer).__name__)
    np.testing.assert_allclose(run.tensors["grad_norm"].sel(tensor=NAME), watcher.gradients, rtol=1e-5)
    np.testing.assert_allclose(run.tensors["update_norm"].sel(tensor=NAME), watcher.updates, rtol=1e-5)
    assert run.metric("loss").step.values.tolist() == [1, 2, 3, 4]
    skipped = [entry["why"] for entry in run.manifest.recorder["skipped"] if entry["what"] == "rollouts"]
    if make is rloo:
        assert skipped == []
        assert run.rows["rollouts"] == 4
        assert np.isfinite(run.rollouts["reward"].values).all()
    else:
        assert run.rows["rollouts"] == 0
        # Fine-tuning samples nothing, which is no lack; preferences come from completions that somebody sampled.
        assert len(skipped) == (0 if make is sft else 1)
        assert all("GRPOTrainer" in why for why in skipped)


def plain(folder: Path, callbacks: list[Any], **changes: Any) -> Trainer:
    ids = torch.arange(8) % 10 + 3
    data = [{"input_ids": ids.roll(i), "labels": ids.roll(i)} for i in range(32)]
    return Trainer(tiny_model(), TrainingArguments(**settings(folder, **changes)), train_dataset=data,
                   eval_dataset=data[:4], callbacks=callbacks)  # fmt: skip


@pytest.mark.parametrize(
    "changes",
    [
        {"gradient_accumulation_steps": 3},
        {"eval_strategy": "steps", "eval_steps": 2},
        pytest.param({"optim": "sgd"}, marks=SLOW),
        pytest.param({"optim": "adamw_torch_fused"}, marks=SLOW),
        pytest.param({"max_grad_norm": 0.01}, marks=SLOW),
        pytest.param({"gradient_checkpointing": True}, marks=SLOW),
    ],
    ids=["accumulation", "evaluation", "sgd", "fused", "clipping", "checkpointing"],
)
def test_ways_of_training(tmp_path: Path, changes: dict[str, Any]) -> None:
    watcher = Watcher()
    plain(tmp_path, [watcher, Recorder(tmp_path / "run", FULL)], **changes).train()
    run = open_run(tmp_path / "run")
    rows = run.tensors.sel(tensor=NAME)
    np.testing.assert_allclose(rows["grad_norm"], watcher.gradients, rtol=1e-5)
    np.testing.assert_allclose(rows["update_norm"], watcher.updates, rtol=1e-5)
    np.testing.assert_allclose(rows["update_norm_intended"], watcher.updates, rtol=1e-3)
    assert run.manifest.recorder["faults"] == {}
    assert run.evaluations.step.values.tolist() == ([2, 4] if "eval_steps" in changes else [])


@pytest.mark.slow
def test_a32_data_loader_workers_are_forked_beside_the_writer(tmp_path: Path) -> None:
    """A32: workers fork while the store is open and its threads run; they neither hang nor write."""
    with warnings.catch_warnings():
        # Python's own about forking beside threads: torch forks its workers whatever records.
        warnings.simplefilter("ignore", DeprecationWarning)
        trainer = plain(tmp_path, [Recorder(tmp_path / "run", FULL)], dataloader_num_workers=2, num_train_epochs=2,
                        max_steps=-1, dataloader_persistent_workers=False)  # fmt: skip
        trainer.train()
    run = open_run(tmp_path / "run")
    assert run.status == "finished"
    assert run.tensors.step.values.tolist() == list(range(1, 33))
    assert run.problems == []


def test_the_trainers_own_resume_goes_on_with_the_run(tmp_path: Path) -> None:
    saving = {"save_strategy": "steps", "save_steps": 2}
    plain(tmp_path, [Recorder(tmp_path / "run", FULL)], max_steps=2, **saving).train()
    plain(tmp_path, [Recorder(tmp_path / "run", FULL)], max_steps=4, **saving).train(resume_from_checkpoint=True)
    run = open_run(tmp_path / "run")
    assert run.tensors.step.values.tolist() == [1, 2, 3, 4]
    assert run.tensors.segment.values.tolist() == [0, 0, 1, 1]


def test_an_exception_of_the_training_is_the_trainings(tmp_path: Path) -> None:
    class Fails(TrainerCallback):
        def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            if state.global_step == 2:
                raise ZeroDivisionError("mine")

    recorder = Recorder(tmp_path / "run", FULL)
    with recorder, pytest.raises(ZeroDivisionError, match="mine"):
        plain(tmp_path, [recorder, Fails()]).train()
    run = open_run(tmp_path / "run")
    assert run.tensors.step.values.tolist() == [1, 2]


class Swap(TrainerCallback):
    """Gives the trainer another optimizer in the middle of a run."""

    trainer: Any

    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if state.global_step == 2:
            self.trainer.optimizer = torch.optim.AdamW(self.trainer.model.parameters(), lr=1e-2)


def test_an_optimizer_swapped_inside_a_trainer_is_followed_or_refused_never_guessed(tmp_path: Path) -> None:
    swap, watcher = Swap(), Watcher()
    swap.trainer = plain(tmp_path, [swap, watcher, Recorder(tmp_path / "run", FULL)])
    swap.trainer.train()
    run = open_run(tmp_path / "run")
    rows = run.tensors.sel(tensor=NAME)
    np.testing.assert_allclose(rows["update_norm"], watcher.updates, rtol=1e-5)
    intended = rows["update_norm_intended"].values
    known = np.isfinite(intended)
    np.testing.assert_allclose(intended[known], np.array(watcher.updates)[known], rtol=1e-3)
    assert [event["step"] for event in run.events if event["what"] == "optimizer changed"] == [3]
