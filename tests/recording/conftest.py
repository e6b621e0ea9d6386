"""A tiny decoder with a word-level tokenizer, and a GRPO trainer on it: a real step takes a fraction of a second."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM, TrainerCallback
from trl import GRPOConfig, GRPOTrainer

WORDS = ["<pad>", "<eos>", "<unk>", *"0123456789", "+", "=", "a", "b", "c", "d"]


@pytest.fixture(scope="session")
def tokenizer() -> Any:
    inner = Tokenizer(models.WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="<unk>"))
    inner.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    return PreTrainedTokenizerFast(
        tokenizer_object=inner, pad_token="<pad>", eos_token="<eos>", unk_token="<unk>", padding_side="left"
    )


@pytest.fixture(scope="session")
def make_model() -> Callable[..., Any]:
    def make(seed: int = 0, dtype: str = "float32", **changes: Any) -> Any:
        torch.manual_seed(seed)
        sizes = {
            "vocab_size": len(WORDS),
            "hidden_size": 32,
            "intermediate_size": 48,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "max_position_embeddings": 64,
            "tie_word_embeddings": True,
            "bos_token_id": None,
            "eos_token_id": 1,
            "pad_token_id": 0,
        }
        return Qwen2ForCausalLM(Qwen2Config(**{**sizes, **changes})).to(getattr(torch, dtype))

    return make


@pytest.fixture(scope="session")
def make_dataset() -> Callable[..., Any]:
    def make(prompts: int = 64) -> Any:
        return Dataset.from_dict({"prompt": [f"{i % 10}+{i // 10 % 10}=" for i in range(prompts)]})

    return make


def count_letters(completions: list[str], **_: Any) -> list[float]:
    return [sum(letter in "abcd" for letter in text) / 4 for text in completions]


def length_reward(completions: list[str], **_: Any) -> list[float | None]:
    return [None if i % 5 == 4 else -0.1 * len(text) for i, text in enumerate(completions)]


@pytest.fixture
def make_trainer(
    tmp_path: Path, tokenizer: Any, make_model: Callable[..., Any], make_dataset: Callable[..., Any]
) -> Callable[..., Any]:
    def make(
        model: Any = None, callbacks: Any = (), rewards: Any = (count_letters, length_reward), **arguments: Any
    ) -> Any:
        with warnings.catch_warnings():
            # Third parties' own: none of them says anything about the recorder.
            warnings.simplefilter("ignore")
            others = {key: arguments.pop(key) for key in ("peft_config", "eval_dataset") if key in arguments}
            settings = {
                "output_dir": str(tmp_path / "output"),
                "use_cpu": True,
                "bf16": False,
                "report_to": [],
                "per_device_train_batch_size": 8,
                "num_generations": 4,
                "max_completion_length": 6,
                "max_steps": 4,
                "learning_rate": 1e-3,
                "logging_steps": 1,
                "save_strategy": "no",
                "disable_tqdm": True,
                "gradient_checkpointing": False,
                "seed": 7,
            }
            return GRPOTrainer(
                model=make_model() if model is None else model,
                reward_funcs=list(rewards),
                args=GRPOConfig(**{**settings, **arguments}),
                train_dataset=make_dataset(),
                processing_class=tokenizer,
                callbacks=list(callbacks),
                **others,
            )

    return make


class Watcher(TrainerCallback):
    """Keeps whole copies of what every step begins with and ends with: the slow truth that records are held against."""

    def __init__(self) -> None:
        self.start: dict[str, torch.Tensor] = {}
        self.before: list[dict[str, torch.Tensor]] = []
        self.gradients: list[dict[str, torch.Tensor]] = []
        self.after: list[dict[str, torch.Tensor]] = []
        self.rates: list[float] = []

    @staticmethod
    def _copy(model: Any) -> dict[str, torch.Tensor]:
        return {name: p.detach().clone() for name, p in model.named_parameters() if p.requires_grad}

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.start = self._copy(kwargs["model"])

    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.before.append(self._copy(kwargs["model"]))
        parameters = kwargs["model"].named_parameters()
        self.gradients.append({name: p.grad.clone() for name, p in parameters if p.grad is not None})

    def on_optimizer_step(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.after.append(self._copy(kwargs["model"]))
        self.rates.append(kwargs["optimizer"].param_groups[0]["lr"])


@pytest.fixture
def make_watcher() -> type[Watcher]:
    return Watcher


@pytest.fixture
def watcher() -> Watcher:
    return Watcher()
