"""What recording cost, step by step and in all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from grpodyn.analysis import Analysis
from grpodyn.series.columns import logged
from grpodyn.series.thinning import block_ends, block_means, block_starts

if TYPE_CHECKING:
    from grpodyn.trace.reader import Run

MOST_POINTS = 200


@dataclass(frozen=True)
class RecordingCost:
    """CPU seconds of all recorder threads beside the wall seconds of the steps."""

    run: str
    status: str
    steps: tuple[int, ...]
    recorder: tuple[float, ...]
    """Seconds a logged row, mean over the rows of a block."""
    step: tuple[float, ...]
    total_recorder: float
    total_steps: float
    share: float
    """Total over total; nan where no step took time."""


class RecorderCostAnalysis(Analysis):
    """The recorder's own cost."""

    name: ClassVar[str] = "recorder_cost"
    title: ClassVar[str] = "What recording cost: CPU seconds of the recorder beside the seconds of the steps"
    requires: ClassVar[tuple[str, ...]] = ("metrics:recorder_seconds", "metrics:step_seconds")
    reference: ClassVar[str] = "Measured by the recorder itself, by the CPU clocks of its threads."

    def run(self, run: Run, **options: Any) -> RecordingCost:
        """Return the cost of a run's recording.

        Raises:
            MissingDataError: the run did not measure it, as an imported one.
        """
        run.require(*self.requires)
        found = [logged(run, key.removeprefix("metrics:")) for key in self.requires]
        (steps, recorder), (_, seconds) = (one for one in found if one is not None)
        starts = block_starts(len(steps), MOST_POINTS)
        total, whole = float(np.nansum(recorder)), float(np.nansum(seconds))
        return RecordingCost(
            run=run.path.name,
            status=run.status,
            steps=tuple(int(step) for step in block_ends(steps.astype(np.float64), starts)),
            recorder=tuple(float(value) for value in block_means(recorder, starts)),
            step=tuple(float(value) for value in block_means(seconds, starts)),
            total_recorder=total,
            total_steps=whole,
            share=total / whole if whole > 0 else float("nan"),
        )
