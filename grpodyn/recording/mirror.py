"""A few scalars of a recording for the loggers of the trainer: TensorBoard, W&B and trackio, as its `report_to` says.

The loggers are the trainer's own callbacks, and are handed the scalars as they are handed the trainer's. Nothing else
hears of them: the trainer's log history, its progress bar and the trace are what they are without.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from grpodyn.probe import FloatArray
from grpodyn.recording.boundary import Boundary
from grpodyn.recording.opening import Start
from grpodyn.trace.schema import TensorInfo
from grpodyn.trace.writer import TraceWriter

PREFIX: Final = "grpodyn/"
LOGGERS: Final = {"tensorboard": "TensorBoardCallback", "wandb": "WandbCallback", "trackio": "TrackioCallback"}
"""Entries of `report_to` that take part, and the callbacks of transformers that they stand for.

Those of others may do more with a log than write it down (DVCLive's begins its next step).
"""


class Mirror:
    """Reduces rows to scalars as they are written, and hands them to the trainer's loggers when it logs.

    Args:
        trainer: whose loggers; None, or a trainer without any of `LOGGERS`, is told nothing.
        infos: entries of the tensor axis.
    """

    def __init__(self, trainer: Any, infos: list[TensorInfo]) -> None:
        self._trainer = trainer
        self._rows = np.array([info.source != "factor" for info in infos], dtype=bool)
        self._latest: dict[str, float] = {}
        self._groups = self._dead = 0

    def loggers(self) -> list[Any]:
        """Return the trainer's callbacks that are told; they may change while it trains."""
        handler = getattr(self._trainer, "callback_handler", None)
        known = set(LOGGERS.values())
        return [
            callback
            for callback in getattr(handler, "callbacks", ())
            if any(kind.__name__ in known for kind in type(callback).__mro__)
        ]

    def see(self, group: str, values: Mapping[str, NDArray[Any]]) -> None:
        """Take what a row of `tensors`, `spectra` or `rollouts` says."""
        if group == "rollouts":
            self._see_groups(values["reward"])
        for array, scalar, reduce in _OF_TENSORS if group in ("tensors", "spectra") else ():
            if array in values:
                measured = values[array][self._rows]
                measured = measured[np.isfinite(measured)]
                if measured.size:
                    self._latest[scalar] = reduce(measured)

    def _see_groups(self, reward: FloatArray) -> None:
        # One prompt's completions teach nothing where all of them got the same reward.
        scored = np.isfinite(reward).all(axis=1)
        self._groups += int(scored.sum())
        self._dead += int((np.ptp(reward[scored], axis=1) == 0).sum()) if scored.any() else 0

    def tell(self, seconds: float, step_seconds: float) -> None:
        """Hand over what has been seen since the last time.

        Args:
            seconds: CPU seconds of the recorder since then.
            step_seconds: wall seconds of the steps since then.
        """
        scalars = {**self._latest, "recorder_seconds": seconds}
        if step_seconds > 0:
            scalars["recorder_share"] = seconds / step_seconds
        if self._groups:
            scalars["dead_group_share"] = self._dead / self._groups
        self._latest, self._groups, self._dead = {}, 0, 0
        trainer = self._trainer
        for logger in self.loggers():
            told = {PREFIX + name: value for name, value in scalars.items() if math.isfinite(value)}
            logger.on_log(trainer.args, trainer.state, trainer.control, logs=told)


def mirrored(start: Start, infos: list[TensorInfo], writer: TraceWriter, boundary: Boundary) -> Mirror:
    """Return a mirror that sees what a writer writes; where the trainer has no logger that is noted.

    Args:
        start: what training begins with.
        infos: entries of the tensor axis.
        writer: of the run.
        boundary: runs the seeing.
    """
    mirror = Mirror(start.trainer, infos)
    if not mirror.loggers():
        why = f"record.mirror is set, but the trainer's report_to names none of {', '.join(LOGGERS)}"
        writer.event(start.step, "nothing mirrored", why)
    writer.observer = lambda group, values: boundary.run("mirror", mirror.see, group, values)
    return mirror


def _median(values: FloatArray) -> float:
    return float(np.median(values))


def _mean(values: FloatArray) -> float:
    return float(np.mean(values))


def _largest(values: FloatArray) -> float:
    return float(np.max(values))


def _root_of_squares(values: FloatArray) -> float:
    return float(np.sqrt(np.square(values, dtype=np.float64).sum()))


# Array of the trace, name of the scalar, and how the tensors' values become one number.
_OF_TENSORS: Final = (
    ("update_ratio", "update_ratio_median", _median),
    ("update_ratio", "update_ratio_largest", _largest),
    ("delta_norm", "delta_norm", _root_of_squares),
    ("effective_rank", "effective_rank_mean", _mean),
    ("stable_rank", "stable_rank_mean", _mean),
)
