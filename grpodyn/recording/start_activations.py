"""h_0 in a file of the run: the weights that a resumed training begins with are not those it first began with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

_INPUTS = ("input_ids", "attention_mask")
_BLOCK = "block."


@dataclass(frozen=True)
class StartActivations:
    """What the blocks of a model returned before its first update."""

    inputs: dict[str, Tensor]
    """`input_ids` and `attention_mask`, shape (prompts, tokens)."""
    blocks: dict[str, Tensor]
    """By the name of the block, h_0 of the tokens that are not padding, float32 of shape (tokens, width)."""


def save_start(path: Path, inputs: Mapping[str, Tensor], blocks: Mapping[str, Tensor]) -> None:
    """Write h_0 beside the run's other starting values.

    Raises:
        OSError: it cannot be written.
    """
    path.parent.mkdir(exist_ok=True)
    partial = path.with_suffix(".partial")
    tensors = {name: inputs[name].cpu().contiguous() for name in _INPUTS}
    save_file(tensors | {_BLOCK + name: hidden.contiguous() for name, hidden in blocks.items()}, partial)
    partial.replace(path)


def load_start(path: Path) -> StartActivations | None:
    """Return h_0 of a run's first segment; None if it was not written, or cannot be read."""
    try:
        tensors = load_file(path)
    except (OSError, SafetensorError):
        return None
    if not all(name in tensors for name in _INPUTS):
        return None
    inputs = {name: tensors[name] for name in _INPUTS}
    blocks = {key.removeprefix(_BLOCK): hidden for key, hidden in tensors.items() if key.startswith(_BLOCK)}
    return StartActivations(inputs, blocks)
