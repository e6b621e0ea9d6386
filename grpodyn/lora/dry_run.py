"""Proof of a LoRA config: the saved JSON is loaded by PEFT, applied to the model's twin, and read back."""

from __future__ import annotations

import copy
import json
import re
import tempfile
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from peft import LoraConfig, PeftConfig, get_peft_model
from peft.tuners.lora.layer import LoraLayer, ParamWrapper

from grpodyn.errors import AdviceError
from grpodyn.lora.modules import ADAPTER_CONFIG, Plan, layer_of
from grpodyn.lora.twin import Twin

_SHOWN = 6


@dataclass(frozen=True)
class Resolved:
    """What PEFT made of a config."""

    ranks: Mapping[str, tuple[int, float]]
    """Rank and alpha of every adapted module, by the module's name in the base model."""
    parameters: Mapping[str, tuple[int, float]]
    """Rank and alpha of every bare parameter that was adapted (`target_parameters`), such as stacked experts."""
    trainable: int
    saved: Mapping[str, Any]
    """The config as PEFT saves it."""
    coverage: float
    """Share of the blocks' weight elements (two dimensions and more) under an adapter."""
    layer_coverage: Mapping[str, float]


def saved_config(config: Mapping[str, object]) -> dict[str, Any]:
    """Return a LoRA config as PEFT saves it, with sets as sorted lists.

    Raises:
        AdviceError: PEFT does not accept the config.
    """
    try:
        saved = LoraConfig(**config).to_dict()
    except (TypeError, ValueError) as error:
        raise AdviceError(f"PEFT does not accept this LoRA config: {error}") from error
    # PEFT keeps `target_modules` as a set, whose order changes from process to process.
    plain = {key: sorted(value) if isinstance(value, set) else value for key, value in saved.items()}
    return dict(json.loads(json.dumps(plain)))


def resolve(saved: Mapping[str, Any], twin: Twin) -> Resolved:
    """Write the JSON, load it with PEFT, apply it to a copy of the twin, and read every module back.

    Raises:
        AdviceError: PEFT refuses the config on this model.
    """
    model = applied(saved, twin)
    ranks, parameters, covered = _read_back(model)
    trainable, _ = model.get_nb_trainable_parameters()
    coverage, by_layer = _coverage(covered, twin.block_elements)
    return Resolved(ranks, parameters, trainable, saved, coverage, by_layer)


def applied(saved: Mapping[str, Any], twin: Twin) -> Any:
    """Return a copy of the twin with the adapter of a saved config on it.

    Raises:
        AdviceError: PEFT refuses the config on this model.
    """
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, ADAPTER_CONFIG).write_text(json.dumps(saved), encoding="utf-8")
        config = PeftConfig.from_pretrained(folder)
    # PEFT and transformers warn about each other's deprecations here, and PEFT about pattern keys that it did apply;
    # what was really adapted is read back below, whatever the warnings say.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return get_peft_model(copy.deepcopy(twin.model), config, low_cpu_mem_usage=True)
        except (ValueError, TypeError, NotImplementedError) as error:
            raise AdviceError(f"PEFT refuses the config on {type(twin.model).__name__}: {error}") from error


def _read_back(model: Any) -> tuple[dict[str, tuple[int, float]], dict[str, tuple[int, float]], set[str]]:
    ranks: dict[str, tuple[int, float]] = {}
    parameters: dict[str, tuple[int, float]] = {}
    covered: set[str] = set()
    for live_name, module in model.base_model.model.named_modules():
        if not isinstance(module, LoraLayer) or "default" not in module.r:
            continue
        name = re.sub(r"\.base_layer\b", "", live_name)
        if isinstance(module, ParamWrapper):
            # The wrapper's name does not hold the parameter's, and two of them nest on one module.
            parameters[f"{name}.{module.parameter_name}"] = (module.r["default"], module.lora_alpha["default"])
            covered.add(f"{name}.{module.parameter_name}")
            continue
        ranks[name] = (module.r["default"], module.lora_alpha["default"])
        covered.add(f"{name}.weight")
    return ranks, parameters, covered


def _coverage(covered: set[str], elements: Mapping[str, int]) -> tuple[float, dict[str, float]]:
    total: dict[str, int] = {}
    hit: dict[str, int] = {}
    for name, count in elements.items():
        layer = layer_of(name) or ""
        total[layer] = total.get(layer, 0) + count
        hit[layer] = hit.get(layer, 0) + (count if name in covered else 0)
    whole = sum(total.values())
    return (sum(hit.values()) / whole if whole else 0.0), {layer: hit[layer] / total[layer] for layer in total}


def differences(plan: Plan, resolved: Resolved) -> list[str]:
    """Return one line for each module whose resolved rank or alpha is not the planned one; empty if all agree."""
    lines = []
    planned = {module.name: (module.rank, module.alpha) for module in plan.modules}
    stacks = {module.name for module in plan.modules if module.is_parameter}
    adapted = {**resolved.ranks, **{name: found for name, found in resolved.parameters.items() if name in stacks}}
    for name in sorted(planned.keys() | adapted.keys()):
        want, got = planned.get(name), adapted.get(name)
        if want == got:
            continue
        lines.append(f"{name}: planned {_text(want)}, PEFT gives {_text(got)}")
    lines += [f"{name}: not planned, PEFT adapts this parameter" for name in resolved.parameters if name not in stacks]
    return lines


def _text(value: tuple[int, float] | None) -> str:
    return "no adapter" if value is None else f"rank {value[0]} alpha {value[1]:g}"


def check(plan: Plan, resolved: Resolved) -> None:
    """Raise unless PEFT gives every module exactly the planned rank and alpha, and adapts nothing else.

    Raises:
        AdviceError: with the differences.
    """
    lines = differences(plan, resolved)
    if lines:
        more = f"\n  and {len(lines) - _SHOWN} more" if len(lines) > _SHOWN else ""
        raise AdviceError(
            f"PEFT resolves the config differently from the plan in {len(lines)} places:\n  "
            + "\n  ".join(lines[:_SHOWN])
            + more
        )
