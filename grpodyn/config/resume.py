"""What may change when a run is resumed: nothing that training or the trace depends on."""

from __future__ import annotations

from pathlib import Path

from grpodyn.config.leaves import leaves
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
_LENGTH_HINT = " (the learning rate's schedule depends on the length of the run: only a constant one can be extended)"
_TRL_SCHEDULE = "linear"
_TRL_EPOCHS = 3.0


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
    before, after = dict(leaves(recorded.to_dict())), dict(leaves(wanted.to_dict()))
    changed = [key for key in sorted(before.keys() | after.keys()) if before.get(key) != after.get(key)]
    refused = [key for key in changed if not _free(key, recorded)]
    if not refused:
        return
    differences = "; ".join(f"`{key}` was {before.get(key)!r}, now {after.get(key)!r}" for key in refused)
    hint = _LENGTH_HINT if any(map(_is_length, refused)) else ""
    raise ConfigError(f"a resumed run cannot change its settings: {differences}{hint}; start a new run for that")


def check_same(run_dir: Path, wanted: RunConfig, *, whole: bool = False, longer: bool = False) -> None:
    """Check that a recorded run is what a config would train, so that it can stand for it.

    Args:
        run_dir: of the run.
        wanted: the config.
        whole: whether it must be evaluated and recorded alike too, so that its numbers can stand beside others.
        longer: whether it may also be a shorter run that can be trained on to the length that is wanted.

    Raises:
        NotARunError, SchemaError: the directory holds no run of this schema.
        ConfigError: they differ in something that training depends on, its length among it; names each key and value.
    """
    recorded = recorded_config(run_dir)
    before, after = dict(leaves(recorded.to_dict())), dict(leaves(wanted.to_dict()))
    changed = [key for key in sorted(before.keys() | after.keys()) if before.get(key) != after.get(key)]
    extended = longer and is_longer(recorded, wanted)
    differing = [
        key
        for key in changed
        if (whole or key.partition(".")[0] not in ("evaluate", "record"))
        and not (_is_length(key) and extended and _free(key, recorded))
        and key.removeprefix("grpo.") not in _FREE_GRPO_KEYS
    ]
    if differing:
        found = "; ".join(f"`{key}` was {before.get(key)!r}, now {after.get(key)!r}" for key in differing)
        hint = _LENGTH_HINT if extended and any(map(_is_length, differing)) else ""
        raise ConfigError(
            f"{run_dir} was trained under other settings: {found}{hint}; give another folder, or delete that run"
        )


def is_longer(recorded: RunConfig, wanted: RunConfig) -> bool:
    """Return whether a config asks for more training than a run was started for, in steps or else in epochs."""
    (unit, had), (other, asked) = _length(recorded), _length(wanted)
    return unit == other and asked > had


def _length(config: RunConfig) -> tuple[str, float]:
    # As the trainer counts: steps, if any are given, and else epochs, of which it does three unless told otherwise.
    steps, epochs = config.grpo.get("max_steps"), config.grpo.get("num_train_epochs")
    if isinstance(steps, int | float) and steps > 0:
        return "steps", steps
    return "epochs", epochs if isinstance(epochs, int | float) else _TRL_EPOCHS


def _is_length(key: str) -> bool:
    section, _, name = key.partition(".")
    return section == "grpo" and name in _LENGTH_KEYS


def _free(key: str, recorded: RunConfig) -> bool:
    section, _, name = key.partition(".")
    if section == "evaluate":
        return True
    if section != "grpo":
        return False
    if name in _LENGTH_KEYS:
        return recorded.grpo.get("lr_scheduler_type", _TRL_SCHEDULE) in _LENGTH_FREE_SCHEDULES
    return name in _FREE_GRPO_KEYS
