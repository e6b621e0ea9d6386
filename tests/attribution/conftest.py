"""A real twelve-layer model on disk, and changes of its weights whose effect is known because it was planted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import Qwen3Config, Qwen3ForCausalLM

from grpodyn.embedded.tokenizer import build_tokenizer
from grpodyn.tasks import Examples

LAYERS = 12
ANSWER = "7"
Weights = dict[str, Tensor]


@pytest.fixture(autouse=True)
def one_thread() -> Any:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def tokenizer() -> Any:
    return build_tokenizer()


def tiny_config(tokenizer: Any, **changes: Any) -> Qwen3Config:
    sizes = {
        "vocab_size": len(tokenizer),
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "head_dim": 16,
        "max_position_embeddings": 64,
        "tie_word_embeddings": False,
        "eos_token_id": tokenizer.eos_token_id,
        "pad_token_id": tokenizer.pad_token_id,
        "bos_token_id": None,
    }
    return Qwen3Config(**{**sizes, **changes})


def problems(count: int, seed: int = 0) -> Examples:
    drawn = torch.randint(10, 100, (4 * count, 2), generator=torch.Generator().manual_seed(seed)).tolist()
    prompts = list(dict.fromkeys(f"{a}+{b}=" for a, b in drawn))[:count]
    return Examples(tuple(prompts), (ANSWER,) * len(prompts))


@dataclass
class Planting:
    """A base model on disk; `plant` fits a layer's down projection so that it writes what is asked for."""

    folder: Path
    tokenizer: Any

    def __post_init__(self) -> None:
        self.model = Qwen3ForCausalLM.from_pretrained(self.folder).eval()
        self.base: Weights = {name: value.clone() for name, value in self.model.state_dict().items()}
        self._prompts = problems(60, seed=99)

    @property
    def towards_answer(self) -> Tensor:
        """(2, hidden): directions that raise the answer after the prompt, and the end after the answer."""
        head = self.base["lm_head.weight"]
        answer = self.tokenizer.convert_tokens_to_ids(ANSWER)
        wanted = head[[answer, self.tokenizer.eos_token_id]] - head.mean(0)
        return wanted / wanted.norm(dim=1, keepdim=True)

    @property
    def marker(self) -> Tensor:
        """A direction that changes no logit."""
        _, _, right = torch.linalg.svd(self.base["lm_head.weight"], full_matrices=True)
        return right[-1]

    def activations(self, weights: Weights, layer: int) -> Tensor:
        """(2, prompts, intermediate): what enters a layer's down projection after prompt and after answer."""
        self.model.load_state_dict({**self.base, **weights})
        seen: list[Tensor] = []
        module = self.model.model.layers[layer].mlp.down_proj
        hook = module.register_forward_hook(lambda _m, inputs, _o: seen.append(inputs[0].detach()))
        ids = self.tokenizer([p + ANSWER for p in self._prompts.prompts], return_tensors="pt")["input_ids"]
        with torch.no_grad():
            self.model(input_ids=ids)
        hook.remove()
        return seen[0][:, -2:].transpose(0, 1)

    def plant(self, layer: int, cases: Sequence[tuple[Weights, Tensor]]) -> Weights:
        """Return a change of one layer's down projection: under each case's weights it adds that case's (2, hidden)."""
        inputs = torch.cat([self.activations(weights, layer).reshape(-1, 64) for weights, _ in cases])
        outputs = torch.cat([wanted[:, None].expand(-1, len(self._prompts), -1).reshape(-1, 32) for _, wanted in cases])
        ridge = 1e-3 * torch.eye(64) * inputs.square().mean() * len(inputs)
        change = torch.linalg.solve(inputs.T @ inputs + ridge, inputs.T @ outputs).T
        name = f"model.layers.{layer}.mlp.down_proj.weight"
        return {name: self.base[name] + change}

    def save(self, folder: Path, weights: Weights) -> Path:
        self.model.load_state_dict({**self.base, **weights})
        self.model.save_pretrained(folder)
        self.tokenizer.save_pretrained(folder)
        return folder


@pytest.fixture(scope="session")
def base_folder(tmp_path_factory: pytest.TempPathFactory, tokenizer: Any) -> Path:
    folder = tmp_path_factory.mktemp("base")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = Qwen3ForCausalLM(tiny_config(tokenizer))
        with torch.no_grad():
            # Layers write little by themselves, so that the residual stream stays readable; what they write differs
            # from prompt to prompt.
            for name, parameter in model.named_parameters():
                if name.endswith(("down_proj.weight", "o_proj.weight")):
                    parameter.mul_(0.5)
                elif name.endswith("embed_tokens.weight"):
                    parameter.normal_(0.0, 1.0)
                elif name.endswith(("gate_proj.weight", "up_proj.weight", "v_proj.weight")):
                    parameter.mul_(8.0)
                elif name.endswith("lm_head.weight"):
                    parameter.normal_(0.0, 0.3)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture
def planting(base_folder: Path, tokenizer: Any) -> Planting:
    return Planting(base_folder, tokenizer)


@pytest.fixture
def heldout(tmp_path: Path) -> Path:
    file = tmp_path / "heldout.jsonl"
    examples = problems(300)
    lines = [f'{{"prompt": "{p}", "answer": "{a}"}}' for p, a in zip(examples.prompts, examples.answers, strict=True)]
    file.write_text("\n".join(lines))
    return file


def edit(folder: Path, change: Callable[[Weights], None]) -> None:
    """Rewrite a folder's weights."""
    file = folder / "model.safetensors"
    weights = load_file(file)
    change(weights)
    save_file(weights, file, metadata={"format": "pt"})
