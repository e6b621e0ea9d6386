"""Runs of equal config are one arm; their seeds are its noise."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from grpodyn.arms.settings import settings_of, teaches
from grpodyn.trace import strict_json

if TYPE_CHECKING:
    from grpodyn.trace.reader import Run

_IN_A_LABEL = 2


@dataclass(frozen=True)
class Difference:
    """A config key whose value is not the same in all runs; in the order of the runs, None where it is not set."""

    key: str
    values: tuple[Any, ...]


@dataclass(frozen=True)
class Arm:
    """Runs that differ by seed alone."""

    label: str
    runs: tuple[Run, ...]


def differences(runs: Sequence[Run]) -> tuple[Difference, ...]:
    """Return the config keys in which the runs differ, in the order of the first config."""
    from_config = all(run.manifest.config is not None for run in runs)
    configs = [settings_of(run, from_config) for run in runs]
    keys = dict.fromkeys(key for config in configs for key in config)
    found = [Difference(key, tuple(config.get(key) for config in configs)) for key in keys]
    return tuple(one for one in found if any(value != one.values[0] for value in one.values))


def arms_of(runs: Sequence[Run]) -> tuple[Arm, ...]:
    """Return the runs grouped by config, in the order in which each config first comes.

    An arm's label says in what it differs from the others: up to two keys, else the name of its first run.
    """
    deciding = [one for one in differences(runs) if teaches(one.key)]
    members: dict[str, list[int]] = {}
    for i in range(len(runs)):
        key = json.dumps([strict_json.jsonable(one.values[i]) for one in deciding], sort_keys=True)
        members.setdefault(key, []).append(i)
    labels = [_label(runs, deciding, indices[0]) for indices in members.values()]
    if len(set(labels)) < len(labels):
        labels = [str(runs[indices[0]].path) for indices in members.values()]
    return tuple(
        Arm(label, tuple(runs[i] for i in indices)) for label, indices in zip(labels, members.values(), strict=True)
    )


def _label(runs: Sequence[Run], deciding: Sequence[Difference], index: int) -> str:
    if 1 <= len(deciding) <= _IN_A_LABEL:
        return ", ".join(f"{one.key.rsplit('.', 1)[-1]}={one.values[index]}" for one in deciding)
    return Path(runs[index].path).name
