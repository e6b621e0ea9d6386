"""The trained weights of a LoRA run: base weights plus what PEFT's adapter adds, one tensor at a time."""

from __future__ import annotations

import hashlib
import json
import re
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from peft import PeftConfig, get_peft_model
from peft.tuners.lora.layer import Embedding, LoraLayer, ParamWrapper
from torch import Tensor, nn

from grpodyn.attribution.weights import FolderWeights, Weights
from grpodyn.errors import MissingDataError, UnreadableError
from grpodyn.naming.canonical import canonical_name
from grpodyn.naming.place import is_transposed_linear

_FILE = "adapter_model.safetensors"
_CONFIG = "adapter_config.json"
_ADAPTER = "default"
_FACTOR = re.compile(r"\.lora_[A-Za-z_]+")
_BASE_CHANGING_STARTS = ("pissa", "olora", "corda", "loftq", "mica")


@dataclass(frozen=True)
class _Factors:
    """What is needed to work out one adapted weight."""

    prefix: str
    """PEFT's name of the adapted module, under which the file keeps its factors."""
    scale: float
    kind: str
    """linear, transposed (a linear layer that stores (in, out)), embedding, experts_in_out or experts_out_in."""
    experts: int
    dora: bool


def is_adapter(folder: Path) -> bool:
    """Return whether a folder holds an adapter rather than whole weights."""
    return (folder / _CONFIG).is_file()


class AdapterWeights:
    """The weights that an adapter makes of a base.

    Ranks, scales and targets are those that PEFT resolves on the model's twin; only the adapter is kept in memory.

    Args:
        base: the weights that the adapter was trained on.
        folder: `adapter_config.json` and `adapter_model.safetensors`.
        twin: the model on the meta device.

    Raises:
        MissingDataError: there is no adapter.
        UnreadableError: PEFT cannot put it on this model, or it is of a kind whose change is not known.
    """

    def __init__(self, base: Weights, folder: Path, twin: nn.Module) -> None:
        self.place = str(folder)
        self._base = base
        if not (folder / _FILE).is_file():
            raise MissingDataError(f"{folder} has {_CONFIG} but no {_FILE}; save the adapter with `save_pretrained`")
        self._file = FolderWeights(folder, [_FILE])
        self._config = (folder / _CONFIG).read_bytes()
        config = PeftConfig.from_pretrained(str(folder))
        if str(getattr(config.peft_type, "value", config.peft_type)) != "LORA":
            raise UnreadableError(
                f"{folder} holds an adapter of type {config.peft_type}; only LoRA (also rsLoRA and DoRA) is read. "
                "Merge it "
                "into whole weights and give their folder"
            )
        start = getattr(config, "init_lora_weights", True)
        if isinstance(start, str) and start.startswith(_BASE_CHANGING_STARTS):
            raise UnreadableError(
                f"{folder}: a start by {start} changes the base itself, so the adapter's change is not relative to the "
                "checkpoint; merge it into whole weights and give their folder"
            )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of PEFT, about keys that it did apply; what it resolves is read back
            try:
                wrapped: Any = get_peft_model(twin, config, low_cpu_mem_usage=True)
            except (ValueError, TypeError, NotImplementedError) as error:
                raise UnreadableError(f"PEFT cannot put the adapter of {folder} on this model: {error}") from error
        self._adapted = _adapted(wrapped, str(folder))
        # PEFT keeps a copy of an adapted embedding's base weight beside its factors.
        whole = _saved_whole(self._file)
        self._whole = {name: key for name, key in whole.items() if name not in self._adapted}

    def tensor(self, name: str) -> Tensor | None:
        """Return W₀ + ΔW; W₀ itself where no adapter sits."""
        if name in self._whole:
            return self._file.files.tensor(self._whole[name])
        base = self._base.tensor(name)
        for factors in self._adapted.get(name, ()):
            if base is None:
                return None
            base = self._changed(base, factors)
        return base

    @property
    def changed(self) -> frozenset[str]:
        """Names of the weights that the adapter changes."""
        return frozenset(self._adapted) | frozenset(self._whole)

    def beyond(self, names: Iterable[str]) -> tuple[str, ...]:
        """Return what it changes beside these weights, and factors in its file that PEFT puts nowhere."""
        prefixes = {factors.prefix for adapted in self._adapted.values() for factors in adapted}
        parts = (_FACTOR.split(key, maxsplit=1) for key in self._file.files.names if _FACTOR.search(key))
        placeless = {prefix for prefix, *_ in parts} - prefixes
        return (*sorted(self.changed - set(names)), *sorted(placeless))

    def digest(self) -> str:
        """Return a digest of the adapter and of its config."""
        config = json.dumps(json.loads(self._config), sort_keys=True)
        return hashlib.sha256(f"{self._file.digest()} {config} {self._base.digest()}".encode()).hexdigest()

    def _changed(self, base: Tensor, factors: _Factors) -> Tensor:
        middle = "lora_embedding_" if factors.kind == "embedding" else "lora_"
        end = "" if factors.kind == "embedding" else ".weight"
        a, b = (self._factor(f"{factors.prefix}.{middle}{letter}{end}") for letter in "AB")
        change = factors.scale * _product(a, b, factors)
        new = base.float() + change
        if factors.dora:
            magnitude = self._factor(f"{factors.prefix}.lora_magnitude_vector")
            by_row = new.T if factors.kind == "transposed" else new
            scaled = by_row * (magnitude.reshape(-1) / by_row.norm(dim=1))[:, None]
            new = scaled.T if factors.kind == "transposed" else scaled
        return new

    def _factor(self, key: str) -> Tensor:
        found = next((k for k in (key, f"{key}.weight") if self._file.files.find(k) == k), None)
        if found is None:
            raise UnreadableError(
                f"{self.place}/{_FILE} has no {key}: it does not fit its own {_CONFIG}, or was saved by another "
                "version of "
                "PEFT; merge it into whole weights and give their folder"
            )
        return self._file.files.tensor(found).float()


def _product(a: Tensor, b: Tensor, factors: _Factors) -> Tensor:
    """Return B·A as the adapted weight is stored."""
    if factors.kind == "embedding":
        return (b @ a).T
    if factors.experts > 1:
        stack_a = a.reshape(factors.experts, -1, a.shape[-1])
        # PEFT flattens B with the experts last, A with the experts first.
        stack_b = b.reshape(b.shape[0], -1, factors.experts)
        out_in = torch.einsum("ore,eri->eoi", stack_b, stack_a)
        return out_in.mT if factors.kind == "experts_in_out" else out_in
    product = b @ a
    return product.T if factors.kind == "transposed" else product


def _adapted(wrapped: Any, place: str) -> Mapping[str, list[_Factors]]:
    found: dict[str, list[_Factors]] = {}
    for live, module in wrapped.named_modules():
        if not isinstance(module, LoraLayer) or _ADAPTER not in module.r:
            continue
        variant = module.lora_variant.get(_ADAPTER)
        dora = _ADAPTER in module.lora_magnitude_vector
        kind = _kind(module)
        if (variant is not None and not dora) or (dora and kind not in ("linear", "transposed")) or kind == "":
            what = type(variant or module).__name__
            raise UnreadableError(
                f"{place} adapts {canonical_name(live)} by {what}, whose change of the weight is not known here; "
                "merge the "
                "adapter into whole weights and give their folder"
            )
        leaf = getattr(module, "parameter_name", "weight")
        name = f"{canonical_name(live)}.{leaf}"
        experts = int(getattr(module, "num_experts", 1)) if isinstance(module, ParamWrapper) else 1
        scale = float(module.scaling[_ADAPTER])
        found.setdefault(name, []).append(_Factors(live, scale, kind, experts, dora))
    return found


def _kind(module: LoraLayer) -> str:
    base = module.get_base_layer()
    if isinstance(module, ParamWrapper):
        return "experts_out_in" if module._did_swap_in_out_features or module.num_experts == 1 else "experts_in_out"
    if isinstance(module, Embedding):
        return "embedding"
    if isinstance(base, nn.Linear):
        return "linear"
    return "transposed" if is_transposed_linear(base) else ""


def _saved_whole(file: FolderWeights) -> dict[str, str]:
    """Return the weights that were trained whole beside the adapter (`modules_to_save`, biases), by canonical name."""
    keys = [key for key in file.files.names if not _FACTOR.search(key)]
    return {canonical_name(key): key for key in keys}
