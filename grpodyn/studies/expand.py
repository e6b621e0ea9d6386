"""From a study to its runs: one whole run config for every arm and seed, each checked before the first is trained."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from grpodyn import rewards, tasks
from grpodyn.config import overrides, yaml_text
from grpodyn.config import run as run_config
from grpodyn.config.batching import batch_plan
from grpodyn.config.run import RunConfig
from grpodyn.errors import ConfigError, UnknownNameError
from grpodyn.studies.study import SweepStudy
from grpodyn.tasks.source import Source
from grpodyn.trace import strict_json

_FOREIGN = re.compile(r"[^\w.+=,-]+")
_LONGEST = 120
"""Characters of an arm's name in a file name."""


@dataclass(frozen=True)
class PlannedRun:
    """One training of a sweep."""

    name: str
    """Of its directory inside the sweep's."""
    arm: str
    seed: int
    config: RunConfig


def planned_runs(study: SweepStudy, beside: Path, settings: Sequence[str] = ()) -> list[PlannedRun]:
    """Return every run of a study, seed by seed, so that a study that is cut short holds whole seeds.

    Args:
        study: the study.
        beside: the folder that its paths are relative to.
        settings: `key=value` texts that replace values in every arm.

    Raises:
        ConfigError, UnknownNameError: an arm's config does not validate; the message names the arm.
    """
    path = beside / study.config
    base = overrides.assign(run_config.expand(yaml_text.read(path)), study.set, f"`set` of the study {study.name}")
    by_arm: dict[str, list[PlannedRun]] = {}
    for arm, own in study.every_arm().items():
        raw = overrides.assign(base, own, f"the arm {arm}")
        by_arm[arm] = [
            _planned(arm, seed, run_config.from_dict({**raw, "seed": seed}, f"the arm {arm} of {path}", settings))
            for seed in study.seeds
        ]
    _check_that_arms_differ({arm: runs[0].config for arm, runs in by_arm.items()})
    names = [run.name for runs in by_arm.values() for run in runs]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ConfigError(f"two arms would both record into {twice}; name the arms apart by letters and digits")
    return [runs[number] for number in range(len(study.seeds)) for runs in by_arm.values()]


def _planned(arm: str, seed: int, config: RunConfig) -> PlannedRun:
    try:
        batch_plan(config.grpo)
        _check_names(config)
    except (ConfigError, UnknownNameError) as error:
        raise ConfigError(f"the arm {arm}: {error}") from error
    if config.seed != seed:
        raise ConfigError(f"--set seed={config.seed} would make all seeds of an arm one run; use --seeds N")
    return PlannedRun(f"{_FOREIGN.sub('-', arm)[:_LONGEST]}-s{seed}", arm, seed, config)


def _check_names(config: RunConfig) -> None:
    """Check the rewards and tasks of a config, and their options, as far as no data and no torch is needed.

    Raises:
        ConfigError, UnknownNameError: one is unknown, or its options are wrong.
    """
    for one in config.rewards:
        if ":" not in one.name:  # what a user's own module imports is nothing for a list of runs
            rewards.reward(one.name, one.options)
    stages = [] if config.curriculum is None else config.curriculum.stages
    for task in (config.task, *(stage.task for stage in stages)):
        if task.name is not None:
            source = None if task.dataset is None else Source(task.dataset, task.subset, task.revision)
            tasks.task(task.name, task.options, source)


def _check_that_arms_differ(configs: dict[str, RunConfig]) -> None:
    seen: dict[str, str] = {}
    for arm, config in configs.items():
        key = strict_json.dumps(config.to_dict())
        if key in seen:
            raise ConfigError(
                f"the arms {seen[key]} and {arm} have one and the same config, so there is nothing to compare; does "
                "--set undo what tells them apart?"
            )
        seen[key] = arm
