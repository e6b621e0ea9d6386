"""What a model has to measure: one entry per trained tensor and per adapted module, under canonical names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any

from torch import Tensor, nn

from grpodyn.errors import NameCollisionError
from grpodyn.naming.adapters import Adapter, Unmeasured, adapters, factor_names, idle_names
from grpodyn.naming.canonical import canonical_name
from grpodyn.naming.matrices import Matrices, matrices_of
from grpodyn.naming.place import Place, head_of, place
from grpodyn.naming.quantized import Coded, coded, coded_buffers, is_helper
from grpodyn.naming.shards import Share, local, whole_shape
from grpodyn.trace.schema import TensorInfo


@dataclass(frozen=True)
class Stored:
    """A trained parameter, measured as it is stored."""

    info: TensorInfo
    parameter: nn.Parameter
    live_name: str
    share: Share | None = None
    """What this rank holds of it, where it is split among ranks."""


@dataclass(frozen=True)
class Effective:
    """An adapted weight: its row is the adapter's effective update of it."""

    info: TensorInfo
    adapters: tuple[Adapter, ...]
    coded: Coded | None = None
    """The frozen weight under the adapters, where it is stored as codes."""
    is_split: bool = False
    """Whether the factors are split among ranks: then the rank that measures puts them together first."""
    base_share: Share | None = None
    """What this rank holds of the frozen weight, where that is split among ranks."""
    rank: int = 0
    """Columns of all adapters' factors together."""

    @property
    def is_dense(self) -> bool:
        """Whether its update has no thin factors (a DoRA), and is formed as the matrix that it is."""
        return any(adapter.magnitude is not None for adapter in self.adapters)

    @property
    def base_weight(self) -> Tensor:
        """The frozen weight under the adapters, as it is stored."""
        return self.adapters[0].base_weight

    @property
    def is_base_known(self) -> bool:
        """Whether the frozen weight's values can be had: where it is codes, from something that decodes them."""
        # What decodes codes takes them for all there are.
        return self.coded is None or (self.coded.is_known and self.base_share is None)

    def base_values(self) -> Tensor | None:
        """Return what this rank holds of the frozen weight under the adapters; None where that is not known."""
        if self.coded is not None:
            return self.coded.values() if self.is_base_known else None
        return local(self.base_weight)


@dataclass(frozen=True)
class Frozen:
    """A parameter of a layer that is not trained: no row of its own, but part of its layer's norm."""

    parameter: Tensor
    layer: int
    stack: str
    coded: Coded | None = None
    """Where it is stored as codes, what decodes them."""
    share: Share | None = None
    """What this rank holds of it, where it is split among ranks."""

    def values(self) -> Tensor | None:
        """Return what this rank holds of it; None where it is stored as codes that nothing decodes."""
        return local(self.parameter) if self.coded is None else self.coded.values()


@dataclass(frozen=True)
class Inventory:
    """Everything that is measured in a model, in the order of its tensor axis: stored tensors, then adapted weights."""

    stored: list[Stored]
    effective: list[Effective]
    frozen: list[Frozen] = field(default_factory=list)
    unmeasured: list[Unmeasured] = field(default_factory=list)

    @property
    def infos(self) -> list[TensorInfo]:
        """The entries of the tensor axis."""
        return [*(entry.info for entry in self.stored), *(entry.info for entry in self.effective)]


def take_inventory(model: nn.Module, shares: Mapping[int, Share] | None = None) -> Inventory:
    """Return what a live model has to measure.

    Tied tensors are one entry. Frozen parameters are none. Sharded parameters are named as unmeasured unless the ranks
    add up what they measure: a rank holds a part of them, whose norm would look like a measurement.

    Args:
        model: the live model, under any wrappers.
        shares: what this rank holds of each sharded parameter by its id, where the ranks add up.

    Raises:
        NameCollisionError: two parameters collapse into one canonical name.
    """
    _refuse_collisions(model)
    split = shares or {}
    factors, unused = dict(factor_names(model)), _unused(model)
    head = head_of(model)
    effective, unmeasured = _effective(model, head, split)
    adapted = {id(entry.base_weight) for entry in effective}
    stored: list[Stored] = []
    frozen: list[Frozen] = []
    seen: set[Any] = set()
    for live_name, parameter in model.named_parameters():
        identity = _storage_identity(parameter)
        if identity in seen or live_name in unused:
            continue
        seen.add(identity)
        name = factors.get(live_name, canonical_name(live_name))
        shape = whole_shape(parameter, split)
        where = place(model, live_name, shape, head)
        leaf = live_name.rsplit(".", 1)[-1]
        codes = coded(where.owner, leaf)
        # A part of the codes is nothing that could be decoded, or added.
        share = split.get(id(parameter)) if codes is None else None
        why = sharding(parameter, live_name) if share is None else None
        if why is None and codes is not None and parameter.requires_grad:
            why = f"{codes.why}: the step of a code is no step of a weight"
        if why is not None:
            unmeasured.append(Unmeasured(name, why, where.layer, where.stack))
        elif parameter.requires_grad:
            info = _info(name, leaf, shape, parameter, where, live_name in factors)
            stored.append(Stored(info, parameter, live_name, share))
        elif where.layer >= 0 and id(parameter) not in adapted and not is_helper(where.owner, leaf):
            frozen.append(Frozen(parameter, where.layer, where.stack, codes, share))
    frozen += _frozen_buffers(model, adapted)
    unmeasured += _undecodable(frozen, effective)
    return Inventory(stored, effective, frozen, unmeasured)


def _frozen_buffers(model: nn.Module, adapted: set[int]) -> list[Frozen]:
    """Return the weights that some quantized layers keep as buffers: they count in their layer's norm."""
    found = []
    for live_name, codes in coded_buffers(model):
        where = place(model, live_name, ())
        buffer: Tensor = getattr(codes.owner, codes.leaf)
        if where.layer >= 0 and id(buffer) not in adapted:
            found.append(Frozen(buffer, where.layer, where.stack, codes))
    return found


def _undecodable(frozen: list[Frozen], effective: list[Effective]) -> list[Unmeasured]:
    """Return which layers have a norm that is not known, because weights are codes that nothing here decodes."""
    places = [(entry.coded, False, entry.layer, entry.stack) for entry in frozen]
    places += [(e.coded, e.base_share is not None, e.info.layer, e.info.stack) for e in effective]
    unknown = Counter(
        (layer, stack, f"{codes.why}, " + ("of which this rank holds a part" if split else _decodes_not(codes)))
        for codes, split, layer, stack in places
        if codes is not None and (split or not codes.is_known)
    )
    return [
        Unmeasured(f"norms of {count} frozen weights of {stack}.{layer}", why, layer, stack)
        for (layer, stack, why), count in unknown.items()
    ]


def _decodes_not(codes: Coded) -> str:
    return f"which {type(codes.owner).__name__} does not decode"


def sharding(parameter: Tensor, live_name: str) -> str | None:
    """Return why a parameter's local values are not the whole of a real tensor, or None where they are."""
    if hasattr(parameter, "ds_shape") and tuple(parameter.ds_shape) != tuple(parameter.shape):
        return f"sharded by DeepSpeed ZeRO-3: this rank holds {tuple(parameter.shape)} of {tuple(parameter.ds_shape)}"
    if hasattr(parameter, "device_mesh") and hasattr(parameter, "to_local"):
        return "sharded: a DTensor, of which this rank holds a part"
    if "_flat_param" in live_name or "_fsdp_wrapped_module" in live_name.split("."):
        return "sharded by FSDP: this rank holds a flattened part"
    return _no_real_values(parameter)


def _no_real_values(parameter: Tensor) -> str | None:
    if parameter.numel() == 0:
        return "empty on this rank: its values live elsewhere"
    if parameter.is_meta:
        return "on the meta device: it has no values"
    if parameter.is_complex():
        return "complex: no probe is defined for it"
    return None


def _effective(
    model: nn.Module, head: nn.Module | None, split: Mapping[int, Share]
) -> tuple[list[Effective], list[Unmeasured]]:
    found, unmeasured = adapters(model, split)
    by_base: dict[str, list[Adapter]] = {}
    for adapter in found:
        parts = ((adapter.a, adapter.a_name), (adapter.b, adapter.b_name), (adapter.base_weight, adapter.a_name))
        reasons = (sharding(part, name) for part, name in parts if id(part) not in split and not part.is_meta)
        why = next((reason for reason in reasons if reason is not None), None)
        if adapter.magnitude is not None and any(id(part) in split for part, _ in parts):
            why = "the adapter is a DoRA, whose update needs the whole weight, and no rank holds it"
        if why is not None:
            where = place(model, adapter.a_name, tuple(adapter.a.shape))
            unmeasured.append(Unmeasured(f"effective update of {adapter.base_name}", why, where.layer, where.stack))
            continue
        by_base.setdefault(adapter.base_name, []).append(adapter)
    entries = []
    for name, group in by_base.items():
        first = group[0]
        shape, dense = whole_shape(first.base_weight, split), _dense_shape(first, split)
        # A quantised weight is packed: its shape is that of the factors' product.
        if len(shape) < 2 or (prod(shape) != prod(dense) and first.experts == 1):
            shape = dense
        # Codes may lie under another name: what they stand for is the weight.
        target = name.rsplit(".", 1)[-1]
        where = place(model, f"{_base_path(model, first.module_name)}.{target}", shape, head)
        as_matrices = matrices_of(where.owner, target, shape, where.kind)
        info = _described(name, where.module, where.kind, "lora", where, as_matrices, first.a)
        factors = [factor for adapter in group for factor in (adapter.a, adapter.b)]
        entries.append(
            Effective(
                info,
                tuple(group),
                coded(where.owner, first.base_leaf),
                is_split=any(id(factor) in split for factor in factors),
                base_share=split.get(id(first.base_weight)),
                rank=sum(whole_shape(adapter.b, split)[-1] for adapter in group),
            )
        )
    return entries, unmeasured


def _dense_shape(adapter: Adapter, split: Mapping[int, Share]) -> tuple[int, ...]:
    return whole_shape(adapter.b, split)[0], whole_shape(adapter.a, split)[-1]


def _base_path(model: nn.Module, module_name: str) -> str:
    """Return the live name of the innermost module under a wrapper (wrappers of several adapted parameters nest)."""
    module: Any = model.get_submodule(module_name)
    path = module_name
    while hasattr(module, "base_layer"):
        module, path = module.base_layer, f"{path}.base_layer"
    return path


def _info(
    name: str, leaf: str, shape: tuple[int, ...], parameter: nn.Parameter, where: Place, is_factor: bool
) -> TensorInfo:
    kind, source = ("lora_factor", "factor") if is_factor else (where.kind, "full")
    module = name.partition(".lora_")[0].rsplit(".", 1)[-1] if is_factor else where.module
    as_matrices = matrices_of(where.owner, leaf, shape, kind)
    return _described(name, module, kind, source, where, as_matrices, parameter)


def _described(
    name: str, module: str, kind: str, source: str, where: Place, as_matrices: Matrices, like: Tensor
) -> TensorInfo:
    return TensorInfo(
        name=name,
        layer=where.layer,
        module=module,
        stack=where.stack,
        kind=kind,
        rows=as_matrices.rows,
        cols=as_matrices.cols,
        dtype=_dtype(like),
        trainable=True,
        source=source,
        matrices=as_matrices.count,
        layout=as_matrices.layout,
    )


def _dtype(tensor: Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def _storage_identity(parameter: Tensor) -> Any:
    if parameter.is_meta or parameter.numel() == 0:
        return id(parameter)
    try:
        address = parameter.data_ptr()
    except RuntimeError:
        address = 0
    # Sharded and wrapped tensors have no address of their own.
    return (address, tuple(parameter.shape), parameter.stride()) if address else id(parameter)


def _unused(model: nn.Module) -> set[str]:
    """Return live names of parameters that PEFT keeps beside the ones in use: replaced weights, and idle adapters."""
    replaced = {name for name, _ in model.named_parameters() if "original_module" in name.split(".")}
    return replaced | set(idle_names(model))


def _refuse_collisions(model: nn.Module) -> None:
    live_by_name: dict[str, str] = {}
    factors = dict(factor_names(model))
    unused = _unused(model)
    for live_name, _ in model.named_parameters():
        if live_name in unused:
            continue
        name = factors.get(live_name, canonical_name(live_name))
        if name in live_by_name:
            raise NameCollisionError(
                f"{live_by_name[name]!r} and {live_name!r} are both {name!r} once wrappers are stripped; "
                "rename one of the two modules"
            )
        live_by_name[name] = live_name
