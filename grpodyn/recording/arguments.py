"""What a caller may hand to a recorder, checked at once: a wrong call is told before training begins."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any

from torch import nn

from grpodyn.config.record import RecordConfig


def check_recorder(config: Any, manifest: Any) -> None:
    """Check what a recorder is built with.

    Raises:
        TypeError: one of them is of another type.
    """
    if config is not None and not isinstance(config, RecordConfig):
        given = config if isinstance(config, str) else "standard"
        raise TypeError(
            f"config is {config!r}, expected a RecordConfig or None: RecordConfig(preset={given!r}), from "
            "grpodyn.config.record"
        )
    if manifest is not None and not isinstance(manifest, Mapping):
        raise TypeError(f"manifest is {manifest!r}, expected a mapping of fields of the run's manifest, or None")


def check_loop(model: Any, start_step: Any, max_steps: Any) -> tuple[int, int | None]:
    """Check what a loop is attached with, and return the two steps.

    Raises:
        TypeError: the model is no module, or a step is no whole number.
        ValueError: a step cannot be.
    """
    if not isinstance(model, nn.Module):
        raise TypeError(f"model is a {type(model).__name__}, expected a torch.nn.Module: attach(model, optimizer)")
    start, last = _whole("start_step", start_step), None if max_steps is None else _whole("max_steps", max_steps)
    if start < 0:
        raise ValueError(
            f"start_step is {start}, expected the number of updates made before: 0 for a loop that begins, else "
            "where it resumes"
        )
    # None left is no mistake: a script that had ended is started again.
    if last is not None and last < start:
        raise ValueError(
            f"max_steps is {last}, expected the last step of the loop, not before start_step ({start}); "
            "leave it out if it is not known"
        )
    return start, last


def _whole(name: str, value: Any) -> int:
    if isinstance(value, bool):
        raise TypeError(f"{name} is {value!r}, expected a whole number")
    try:
        # Also those of numpy and torch.
        return operator.index(value)
    except TypeError as error:
        raise TypeError(f"{name} is {value!r}, expected a whole number") from error
