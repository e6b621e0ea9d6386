"""Where a run's reward is going, where it will end, and when going on is not worth it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from grpodyn.analysis import Analysis
from grpodyn.forecasting.flags import RunLog, fault_flags
from grpodyn.forecasting.forecast import Forecast as Result
from grpodyn.forecasting.forecast import forecast
from grpodyn.series import reward_series

if TYPE_CHECKING:
    from grpodyn.trace.reader import Run


class Forecast(Analysis):
    """Phases, end and stopping step of a reward, or that nothing can be told."""

    name: ClassVar[str] = "forecast"
    title: ClassVar[str] = "Where the reward is going: phases, end, gain that is left, step to stop at"
    requires: ClassVar[tuple[str, ...]] = ()
    reference: ClassVar[str] = (
        "Forms of arXiv 2507.18014, 2606.30789 and 2510.13786 with constants of our own, AICc with AR(1) noise; "
        "back-tested in docs/results/forecast.md."
    )

    def run(self, run: Run, **options: Any) -> Result:
        """Return the forecast.

        Args:
            run: an opened run.
            options: `metric` (key of the trainer's log or of the evaluations; the training reward by default), `axis`
                (step, prompts, completions, tokens, seconds), `epsilon` (gain not worth going on for), `at_steps`.

        Raises:
            MissingDataError: the run holds no such metric, or not what the axis needs.
            UsageError: a step past the planned end, or an epsilon that is not positive.
        """
        series = reward_series(run, options.get("metric"), options.get("axis", "step"))
        return forecast(
            series,
            epsilon=options.get("epsilon"),
            at_steps=options.get("at_steps", ()),
            flags=fault_flags(RunLog(run), series),
        )
