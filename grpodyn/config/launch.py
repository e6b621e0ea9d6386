"""How many processes `accelerate launch` will start, and whether they share the model, read from its config file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from grpodyn.config import yaml_text
from grpodyn.config.batching import world_size
from grpodyn.errors import ConfigError


@dataclass(frozen=True)
class Launch:
    """What is known of a launch before it happens."""

    processes: int = 1
    """Ranks, over all machines."""
    sharded: bool = False
    """Whether weights, gradients and optimizer states are divided among them (FSDP, ZeRO-3)."""


def this_process() -> Launch:
    """Return the launch that this process is part of, as far as its environment says."""
    return Launch(world_size())


def read_launch(path: Path) -> Launch:
    """Return what an accelerate config file will start.

    Raises:
        ConfigError: it cannot be read, or says no number of processes.
    """
    raw = yaml_text.read(path)
    processes = raw.get("num_processes")
    if isinstance(processes, bool) or not isinstance(processes, int) or processes < 1:
        raise ConfigError(f"{path}: num_processes is {processes!r}, expected a whole number of at least 1")
    kind = str(raw.get("distributed_type", "NO")).upper()
    return Launch(processes, kind == "FSDP" or (kind == "DEEPSPEED" and _zero_stage(raw) == 3))


def _zero_stage(raw: dict[str, Any]) -> int:
    held = raw.get("deepspeed_config")
    stage = held.get("zero_stage") if isinstance(held, dict) else None
    return stage if isinstance(stage, int) else 0
