"""What watches a stage of a run: notes its beginning and end, tests it, ends it when it is mastered or has stalled."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from transformers import TrainerCallback

from grpodyn.config.stages import CurriculumConfig
from grpodyn.evaluation.answer_scores import score_answers
from grpodyn.recording.recorder import Recorder
from grpodyn.tasks import Examples
from grpodyn.trace.reader import open_run
from grpodyn.training.display import Display
from grpodyn.training.legs import DONE, Leg
from grpodyn.training.mastery import Outcome, judge, not_viable, viability

STAGE = "curriculum/stage"
"""Number of the stage that is trained, from 1."""
TEST = "curriculum/test"
"""Accuracy of the test that decides whether it is mastered."""
REWARD = "curriculum/reward"
ALIKE = "curriculum/alike"


class NotViableError(Exception):
    """A stage cannot be learned from, and the run is to end; caught where stages follow each other."""


class StageNotes(TrainerCallback):  # type: ignore[misc]  # transformers has no types
    """Writes into the run which stage a segment belongs to, and how it ended.

    Put it before the recorder, which closes the run at the end of training.
    """

    def __init__(self, leg: Leg) -> None:
        self.outcome: str | None = None
        """How the stage ended; None where it did not."""
        self.recorder: Recorder | None = None
        """Set once there is one."""
        self._leg = leg
        self._noted = False

    def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Name the segment; the recorder has opened it when the first step begins."""
        self.begin()

    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Note the end, if the stage has come to it."""
        if self.outcome is None and state.global_step >= state.max_steps:
            self.outcome = DONE
        if self.outcome is not None:
            self.note(outcome=self.outcome, end_step=int(state.global_step))

    def begin(self) -> None:
        """Name the segment, once."""
        if not self._noted:
            self._noted = True
            self.note(stage=self._leg.name, kind=self._leg.kind, stage_start=self._leg.start)

    def note(self, **fields: Any) -> None:
        """Add fields to the segment that is written."""
        writer = self.recorder.writer if self.recorder is not None else None
        if writer is not None:
            *before, last = writer.manifest.segments
            writer.update_manifest(segments=[*before, {**last, **fields}])


class StageTest:
    """The test of a stage: exact accuracy on prompts that stay the same.

    Args:
        rule: the curriculum.
        leg: the stage.
        examples: what it is tested on.
        tests: what was measured before, if the stage goes on.
    """

    def __init__(self, rule: CurriculumConfig, leg: Leg, examples: Examples, tests: Sequence[float] = ()) -> None:
        self.rule, self.leg = rule, leg
        self.tests = list(tests)
        self.tokenizer: Any = None
        """Of the model; set once there is one."""
        self._examples = examples

    def accuracy(self, model: Any) -> float:
        """Return the expected accuracy at the temperature of the test."""
        if self.rule.temperature == 0:
            scores = score_answers(model, self.tokenizer, self._examples.prompts, self._examples.answers)
            return float(scores.greedy.mean())
        return float(self.chances(model, self.rule.temperature).mean())

    def chances(self, model: Any, temperature: float) -> Any:
        """Return the chance of the right answer, (prompts,)."""
        prompts, answers = self._examples.prompts, self._examples.answers
        return np.exp(score_answers(model, self.tokenizer, prompts, answers, (temperature,)).log_probability[0])


class StageGate(TrainerCallback):  # type: ignore[misc]  # transformers has no types
    """Looks, before a stage is trained, whether GRPO can learn from it. Must come after the recorder.

    Args:
        test: of the stage.
        group_size: completions of a prompt.
        temperature: of training.
        recorder: takes what was measured.
        notes: of the stage.
        display: where it is said.
    """

    def __init__(
        self,
        test: StageTest,
        group_size: int,
        temperature: float,
        recorder: Recorder,
        notes: StageNotes,
        display: Display,
    ) -> None:
        self._test, self._group, self._temperature = test, group_size, temperature
        self._recorder, self._notes, self._display = recorder, notes, display

    def on_train_begin(self, args: Any, state: Any, control: Any, model: Any = None, **_: Any) -> None:
        """Measure the stage at its start; one that goes on has passed.

        Raises:
            NotViableError: it cannot be learned from, and the curriculum ends there.
        """
        self._notes.begin()
        rule, leg = self._test.rule, self._test.leg
        step = int(state.global_step)
        if step > leg.start:
            return
        now = self._test.accuracy(model)
        found = viability(self._test.chances(model, self._temperature), self._group)
        self._recorder.add_evaluation(
            step, {STAGE: float(leg.number), TEST: now, REWARD: found.reward, ALIKE: found.alike}
        )
        self._display.say(
            f"step {step}: stage {leg.name} begins at {now:.3f} of {rule.level:g}; samples are right in "
            f"{found.reward:.3f} of cases, {found.alike:.3f} of groups alike"
        )
        # Groups that are alike because all are right are no reason not to begin: the tests will soon end the stage.
        why = None if now >= rule.level else not_viable(rule, found)
        if why is None:
            return
        if self._recorder.writer is not None:
            self._recorder.writer.event(step, f"stage {leg.name} is not viable", why, on_stall=rule.on_stall)
        self._display.say(f"step {step}: stage {leg.name} is not viable: {why}")
        if rule.on_stall == "stop":
            self._notes.outcome = "not_viable"
            self._notes.note(outcome="not_viable", end_step=step)
            raise NotViableError(why)


class StageWatch(TrainerCallback):  # type: ignore[misc]  # transformers has no types
    """Tests a stage every so many steps and ends it. Put it before the recorder: the last step is measured as such."""

    def __init__(self, test: StageTest, notes: StageNotes, display: Display) -> None:
        self._test, self._notes, self._display = test, notes, display

    def on_step_end(self, args: Any, state: Any, control: Any, model: Any = None, **_: Any) -> None:
        """Test if it is time to, and at the last step that the stage may take."""
        rule, leg, step = self._test.rule, self._test.leg, int(state.global_step)
        last = step >= state.max_steps
        if (step - leg.start) % rule.every and not last:
            return
        accuracy = self._test.accuracy(model)
        self._test.tests.append(accuracy)
        if self._notes.recorder is not None:
            self._notes.recorder.add_evaluation(step, {STAGE: float(leg.number), TEST: accuracy})
        outcome: Outcome | None = judge(rule, self._test.tests)
        if outcome is None and last:
            outcome = "stalled"
        said = "" if outcome is None else f": {outcome} after {step - leg.start} steps"
        self._display.say(f"step {step}: stage {leg.name} tests at {accuracy:.3f} of {rule.level:g}{said}")
        if outcome is not None:
            self._notes.outcome = outcome
            # What ends by its own rule is finished, and evaluated as such.
            state.max_steps = step
            control.should_training_stop = control.should_save = True


def earlier_tests(run_dir: Path, leg: Leg, until: int) -> list[float]:
    """Return the tests of a stage after its start and up to a step, as a run holds them."""
    run = open_run(run_dir)
    if not run.rows["evaluations"]:
        return []
    names = [str(name) for name in run.evaluations["metric"].values]
    if STAGE not in names or TEST not in names:
        return []
    values, steps = run.evaluations["values"].values, run.evaluations["step"].values
    stage, test = values[:, names.index(STAGE)], values[:, names.index(TEST)]
    chosen = (stage == leg.number) & (steps > leg.start) & (steps <= until) & np.isfinite(test)
    return [float(value) for value in test[chosen]]
