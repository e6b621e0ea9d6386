"""What decided a run, as flat keys, and what of it does not change what is learned."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from grpodyn.trace.reader import Run

# Where a run lies is no difference in what it did.
PLACES = frozenset({"output_dir", "logging_dir", "run_name", "run_dir"})
SEEDS = frozenset({"seed", "data_seed"})
# What is measured changes nothing of what is trained.
_WATCHING = ("record", "evaluate")


def flat(value: Any, prefix: str = "") -> dict[str, Any]:
    """Return nested mappings as one, with keys joined by dots.

    >>> flat({"grpo": {"beta": 0.0}, "seed": 1})
    {'grpo.beta': 0.0, 'seed': 1}
    """
    if not isinstance(value, Mapping):
        return {prefix: value}
    found: dict[str, Any] = {}
    for key, inner in value.items():
        found |= flat(inner, f"{prefix}.{key}" if prefix else str(key))
    return found


def settings_of(run: Run, from_config: bool) -> dict[str, Any]:
    """Return what decided a run, by key.

    Args:
        run: the run.
        from_config: whether to read its run config; a run of somebody's own script has none, and what its trainer was
            given says the same under other keys.
    """
    manifest = run.manifest
    if from_config:
        whole = flat(manifest.config)
    else:
        whole = {
            "model": manifest.model.get("name"),
            **flat(manifest.trainer.get("arguments") or {}, "grpo"),
            **flat(manifest.lora or {}, "lora"),
        }
    return {key: value for key, value in whole.items() if _last(key) not in PLACES}


def teaches(key: str) -> bool:
    """Return whether a setting can change what is learned, other than by chance.

    >>> [key for key in ("grpo.beta", "seed", "grpo.data_seed", "record.preset") if teaches(key)]
    ['grpo.beta']
    """
    return _last(key) not in SEEDS and key.split(".", 1)[0] not in _WATCHING


def _last(key: str) -> str:
    return key.rsplit(".", 1)[-1]
