"""From findings to the next run's config: parts of a config merged, each change named, the whole validated."""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from grpodyn.config.leaves import leaves
from grpodyn.diagnosis.finding import Finding
from grpodyn.diagnosis.observations import Observations


@dataclass(frozen=True)
class Patched:
    """A run config with the changes of findings in it."""

    config: Mapping[str, Any]
    changes: tuple[str, ...]
    """`key: old → new (finding)`."""
    not_taken: tuple[str, ...]
    """Changes that a graver finding has made otherwise."""


def rounded(value: float) -> float:
    """Return a number with three digits: what was computed needs no more.

    >>> rounded(1e-5 / 3)
    3.33e-06
    """
    return float(f"{value:.3g}")


def rate(seen: Observations, factor: float) -> dict[str, Any] | None:
    """Return the patch that multiplies the learning rate; None if it is not known."""
    current = seen.settings.get("learning_rate")
    if not isinstance(current, int | float) or not current > 0:
        return None
    return {"grpo": {"learning_rate": rounded(current * factor)}}


def group_size(seen: Observations, factor: int) -> dict[str, Any]:
    """Return the patch that multiplies the group size, with a batch that holds whole groups."""
    size = int(seen.setting("num_generations") if seen.groups is None else seen.groups.size) * factor
    per_device = int(seen.setting("per_device_train_batch_size"))
    accumulation = int(seen.setting("gradient_accumulation_steps"))
    changes: dict[str, Any] = {"num_generations": size}
    if per_device * accumulation % size or (seen.config is None and not seen.known("per_device_train_batch_size")):
        changes["per_device_train_batch_size"] = math.lcm(per_device, size)
    configured = dict((seen.config or {}).get("grpo") or {})
    # What a trainer derived follows the new size by itself; what the config sets must give way.
    changes |= {
        key: None for key in ("generation_batch_size", "steps_per_generation") if configured.get(key) is not None
    }
    return {"grpo": changes}


def reward_weights(seen: Observations, factors: Mapping[str, float]) -> dict[str, Any] | None:
    """Return the patch that multiplies weights of reward functions; None if the run config does not list them."""
    configured = list((seen.config or {}).get("rewards") or [])
    names = list(seen.weights) or list(seen.parts)
    if seen.config is not None and len(configured) != len(names):
        return None
    entries = []
    for i, name in enumerate(names):
        entry = configured[i] if configured else {"name": name}
        named = {"name": entry} if isinstance(entry, str) else dict(entry)
        # A weight of 0 is one: a reward that is only watched stays so.
        weight = next(w for w in (named.get("weight"), seen.weights.get(name), 1.0) if w is not None)
        entries.append({**named, "weight": rounded(float(weight) * factors.get(name, 1.0))})
    return {"rewards": entries}


def settings_of(patch: Mapping[str, Any]) -> list[str]:
    """Return a patch as the `--set` arguments of `grpodyn record`.

    >>> settings_of({"grpo": {"beta": 0.0, "epsilon_high": None}})
    ['grpo.beta=0.0', 'grpo.epsilon_high=null']
    """
    return [f"{key}={json.dumps(value)}" for key, value in leaves(patch)]


def apply(config: Mapping[str, Any], findings: Iterable[Finding], source: str) -> Patched:
    """Return a run config with the patches of findings, the gravest first, validated as `record` will.

    Raises:
        ConfigError: the result is no config that `record` takes.
    """
    from grpodyn.config import run as run_config  # noqa: PLC0415  # half a second, and only a patch needs it
    from grpodyn.config.batching import batch_plan  # noqa: PLC0415

    merged = copy.deepcopy(run_config.expand(dict(config)))
    made: dict[str, str] = {}
    changes: list[str] = []
    refused: list[str] = []
    for finding in findings:
        for key, value in leaves(finding.patch or {}):
            if key in made:
                if _get(merged, key) != value:
                    refused.append(f"{key}: {json.dumps(value)} ({finding.id}); {made[key]} set it otherwise")
                continue
            old = _get(merged, key)
            if old == value:
                continue
            made[key] = finding.id
            changes.append(f"{key}: {json.dumps(old)} → {json.dumps(value)} ({finding.id})")
            _set(merged, key, value)
    validated = run_config.from_dict(_without_nothing(merged), source)
    batch_plan(validated.grpo)
    return Patched(validated.to_record(), tuple(changes), tuple(refused))


def _get(config: Mapping[str, Any], path: str) -> Any:
    value: Any = config
    for key in path.split("."):
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def _set(config: dict[str, Any], path: str, value: Any) -> None:
    *parents, last = path.split(".")
    holder = config
    for key in parents:
        if not isinstance(holder.get(key), dict):
            holder[key] = {}
        holder = holder[key]
    holder[last] = copy.deepcopy(value)


def _without_nothing(config: dict[str, Any]) -> dict[str, Any]:
    """Drop `grpo` keys that a patch set to null: TRL then takes its default."""
    grpo = {key: value for key, value in dict(config.get("grpo") or {}).items() if value is not None}
    return config | {"grpo": grpo}
