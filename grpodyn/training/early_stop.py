"""Tells a training run when going on is not worth it; ends it only if asked to.

>>> from grpodyn.training.early_stop import EarlyStop
>>> EarlyStop(act=True, epsilon=0.005).acted       # GRPOTrainer(…, callbacks=[EarlyStop(act=True), Recorder(…)])
False
"""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from transformers import TrainerCallback

from grpodyn.forecasting.flags import WATCHED
from grpodyn.forecasting.stopping import Decision, StopRule
from grpodyn.recording.boundary import Boundary
from grpodyn.recording.facts import about_rewards
from grpodyn.recording.recorder import Recorder, find_trainer

logger = logging.getLogger("grpodyn")

BROKEN_ROWS = 3
"""Rows in a row without a finite gradient after which training is broken; a scaler of fp16 skips one now and then."""
_NAME = "early stop"


class EarlyStop(TrainerCallback):  # type: ignore[misc]  # transformers has no types
    """Applies the marginal rule of `grpodyn.forecasting.stopping` to the reward that a trainer logs.

    Without `act` it only reports. What it decided, and why, is written into the run of a `Recorder` among the same
    trainer's callbacks: an event, and `recorder.early_stop` of the manifest. Put it before the recorder, which then
    measures the last step as the last. Nothing it does raises into the training: what fails is logged, and is an event.

    Args:
        act: whether training ends when the rule says so.
        epsilon: expected gain, in the reward's unit, that is not worth going on for; 2 % of the level if not given.
        metric: key of the trainer's log.
    """

    def __init__(self, act: bool = False, epsilon: float | None = None, metric: str = "reward") -> None:
        self.decision: Decision | None = None
        """The first decision; training that goes on is not judged again."""
        self.acted = False
        """Whether training was ended."""
        self._act, self._epsilon, self._metric = act, epsilon, metric
        self._rule: StopRule | None = None
        self._history = _History()
        self._broken_since: int | None = None
        self._broken_rows = 0
        self._boundary = Boundary(lambda where, why: self._note(f"{where} failed", why), "grpodyn")
        self._step = 0

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Start watching."""
        self._rule = None
        self.decision, self.acted, self._broken_since, self._broken_rows = None, False, None, 0
        self._boundary.run(_NAME, self._begin, state)

    def on_log(self, args: Any, state: Any, control: Any, logs: Mapping[str, Any] | None = None, **_: Any) -> None:
        """Take a row in, and look at the run when it has grown enough."""
        self._boundary.run(_NAME, self._take, state, logs)

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """End training at the first step after the decision: the recorder still measures it as the last."""
        if self.decision is not None and self._act and not self.acted:
            self.acted = True
            control.should_save = args.save_strategy != "no"
            control.should_training_stop = True
            self._boundary.run(_NAME, self._write, self.decision)

    def _begin(self, state: Any) -> None:
        planned = int(state.max_steps) if state.max_steps and state.max_steps > 0 else None
        self._history = _History({str(one["name"]): float(one["weight"]) for one in about_rewards(find_trainer(self))})
        self._rule = StopRule(planned, self._epsilon, self._metric, log=self._history)
        # A trainer that resumes from a checkpoint brings its log with it.
        for row in state.log_history:
            self._history.add(row)
            self._rule.recall(int(row.get("step", 0)), _number(row.get(self._metric)))

    def _take(self, state: Any, logs: Mapping[str, Any] | None) -> None:
        if self._rule is None or self.decision is not None or not logs:
            return
        step = self._step = int(state.global_step)
        self._history.add(logs)
        decision = self._broken(step, logs)
        looks = self._rule.taken
        if decision is None:
            decision = self._rule.add(step, _number(logs.get(self._metric)))
        if decision is not None:
            self._decide(decision)
        elif self._rule.taken > looks:
            self._write(None)

    def _note(self, what: str, why: str, **fields: Any) -> None:
        recorder = self._recorder()
        if recorder is not None and recorder.writer is not None:
            recorder.writer.event(self._step, what, why, **fields)

    def _broken(self, step: int, logs: Mapping[str, Any]) -> Decision | None:
        """Return the decision to stop where gradients stay NaN: the trainer itself logs such a loss as 0."""
        if "grad_norm" not in logs:
            return None
        if math.isfinite(_number(logs["grad_norm"])):
            self._broken_since, self._broken_rows = None, 0
            return None
        self._broken_since = step if self._broken_since is None else self._broken_since
        self._broken_rows += 1
        if self._broken_rows < BROKEN_ROWS:
            return None
        why = f"training broke at step {self._broken_since}: grad_norm is not finite; go back to a checkpoint before it"
        return Decision(step, why, None, math.nan, None)

    def _decide(self, decision: Decision) -> None:
        self.decision = decision
        verb = "stopping" if self._act else "the run could stop (it goes on: act=False)"
        logger.info("early stop at step %d: %s; %s", decision.step, verb, decision.why)
        self._write(decision)
        self._note(
            "early stop",
            decision.why,
            acts=self._act,
            epsilon=decision.epsilon,
            saved_steps=decision.saved_steps,
            left=None if decision.left is None else vars(decision.left),
        )

    def _write(self, decision: Decision | None) -> None:
        recorder, rule = self._recorder(), self._rule
        if recorder is None or recorder.writer is None or rule is None:
            return
        said = {"act": self._act, "acted": self.acted, "metric": self._metric, "looks": rule.taken}
        last = {"last_look": rule.last, "decision": decision}
        recorder.writer.update_manifest(recorder={"early_stop": {**said, **last}})

    def _recorder(self) -> Recorder | None:
        trainer = find_trainer(self)
        handler = getattr(trainer, "callback_handler", None)
        return next((one for one in getattr(handler, "callbacks", ()) if isinstance(one, Recorder)), None)


class _History:
    """The metrics that signs of a fault are read from, as they come."""

    def __init__(self, weights: Mapping[str, float] | None = None) -> None:
        self._values: dict[str, list[float]] = {name: [] for name in WATCHED}
        self._weights = dict(weights or {})

    def add(self, logs: Mapping[str, Any]) -> None:
        """Take a row in."""
        for name, values in self._values.items():
            value = _number(logs.get(name))
            if math.isfinite(value):
                values.append(value)

    def values(self, name: str) -> NDArray[np.float64]:
        """Return the finite values of a metric, in order."""
        return np.array(self._values[name])

    def held_out(self) -> None:
        """Return None: evaluations do not pass by here."""

    def weights(self) -> Mapping[str, float]:
        """Return the weight of each reward function in the reward; empty if they are not known."""
        return self._weights


def _number(value: Any) -> float:
    return float(value) if isinstance(value, int | float | np.floating) else math.nan
