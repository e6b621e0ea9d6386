"""How TRL cuts a run into generation batches and optimizer steps; checked before anything heavy is imported.

`GRPOConfig` counts completions, not prompts: a batch must hold whole groups of `num_generations`, and a larger group at
the same batch size means fewer prompts per step and more steps per epoch.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from grpodyn.errors import ConfigError

# TRL's own defaults, needed here because reading them from GRPOConfig costs seconds of imports. A test compares them.
TRL_DEFAULTS: dict[str, Any] = {
    "per_device_train_batch_size": 8,
    "gradient_accumulation_steps": 1,
    "num_generations": 8,
    "num_iterations": 1,
    "num_train_epochs": 3.0,
    "max_steps": -1,
    "max_completion_length": 512,
}

_MOST = 1_000_000
"""Beyond it a count is a slip of the finger, and the search for one that fits would take for ever."""


@dataclass(frozen=True)
class BatchPlan:
    """What one generation batch and one optimizer step hold, over all ranks."""

    group_size: int
    """Completions per prompt, TRL's `num_generations`."""
    completions_per_generation: int
    """Completions sampled at once, TRL's `generation_batch_size`."""
    completions_per_step: int
    """Completions that one optimizer step learns from."""
    steps_per_generation: float
    """Optimizer steps between two generation batches (`num_iterations` included)."""

    @property
    def prompts_per_generation(self) -> int:
        """Prompts in one generation batch."""
        return self.completions_per_generation // self.group_size

    def steps_per_epoch(self, prompts: int) -> int:
        """Return the optimizer steps of one pass over `prompts` training prompts (a last partial batch is dropped)."""
        return math.ceil(prompts // self.prompts_per_generation * self.steps_per_generation)


def world_size() -> int:
    """Return the number of ranks that a launcher (torchrun, accelerate) has started this process among."""
    value = os.environ.get("WORLD_SIZE", "1")
    return max(1, int(value)) if value.isdecimal() else 1


def batch_plan(grpo: Mapping[str, Any], ranks: int = 1) -> BatchPlan:
    """Return how TRL will batch, from the `grpo` section of a run config, on so many ranks.

    Raises:
        ConfigError: a number is not a positive integer, or groups do not fit the batch; with values that would.

    >>> plan = batch_plan({"per_device_train_batch_size": 128, "num_generations": 8})
    >>> plan.prompts_per_generation, plan.steps_per_epoch(1000)
    (16, 62)
    """
    per_device = _positive(grpo, "per_device_train_batch_size")
    accumulation = _positive(grpo, "gradient_accumulation_steps")
    group = _positive(grpo, "num_generations")
    iterations = _positive(grpo, "num_iterations")
    _positive(grpo, "max_completion_length")
    if group < 2:
        raise ConfigError(
            f"grpo.num_generations is {group}: advantages compare completions of a prompt, use at least 2"
        )
    micro_batch = per_device * ranks
    generation = _generation_batch(grpo, micro_batch, accumulation)
    if generation % group != 0:
        raise _groups_do_not_fit(generation, group, per_device, accumulation, ranks)
    return BatchPlan(
        group_size=group,
        completions_per_generation=generation,
        completions_per_step=micro_batch * accumulation,
        steps_per_generation=generation / micro_batch * iterations / accumulation,
    )


def planned_steps(grpo: Mapping[str, Any], plan: BatchPlan, prompts: int) -> int:
    """Return the optimizer steps of the whole run: `max_steps` if set, else epochs over `prompts` prompts.

    Raises:
        ConfigError: one of the two is no number that can be trained for.

    >>> planned_steps({"max_steps": 300}, batch_plan({}), prompts=1000)
    300
    """
    max_steps = grpo.get("max_steps", TRL_DEFAULTS["max_steps"])
    if isinstance(max_steps, bool) or not isinstance(max_steps, int):
        raise ConfigError(f"grpo.max_steps is {max_steps!r}, expected a whole number, or -1 to count epochs")
    if max_steps > 0:
        return max_steps
    epochs = grpo.get("num_train_epochs", TRL_DEFAULTS["num_train_epochs"])
    if isinstance(epochs, bool) or not isinstance(epochs, int | float) or not 0 < epochs < math.inf:
        raise ConfigError(f"grpo.num_train_epochs is {epochs!r}, expected a positive number")
    return math.ceil(float(epochs) * max(plan.steps_per_epoch(prompts), 1))


def _positive(grpo: Mapping[str, Any], key: str) -> int:
    value = grpo.get(key, TRL_DEFAULTS.get(key))
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= _MOST:
        raise ConfigError(f"grpo.{key} is {value!r}, expected a positive whole number of at most {_MOST:,}")
    return value


def _generation_batch(grpo: Mapping[str, Any], micro_batch: int, accumulation: int) -> int:
    generation = grpo.get("generation_batch_size")
    per_generation = grpo.get("steps_per_generation")
    if generation is not None and per_generation is not None:
        raise ConfigError(
            f"grpo.generation_batch_size ({generation}) and grpo.steps_per_generation ({per_generation}) say the same "
            "thing twice; set one of them"
        )
    if generation is None:
        return micro_batch * (accumulation if per_generation is None else _positive(grpo, "steps_per_generation"))
    if _positive(grpo, "generation_batch_size") % micro_batch != 0:
        raise ConfigError(
            f"grpo.generation_batch_size is {generation}, not a multiple of the {micro_batch} completions that all "
            "ranks take at once (per_device_train_batch_size × ranks)"
        )
    return int(generation)


def _groups_do_not_fit(generation: int, group: int, per_device: int, accumulation: int, world: int) -> ConfigError:
    divisors = [g for g in range(2, min(generation, _MOST) + 1) if generation % g == 0]
    nearest = sorted(sorted(divisors, key=lambda g: abs(g - group))[:3])
    fitting = next(b for b in range(per_device, per_device + group + 1) if generation // per_device * b % group == 0)
    choices = f"num_generations {_either(nearest)}, or " if nearest else ""
    return ConfigError(
        f"grpo.num_generations is {group}, but a generation batch holds {generation} completions "
        f"(per_device_train_batch_size {per_device} × gradient_accumulation_steps {accumulation} × {world} rank(s), "
        f"unless generation_batch_size says otherwise), which is no whole number of groups; use {choices}"
        f"per_device_train_batch_size {fitting}"
    )


def _either(numbers: list[int]) -> str:
    return " or ".join(str(number) for number in numbers)
