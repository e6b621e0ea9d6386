"""Where a parameter stands in a live model: its layer, its stack, its module and its kind."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

from torch import nn

from grpodyn.naming.canonical import canonical_name

_PARAMETER_OF_ITS_MODULE = ("weight", "bias")


@dataclass(frozen=True)
class Place:
    """A parameter's place in the module tree."""

    layer: int
    """Index of its layer; −1 for none."""
    stack: str
    """Canonical name of the list of layers, such as `model.layers`; empty for none."""
    module: str
    """Last segment of its module's name, or its own where its module holds bare parameters (`A_log`, `sinks`)."""
    kind: str


def place(model: nn.Module, name: str, shape: tuple[int, ...], head: nn.Module | None = None) -> Place:
    """Return the place of the parameter that `model.named_parameters()` calls `name`.

    Args:
        model: the live model, wrapped or not.
        name: the parameter's live name.
        shape: its shape.
        head: the module of the output embeddings, where the model has one.
    """
    chain = _chain(model, name)
    leaf = name.rsplit(".", 1)[-1]
    stack, layer = _layer(chain)
    owner_name = canonical_name(chain[-1][0]).rsplit(".", 1)[-1]
    module = owner_name if leaf in _PARAMETER_OF_ITS_MODULE or not owner_name else leaf
    return Place(layer, stack, module, _kind(chain, owner_name, leaf, shape, head))


def head_of(model: nn.Module) -> nn.Module | None:
    """Return the module of the output embeddings, or None where the model declares none."""
    try:
        head = model.get_output_embeddings()  # type: ignore[operator]
    except (AttributeError, NotImplementedError):
        return None
    return head if isinstance(head, nn.Module) else None


def _chain(model: nn.Module, name: str) -> list[tuple[str, nn.Module]]:
    """Return (live path, module) of every module from the root to the parameter's owner."""
    chain = [("", model)]
    for segment in name.split(".")[:-1]:
        path, module = chain[-1]
        chain.append((f"{path}.{segment}" if path else segment, getattr(module, segment)))
    return chain


def _layer(chain: list[tuple[str, nn.Module]]) -> tuple[str, int]:
    for (path, module), (child_path, _) in itertools.pairwise(chain):
        index = child_path.rsplit(".", 1)[-1]
        if isinstance(module, nn.ModuleList) and index.isdigit():
            return canonical_name(path), int(index)
    return "", -1


def _kind(
    chain: list[tuple[str, nn.Module]], owner_name: str, leaf: str, shape: tuple[int, ...], head: nn.Module | None
) -> str:
    owner = chain[-1][1]
    class_name = type(owner).__name__.lower()
    # Conv1D of transformers is a linear layer stored (in, out).
    linear = isinstance(owner, nn.Linear) or "linear" in class_name or class_name == "conv1d"
    is_gate = owner_name == "gate" and len(chain) > 1 and hasattr(chain[-2][1], "experts")
    tests = (
        ("bias", leaf.endswith("bias")),
        ("embedding", isinstance(owner, nn.Embedding)),
        ("head", owner is head or owner_name == "lm_head"),
        ("norm", "norm" in class_name and len(shape) <= 1),
        ("expert", (len(shape) == 3 and "expert" in class_name) or any(_is_experts(path) for path, _ in chain)),
        ("router", len(shape) == 2 and ("router" in class_name or owner_name == "router" or is_gate)),
        ("conv", isinstance(owner, nn.Conv1d | nn.Conv2d | nn.Conv3d)),
        ("linear", linear and len(shape) == 2 and leaf == "weight"),
    )
    return next((kind for kind, holds in tests if holds), "other")


def _is_experts(path: str) -> bool:
    return canonical_name(path).rsplit(".", 1)[-1] == "experts"
