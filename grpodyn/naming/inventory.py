"""What a model has to measure: one entry per trained tensor and per adapted module, under canonical names."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod
from typing import Any

from torch import Tensor, nn

from grpodyn.errors import NameCollisionError
from grpodyn.naming.adapters import Adapter, Unmeasured, adapters, factor_names, idle_names
from grpodyn.naming.canonical import canonical_name
from grpodyn.naming.place import Place, head_of, place
from grpodyn.trace.schema import TensorInfo


@dataclass(frozen=True)
class Stored:
    """A trained parameter, measured as it is stored."""

    info: TensorInfo
    parameter: nn.Parameter
    live_name: str


@dataclass(frozen=True)
class Effective:
    """An adapted weight: its row is the adapter's effective update of it."""

    info: TensorInfo
    adapters: tuple[Adapter, ...]

    @property
    def base_weight(self) -> Tensor:
        """The frozen weight under the adapters."""
        return self.adapters[0].base_weight


@dataclass(frozen=True)
class Frozen:
    """A parameter of a layer that is not trained: no row of its own, but part of its layer's norm."""

    parameter: nn.Parameter
    layer: int
    stack: str


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


def take_inventory(model: nn.Module) -> Inventory:
    """Return what a live model has to measure.

    Tied tensors are one entry. Frozen parameters are none. Sharded parameters are named as unmeasured: a rank holds a
    part of them, whose norm would look like a measurement.

    Raises:
        NameCollisionError: two parameters collapse into one canonical name.
    """
    _refuse_collisions(model)
    factors, unused = dict(factor_names(model)), _unused(model)
    head = head_of(model)
    effective, unmeasured = _effective(model, head)
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
        where = place(model, live_name, tuple(parameter.shape), head)
        why = sharding(parameter, live_name)
        if why is not None:
            unmeasured.append(Unmeasured(name, why, where.layer, where.stack))
        elif parameter.requires_grad:
            stored.append(Stored(_info(name, parameter, where, live_name in factors), parameter, live_name))
        elif where.layer >= 0 and id(parameter) not in adapted:
            frozen.append(Frozen(parameter, where.layer, where.stack))
    return Inventory(stored, effective, frozen, unmeasured)


def sharding(parameter: Tensor, live_name: str) -> str | None:
    """Return why a parameter's local values are not the whole tensor, or None where they are."""
    if hasattr(parameter, "ds_shape") and tuple(parameter.ds_shape) != tuple(parameter.shape):
        return f"sharded by DeepSpeed ZeRO-3: this rank holds {tuple(parameter.shape)} of {tuple(parameter.ds_shape)}"
    if hasattr(parameter, "device_mesh") and hasattr(parameter, "to_local"):
        return "sharded: a DTensor, of which this rank holds a part"
    if "_flat_param" in live_name or "_fsdp_wrapped_module" in live_name.split("."):
        return "sharded by FSDP: this rank holds a flattened part"
    if parameter.numel() == 0:
        return "empty on this rank: its values live elsewhere"
    if parameter.is_meta:
        return "on the meta device: it has no values"
    return None


def _effective(model: nn.Module, head: nn.Module | None) -> tuple[list[Effective], list[Unmeasured]]:
    found, unmeasured = adapters(model)
    by_base: dict[str, list[Adapter]] = {}
    for adapter in found:
        why = sharding(adapter.a, adapter.a_name) or sharding(adapter.b, adapter.b_name)
        if why is not None:
            where = place(model, adapter.a_name, tuple(adapter.a.shape))
            unmeasured.append(Unmeasured(f"effective update of {adapter.base_name}", why, where.layer, where.stack))
            continue
        by_base.setdefault(adapter.base_name, []).append(adapter)
    entries = []
    for name, group in by_base.items():
        first = group[0]
        shape = tuple(first.base_weight.shape) if first.base_weight.dim() > 1 else _dense_shape(first)
        # A quantised weight is packed: its shape is that of the factors' product.
        if prod(shape) != first.experts * first.a.shape[-1] * first.b.shape[0] and first.experts == 1:
            shape = _dense_shape(first)
        target = getattr(first.layer, "parameter_name", "weight")
        where = place(model, f"{_base_path(model, first.module_name)}.{target}", shape, head)
        info = TensorInfo(
            name, where.layer, where.module, where.stack, where.kind, *_matrix(shape), _dtype(first.a), True, "lora"
        )
        entries.append(Effective(info, tuple(group)))
    return entries, unmeasured


def _dense_shape(adapter: Adapter) -> tuple[int, ...]:
    return adapter.b.shape[0], adapter.a.shape[-1]


def _base_path(model: nn.Module, module_name: str) -> str:
    """Return the live name of the innermost module under a wrapper (wrappers of several adapted parameters nest)."""
    module: Any = model.get_submodule(module_name)
    path = module_name
    while hasattr(module, "base_layer"):
        module, path = module.base_layer, f"{path}.base_layer"
    return path


def _info(name: str, parameter: nn.Parameter, where: Place, is_factor: bool) -> TensorInfo:
    rows, cols = _matrix(tuple(parameter.shape))
    kind, source = ("lora_factor", "factor") if is_factor else (where.kind, "full")
    module = name.partition(".lora_")[0].rsplit(".", 1)[-1] if is_factor else where.module
    return TensorInfo(name, where.layer, module, where.stack, kind, rows, cols, _dtype(parameter), True, source)


def _matrix(shape: tuple[int, ...]) -> tuple[int, int]:
    """Return (rows, cols) of a tensor seen as a matrix; a vector is (n, 1).

    >>> _matrix((8,)), _matrix((4, 16, 32))
    ((8, 1), (64, 32))
    """
    if len(shape) < 2:
        return prod(shape), 1
    return prod(shape[:-1]), shape[-1]


def _dtype(tensor: Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def _storage_identity(parameter: Tensor) -> Any:
    if parameter.is_meta or parameter.numel() == 0:
        return id(parameter)
    try:
        return parameter.data_ptr(), tuple(parameter.shape), parameter.stride()
    except RuntimeError:
        # Sharded and wrapped tensors have no address of their own.
        return id(parameter)


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
