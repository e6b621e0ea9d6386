"""The modules that an adapter can sit on, as plain facts; no torch."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

Method = Literal["lora", "rslora", "dora"]

ADAPTER_CONFIG = "adapter_config.json"
"""The file name that PEFT looks for in a folder."""

QUERY_AND_KEY = frozenset({"q_proj", "k_proj"})
"""Leaf names that a tight budget gives up first; a fused qkv module cannot be given up in part."""
FUSED_ATTENTION = frozenset({"qkv_proj", "c_attn", "query_key_value", "Wqkv", "qkv"})

_LAYER = re.compile(r"^(.*?\.\d+)\.")


@dataclass(frozen=True)
class LinearModule:
    """One linear module of the model's blocks, or a stack of experts that PEFT adapts as a bare parameter."""

    name: str
    in_features: int
    out_features: int
    experts: int = 0
    """Matrices in the stack; 0 for a module. A stack's name ends in that of its parameter."""

    @property
    def leaf(self) -> str:
        """Last part of the name: the module type."""
        return self.name.rsplit(".", 1)[-1]

    def adapter_parameters(self, rank: int, method: Method) -> int:
        """Return r·(in + out), plus `out` magnitudes for DoRA; for every expert of a stack."""
        size = rank * (self.in_features + self.out_features) + (self.out_features if method == "dora" else 0)
        return size * max(1, self.experts)


@dataclass(frozen=True)
class ModulePlan:
    """The rank and alpha that one module is meant to get."""

    name: str
    rank: int
    alpha: int
    is_parameter: bool = False
    """Whether it is a bare parameter, a stack of experts, which PEFT adapts by `target_parameters`."""


@dataclass(frozen=True)
class Plan:
    """What the advised adapter is meant to be, module by module."""

    modules: tuple[ModulePlan, ...]
    method: Method
    dropout: float = 0.0

    @property
    def names(self) -> frozenset[str]:
        """Names of the adapted modules."""
        return frozenset(module.name for module in self.modules)

    @property
    def rank(self) -> int:
        """The rank of most modules; every other one is an exception in `rank_pattern`."""
        ranks = [module.rank for module in self.modules]
        return max(set(ranks), key=lambda rank: (ranks.count(rank), rank))

    @property
    def max_rank(self) -> int:
        """The largest rank, which a server's cap must allow."""
        return max(module.rank for module in self.modules)

    @property
    def alpha(self) -> int:
        """The alpha of every module."""
        return self.modules[0].alpha

    def without(self, names: Iterable[str]) -> Plan:
        """Return the plan with these modules left out."""
        left_out = set(names)
        return replace(self, modules=tuple(m for m in self.modules if m.name not in left_out))


def layer_of(name: str) -> str | None:
    """Return the name of the layer that a parameter stands in, None outside the layers.

    >>> layer_of("model.layers.3.mlp.up_proj.weight"), layer_of("lm_head.weight")
    ('model.layers.3', None)
    """
    found = _LAYER.match(name)
    return found.group(1) if found else None


def uniform(modules: Iterable[LinearModule], rank: int, alpha: int, method: Method, dropout: float = 0.0) -> Plan:
    """Return the plan that gives every module the same rank and alpha."""
    planned = (ModulePlan(module.name, rank, alpha, module.experts > 0) for module in modules)
    return Plan(tuple(planned), method, dropout)


def minimal_targets(planned: Iterable[str], all_modules: Iterable[str]) -> list[str]:
    """Return the shortest name endings that match every planned module and no other.

    PEFT matches an entry against whole dotted endings of a module's name, so `q_proj` means every `….q_proj`.

    >>> minimal_targets(["h.0.attn.proj", "h.0.fc"], ["h.0.attn.proj", "h.0.mlp.proj", "h.0.fc"])
    ['attn.proj', 'fc']
    """
    wanted = set(planned)
    forbidden = {ending for name in all_modules if name not in wanted for ending in _endings(name)}
    # Two names may need different lengths, so each takes its own shortest ending.
    return sorted({next((e for e in _endings(name) if e not in forbidden), name) for name in wanted})


def _endings(name: str) -> list[str]:
    """Return a name's dotted endings, the shortest first; none begins with a layer's bare number."""
    parts = name.split(".")
    return [".".join(parts[i:]) for i in range(len(parts) - 1, -1, -1) if not parts[i].isdigit() or i == 0]


def _targets(planned: frozenset[str], all_modules: Sequence[str]) -> dict[str, object]:
    """Return what selects the planned modules: module types and layer indices where these two tell it, else names."""
    everywhere = minimal_targets(planned, all_modules)
    by_layer: dict[str, set[str]] = {}
    for name in planned:
        layer = layer_of(name)
        # PEFT takes the last number in a name for its layer, and needs a list that is not at the model's root.
        if layer is None or layer.count(".") < 2 or any(part.isdigit() for part in name[len(layer) :].split(".")):
            return {"target_modules": everywhere}
        by_layer.setdefault(layer, set()).add(name[len(layer) + 1 :])
    inside = next(iter(by_layer.values()))
    layers = sorted(by_layer, key=lambda layer: int(layer.rsplit(".", 1)[-1]))
    same = [name for name in all_modules if (layer := layer_of(name)) and name[len(layer) + 1 :] in inside]
    one_stack = len({layer.rsplit(".", 1)[0] for layer in (layer_of(name) or "" for name in same)}) == 1
    if len(same) == len(planned) or not one_stack or any(found != inside for found in by_layer.values()):
        return {"target_modules": everywhere}
    return {
        "target_modules": minimal_targets(same, all_modules),
        "layers_to_transform": [int(layer.rsplit(".", 1)[-1]) for layer in layers],
    }


def peft_config(
    plan: Plan, all_modules: Sequence[str], base_model: str | None, revision: str | None
) -> dict[str, object]:
    """Return the arguments of `peft.LoraConfig` for a plan; only keys that are needed."""
    rank = plan.rank
    config: dict[str, object] = {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "base_model_name_or_path": base_model,
        "revision": revision,
        "r": rank,
        "lora_alpha": plan.alpha,
        "lora_dropout": plan.dropout,
        "bias": "none",
        **_targets(frozenset(m.name for m in plan.modules if not m.is_parameter), all_modules),
        "use_rslora": plan.method == "rslora",
        "use_dora": plan.method == "dora",
    }
    # PEFT reads a key as a regular expression that may start after any dot: `layers.1.q_proj` would also hit layer 11.
    pattern = {f"^{re.escape(m.name)}": m.rank for m in plan.modules if m.rank != rank}
    if pattern:
        config["rank_pattern"] = pattern
    # In full: indices of layers do not restrict parameters, and a short name would match in every layer.
    parameters = sorted(m.name for m in plan.modules if m.is_parameter)
    if parameters:
        config["target_parameters"] = parameters
    return config
