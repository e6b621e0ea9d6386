"""Where training broke: the first step from which gradients or loss are not finite any more."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from grpodyn.series.columns import logged
from grpodyn.series.series import Broken

if TYPE_CHECKING:
    from grpodyn.trace.reader import Run

_WATCHED = ("grad_norm", "loss")
_EVENT = "non-finite"


def first_break(run: Run) -> Broken | None:
    """Return where training broke, or None.

    A row that logs a loss (or a learning rate) but whose `grad_norm` is nan is a bad step: the trainer itself replaces
    a NaN loss by 0. A scaler of fp16 skips such a step and goes on, so only what stays nan to the end counts. A metric
    that was never finite (`kl` without a KL term) is not computed rather than broken.
    """
    found = [broken for name in _WATCHED if (broken := _stays_nan(run, name)) is not None]
    found += _from_events(run)
    return min(found, key=lambda broken: broken.step, default=None)


def _stays_nan(run: Run, name: str) -> Broken | None:
    column = logged(run, name)
    if column is None:
        return None
    step, value = column
    stepped = np.zeros(len(step), bool)
    for witness in ("loss", "learning_rate"):
        other = logged(run, witness)
        if witness != name and other is not None:
            stepped |= np.isfinite(other[1])
    finite = np.isfinite(value)
    if not finite.any():
        return None
    after = stepped & ~finite & (np.arange(len(step)) > np.flatnonzero(finite)[-1])
    return Broken(int(step[after].min()), f"{name} is not finite from there on") if after.any() else None


def _from_events(run: Run) -> list[Broken]:
    """Return what the recorder noted of tensors; of gradients only where no later step was sound."""
    column = logged(run, "grad_norm")
    last_sound = -1
    if column is not None:
        sound = column[0][np.isfinite(column[1])]
        last_sound = int(sound.max()) if sound.size else -1
    return [
        Broken(int(event["step"]), f"{event['what']} in {event.get('tensor', 'a tensor')}")
        for event in run.events
        if str(event.get("what", "")).startswith(_EVENT) and int(event["step"]) > last_sound
    ]
