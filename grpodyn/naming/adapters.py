"""LoRA adapters of PEFT as they stand in a live model: factors, scale, and what adapts which weight."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from grpodyn.naming.canonical import canonical_name
from grpodyn.naming.place import place
from grpodyn.naming.quantized import CODED_BUFFERS
from grpodyn.naming.shards import Share, whole_shape
from grpodyn.spectra.lowrank import LowRank, difference

_DORA = "DoraLinearVariant"
"""PEFT's name of a DoRA on a linear layer (also one that stores its weight transposed)."""


@dataclass(frozen=True)
class Adapter:
    """One active adapter of one module: its effective update of the base weight is scale · B · A (up to transposition).

    That of a DoRA rescales the rows of the weight besides. A norm and a spectrum do not change under transposition, so
    layers that store (in, out) need no case of their own.
    """

    module_name: str
    """Live name of the wrapping module."""
    adapter: str
    """PEFT's name of the adapter."""
    base_name: str
    """Canonical name of the adapted weight."""
    owner_name: str
    """Canonical name of the adapted module."""
    base_leaf: str
    """What the adapted module calls it: `weight`, the name of a bare parameter, or of a buffer of codes."""
    base_weight: Tensor
    a_name: str
    b_name: str
    """Live names of the two factors."""
    a: nn.Parameter
    b: nn.Parameter
    layer: Any
    experts: int = 1
    """Matrices in the adapted weight; more than one where it is a stack of experts."""
    magnitude: nn.Parameter | None = None
    """The trained norms of the rows of a DoRA."""

    @property
    def trained(self) -> tuple[nn.Parameter, ...]:
        """All that is trained of it."""
        return (self.a, self.b) if self.magnitude is None else (self.a, self.b, self.magnitude)

    @property
    def scale(self) -> float:
        """α/r, or what the adapter's variant puts in its place, as it is now."""
        return float(self.layer.scaling[self.adapter])

    def change(self, b1: Tensor, a1: Tensor, b0: Tensor, a0: Tensor) -> LowRank:
        """Return scale·(B₁A₁ − B₀A₀) as thin factors; a stack of them where there are several experts."""
        return difference(self._b(b1), self._a(a1), self._b(b0), self._a(a0), self.scale)

    def _a(self, a: Tensor) -> Tensor:
        return a if self.experts == 1 else a.reshape(self.experts, -1, a.shape[-1])

    def _b(self, b: Tensor) -> Tensor:
        # PEFT flattens B with the experts last, A with the experts first.
        return b if self.experts == 1 else b.reshape(b.shape[0], -1, self.experts).permute(2, 0, 1)


@dataclass(frozen=True)
class Unmeasured:
    """Something that is not recorded, and why."""

    what: str
    why: str
    layer: int = -1
    stack: str = ""


def adapters(model: nn.Module, split: Mapping[int, Share] | None = None) -> tuple[list[Adapter], list[Unmeasured]]:
    """Return the active, trainable LoRA adapters of a model, and those whose effective update has no thin factors.

    A frozen copy beside the active adapter (TRL keeps one as `ref`) is not active, and is no row.

    Args:
        model: the live model.
        split: what this rank holds of each parameter that is split among ranks, by its id.
    """
    found: list[Adapter] = []
    unmeasured: list[Unmeasured] = []
    for name, layer in model.named_modules():
        # Attention modules have a float attribute `scaling`: the type tells them from LoRA layers.
        if not isinstance(getattr(layer, "scaling", None), Mapping) or not hasattr(layer, "active_adapters"):
            continue
        for adapter in layer.active_adapters:
            factors = _factors(name, layer, adapter)
            if factors is None or not factors[0][1].requires_grad:
                continue
            base_name, base_leaf, base_weight = _base(name, layer)
            shapes = [whole_shape(factor, split or {}) for _, factor in factors]
            why = _obstacle(layer, adapter, base_weight, shapes)
            if why is not None:
                where = place(model, factors[0][0], tuple(factors[0][1].shape))
                what = f"effective update of {base_name} (adapter {adapter!r})"
                unmeasured.append(Unmeasured(what, why, where.layer, where.stack))
                continue
            (a_name, a), (b_name, b) = factors
            owner = canonical_name(name)
            experts = int(getattr(layer, "num_experts", 1)) if hasattr(layer, "parameter_name") else 1
            found.append(
                Adapter(
                    module_name=name,
                    adapter=adapter,
                    base_name=base_name,
                    owner_name=owner,
                    base_leaf=base_leaf,
                    base_weight=base_weight,
                    a_name=a_name,
                    b_name=b_name,
                    a=a,
                    b=b,
                    layer=layer,
                    experts=experts,
                    magnitude=_magnitude(layer, adapter),
                )
            )
    return found, unmeasured


def factor_names(model: nn.Module) -> Iterator[tuple[str, str]]:
    """Yield (live name, canonical name) of every factor of every active adapter, measured as a whole or not."""
    for name, layer in model.named_modules():
        if not isinstance(getattr(layer, "scaling", None), Mapping) or not hasattr(layer, "active_adapters"):
            continue
        active = [adapter for adapter in layer.active_adapters if _factors(name, layer, adapter) is not None]
        target = getattr(layer, "parameter_name", None)
        owner = canonical_name(name) + (f".{target}" if target is not None else "")
        for adapter in active:
            factors = _factors(name, layer, adapter)
            suffix = "" if len(active) == 1 else f".{adapter}"
            for (live, _), letter in zip(factors or (), "AB", strict=False):
                yield live, f"{owner}.lora_{letter}{suffix}"
            yield f"{name}.lora_magnitude_vector.{adapter}.weight", f"{owner}.lora_magnitude{suffix}"


def idle_names(model: nn.Module) -> Iterator[str]:
    """Yield the live names of parameters that belong to adapters which are not active."""
    for name, layer in model.named_modules():
        if not hasattr(layer, "adapter_layer_names") or not hasattr(layer, "active_adapters"):
            continue
        for kind in layer.adapter_layer_names:
            for adapter, part in dict(getattr(layer, kind, None) or {}).items():
                if adapter not in layer.active_adapters:
                    stem = f"{name}.{kind}.{adapter}"
                    named = part.named_parameters() if isinstance(part, nn.Module) else [("", part)]
                    yield from (f"{stem}.{own}" if own else stem for own, _ in named)


def _magnitude(layer: Any, adapter: str) -> nn.Parameter | None:
    vectors = getattr(layer, "lora_magnitude_vector", {})
    return vectors[adapter].weight if adapter in vectors else None


def _factors(name: str, layer: Any, adapter: str) -> tuple[tuple[str, nn.Parameter], tuple[str, nn.Parameter]] | None:
    if adapter in layer.lora_A:
        a, b = layer.lora_A[adapter], layer.lora_B[adapter]
        return (f"{name}.lora_A.{adapter}.weight", a.weight), (f"{name}.lora_B.{adapter}.weight", b.weight)
    if adapter in layer.lora_embedding_A:
        a, b = layer.lora_embedding_A[adapter], layer.lora_embedding_B[adapter]
        return (f"{name}.lora_embedding_A.{adapter}", a), (f"{name}.lora_embedding_B.{adapter}", b)
    return None


def _base(name: str, layer: Any) -> tuple[str, str, Tensor]:
    target = getattr(layer, "parameter_name", "weight")
    base = layer.get_base_layer()
    # A quantized layer may have codes in a buffer of another name, and no `weight`.
    leaf = next((leaf for leaf in (target, *CODED_BUFFERS) if isinstance(getattr(base, leaf, None), Tensor)), target)
    weight: Tensor = getattr(base, leaf)
    return f"{canonical_name(name)}.{target}", leaf, weight


def _obstacle(layer: Any, adapter: str, base_weight: Tensor, factors: Sequence[tuple[int, ...]]) -> str | None:
    """Return why scale·B·A is not the adapter's effective update, or None."""
    variant = getattr(layer, "lora_variant", {}).get(adapter)
    if variant is not None and type(variant).__name__ != _DORA:
        return f"the adapter is a {type(variant).__name__}, whose update is not scale·B·A"
    if variant is None and _magnitude(layer, adapter) is not None:
        return "the adapter has magnitudes, and is no DoRA of a linear layer"
    if any(len(shape) != 2 for shape in factors):
        return f"factors of shape {factors[0]} are no matrices (a convolution)"
    if not base_weight.is_floating_point() and getattr(layer, "num_experts", 1) > 1:
        return f"the experts are stored as {base_weight.dtype}"
    return None
