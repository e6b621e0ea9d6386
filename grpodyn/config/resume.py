"""What may change when a run is resumed: nothing that training or the trace depends on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from grpodyn.config.run import SECRET_GRPO_KEYS, RunConfig, from_dict
from grpodyn.errors import ConfigError
from grpodyn.trace.manifest import Manifest

# They decide what is reported or saved, not what is learned.
_FREE_GRPO_KEYS = frozenset(
    {
        "logging_first_step",
        "logging_strategy",
        "report_to",
        "run_name",
        "save_steps",
        "save_strategy",
        "save_total_limit",
    }
    | SECRET_GRPO_KEYS
)
_LENGTH_KEYS = frozenset({"max_steps", "num_train_epochs"})
_LENGTH_FREE_SCHEDULES = frozenset({"constant", "constant_with_warmup"})
_TRL_SCHEDULE = "linear"


def recorded_config(run_dir: Path) -> RunConfig:
    """Return the config that a run was started with.

    Raises:
        NotARunError, SchemaError: the directory holds no run of this schema.
        ConfigError: the run was not started from a config.
    """
    config = Manifest.read(run_dir).config
    if config is None:
        raise ConfigError(
            f"{run_dir} was recorded by a script of its own and holds no run config; resume it with that script"
        )
    return from_dict(config, f"the config in {run_dir}")


def check_resumable(recorded: RunConfig, wanted: RunConfig) -> None:
    """Check that a run recorded with one config can go on with another.

    Raises:
        ConfigError: they differ in something that training or the trace depends on; names each key and both values.
    """
    before, after = _flat(recorded.to_dict()), _flat(wanted.to_dict())
    changed = [key for key in sorted(before.keys() | after.keys()) if before.get(key) != after.get(key)]
    refused = [key for key in changed if not _free(key, recorded)]
    if not refused:
        return
    differences = "; ".join(f"`{key}` was {before.get(key)!r}, now {after.get(key)!r}" for key in refused)
    hint = ""
    if any(key.removeprefix("grpo.") in _LENGTH_KEYS for key in refused):
        hint = " (the learning rate's schedule depends on the length of the run: only a constant one can be extended)"
    raise ConfigError(f"a resumed run cannot change its settings: {differences}{hint}; start a new run for that")


def check_same(run_dir: Path, wanted: RunConfig) -> None:
    """Check that a recorded run is what a config would train, so that it can stand for it.

    Raises:
        NotARunError, SchemaError: the directory holds no run of this schema.
        ConfigError: they differ in something that training depends on, its length among it; names each key and value.
    """
    before, after = _flat(recorded_config(run_dir).to_dict()), _flat(wanted.to_dict())
    changed = [key for key in sorted(before.keys() | after.keys()) if before.get(key) != after.get(key)]
    differing = [
        key
        for key in changed
        if key.partition(".")[0] not in ("evaluate", "record") and key.removeprefix("grpo.") not in _FREE_GRPO_KEYS
    ]
    if differing:
        found = "; ".join(f"`{key}` was {before.get(key)!r}, now {after.get(key)!r}" for key in differing)
        raise ConfigError(
            f"{run_dir} was trained under other settings: {found}; give another folder, or delete that run"
        )


def _free(key: str, recorded: RunConfig) -> bool:
    section, _, name = key.partition(".")
    if section == "evaluate":
        return True
    if section != "grpo":
        return False
    if name in _LENGTH_KEYS:
        return recorded.grpo.get("lr_scheduler_type", _TRL_SCHEDULE) in _LENGTH_FREE_SCHEDULES
    return name in _FREE_GRPO_KEYS


def _flat(section: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in section.items():
        if isinstance(value, dict) and value:
            flat |= _flat(value, f"{prefix}{key}.")
        else:
            flat[prefix + key] = value
    return flat
