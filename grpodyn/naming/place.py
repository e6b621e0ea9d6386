"""Where a parameter stands in a live model: its layer, its stack, its module and its kind."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

from torch import nn

from grpodyn.naming.canonical import WRAPPERS, canonical_name

_PARAMETER_OF_ITS_MODULE = ("weight", "bias")
_STATE_SPACE = ("A_log", "D", "dt_bias")
_RECURRENT_CLASSES = ("rwkv", "rglru")

Chain = list[tuple[str, nn.Module]]
"""(live path, module) of every module from the root to a parameter's owner."""


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
    owner: nn.Module
    """The module that holds it."""


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
    owner_name = _own_name(chain[-1][0])
    module = owner_name if leaf in _PARAMETER_OF_ITS_MODULE or not owner_name else leaf
    return Place(layer, stack, module, _kind(chain, owner_name, leaf, shape, head), chain[-1][1])


def head_of(model: nn.Module) -> nn.Module | None:
    """Return the innermost module of the output embeddings, or None where the model declares none."""
    try:
        head = innermost(model).get_output_embeddings()  # type: ignore[operator]
    except (AttributeError, NotImplementedError):
        return None
    return innermost(head) if isinstance(head, nn.Module) else None


def innermost(module: nn.Module) -> nn.Module:
    """Return the module under any number of wrappers (DDP, compile, checkpointing, FSDP, PEFT's layers)."""
    # A module that has no children but parameters of its own may be called `module`; its holder has more than that.
    while True:
        inner = next((module._modules[name] for name in WRAPPERS if name in module._modules), None)
        if inner is None:
            return module
        module = inner


def is_transposed_linear(module: nn.Module) -> bool:
    """Return whether a module is a linear layer that stores its weight (in, out): `Conv1D` of transformers."""
    return type(module).__name__ == "Conv1D" and not isinstance(module, nn.Conv1d)


def _chain(model: nn.Module, name: str) -> Chain:
    chain = [("", model)]
    for segment in name.split(".")[:-1]:
        path, module = chain[-1]
        chain.append((f"{path}.{segment}" if path else segment, getattr(module, segment)))
    return chain


def _layer(chain: Chain) -> tuple[str, int]:
    for (path, module), (child_path, child) in itertools.pairwise(chain):
        index = child_path.rsplit(".", 1)[-1]
        numbered = isinstance(module, nn.ModuleList | nn.ModuleDict) and index.isdigit()
        # A layer has parts; a list of plain projections (AltUp in Gemma 3n) is no stack of layers.
        if numbered and any(True for _ in innermost(child).children()):
            return canonical_name(path), int(index)
    return "", -1


def _own_name(path: str) -> str:
    """Return the last segment of a module's canonical name that is not a mere number."""
    segments = canonical_name(path).split(".")
    return next((segment for segment in reversed(segments) if not segment.isdigit()), "")


def _kind(chain: Chain, owner_name: str, leaf: str, shape: tuple[int, ...], head: nn.Module | None) -> str:
    owner = chain[-1][1]
    class_name = type(owner).__name__.lower()
    linear = isinstance(owner, nn.Linear) or "linear" in class_name or is_transposed_linear(owner)
    matrix = len(shape) == 2
    tests = (
        ("ssm", leaf in _STATE_SPACE and hasattr(owner, "A_log")),
        ("sink", leaf.endswith(("sink", "sinks"))),
        ("bias", leaf.endswith("bias")),
        ("ssm", leaf != "weight" and any(name in class_name for name in _RECURRENT_CLASSES)),
        ("embedding", isinstance(owner, nn.Embedding)),
        ("head", owner is head or owner_name == "lm_head"),
        ("norm", "norm" in class_name and len(shape) <= 1),
        ("router", _routes(chain)),
        ("expert", (len(shape) == 3 and "expert" in class_name) or _belongs_to_experts(chain)),
        ("conv", isinstance(owner, nn.Conv1d | nn.Conv2d | nn.Conv3d)),
        ("linear", linear and matrix and leaf == "weight"),
    )
    return next((kind for kind, holds in tests if holds), "other")


def _routes(chain: Chain) -> bool:
    """Return whether the owner is a router or a part of one, whatever a family calls it."""
    for (_, parent), (path, module) in itertools.pairwise(chain):
        name, class_name = canonical_name(path).rsplit(".", 1)[-1], type(module).__name__.lower()
        beside_experts = name == "gate" and hasattr(parent, "experts")
        # `shared_expert_gate` weighs the shared expert against the routed ones.
        if name == "router" or "router" in class_name or beside_experts or name == "shared_expert_gate":
            return True
    return False


def _belongs_to_experts(chain: Chain) -> bool:
    return any(canonical_name(path).rsplit(".", 1)[-1] == "experts" for path, _ in chain)
