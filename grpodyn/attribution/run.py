"""One attribution from its subject to its file: scan, evaluate, remember, read."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from grpodyn.attribution import result
from grpodyn.attribution.asking import Asker, Outcomes, OutOfEvaluations, Split
from grpodyn.attribution.changes import Forms, scan
from grpodyn.attribution.evaluators import Evaluator, ExactAnswers
from grpodyn.attribution.investigate import Options, investigate, planned_evaluations
from grpodyn.attribution.memory import FILE as CACHE
from grpodyn.attribution.memory import OutcomeFile
from grpodyn.attribution.patching import PatchedModel
from grpodyn.attribution.prompts import HeldOutPrompts, digest
from grpodyn.attribution.state import State
from grpodyn.attribution.subject import Subject
from grpodyn.errors import MissingDataError, UsageError


@dataclass(frozen=True)
class Plan:
    """What an attribution will cost, said before it starts."""

    evaluations: int
    """At most."""
    tokens: int
    """At most, over all evaluations."""
    prompts: int
    changed: int
    """Tensors that the run changed."""
    seconds_each: float
    """Of one evaluation, measured on the base; nan before that."""

    @property
    def minutes(self) -> float:
        """At most."""
        return self.evaluations * self.seconds_each / 60


@dataclass
class Watcher:
    """Told how an attribution gets on; does nothing by itself."""

    planned: Callable[[Plan], None] = field(default=lambda plan: None)
    evaluated: Callable[[int], None] = field(default=lambda made: None)


def attribute(
    subject: Subject,
    prompts: HeldOutPrompts,
    evaluator: Evaluator,
    options: Options,
    folder: Path,
    *,
    most: int | None = None,
    watcher: Watcher | None = None,
    run_id: str | None = None,
    baseline: Callable[[], dict[str, float] | None] = lambda: None,
) -> result.Attribution:
    """Find where the change of a subject is stored, write it into `folder`, and leave the live weights as they were.

    Every evaluation is kept as it is made: stopped at any moment and started again, it goes on where it was.

    Args:
        subject: the live model with its base, and the trained weights.
        prompts: held-out prompts.
        evaluator: holds the live weights and measures them.
        options: how much is asked.
        folder: where `attribution.json` goes.
        most: evaluations at most.
        watcher: told of the plan and of every evaluation.
        run_id: of the run, for the file.
        baseline: measures what a temperature alone gives the base.

    Raises:
        MissingDataError: nothing was changed.
        UsageError: `most` does not allow even the base and the trained weights.
    """
    options = replace(options, sampled=not isinstance(evaluator, ExactAnswers))
    seen = watcher if watcher is not None else Watcher()
    if most is not None and most < 2:
        raise UsageError(f"--max-evaluations {most}: the base and the trained weights alone are 2")
    scanned = scan(subject.model, subject.base, subject.final)
    if not scanned.changed:
        raise MissingDataError(
            f"{subject.final.place} holds the same weights as {subject.base.place}: nothing was changed, so there is "
            "nothing to attribute"
        )
    digests = {"base": subject.base.digest(), "final": subject.final.digest()}
    memory = OutcomeFile(
        folder / CACHE,
        digests["base"],
        digests["final"],
        {"choose": digest(prompts.choose), "confirm": digest(prompts.confirm)},
        evaluator.name,
    )
    patched = PatchedModel(evaluator, Forms(subject.base, subject.final), scanned.changed)

    def evaluate(state: State, split: Split) -> Outcomes:
        patched.take(state)
        return evaluator.outcomes(prompts.of(split))

    asker = Asker(evaluate, memory, most, seen.evaluated)
    began = time.perf_counter()
    tokens = evaluator.tokens(prompts.choose)
    asker.ask(State())
    took = time.perf_counter() - began
    planned = planned_evaluations(scanned.infos, options)
    planned = planned if most is None else min(planned, most)
    # What was remembered took no time, and says nothing about how long an evaluation takes.
    each = took if asker.made else float("nan")
    seen.planned(Plan(planned, planned * tokens, len(prompts.choose), len(scanned.changed), each))
    try:
        found = investigate(asker, scanned.infos, options)
    except OutOfEvaluations as error:
        raise UsageError(f"--max-evaluations {most} is spent before the trained weights are evaluated") from error
    finally:
        patched.restore()
    sources: dict[str, Any] = {
        "base": {"place": subject.base.place, "sha256": digests["base"]},
        "final": {"place": subject.final.place, "sha256": digests["final"]},
        "evaluator": evaluator.name,
        "prompts": {"source": prompts.source, **prompts.digests()},
        "changed_tensors": len(scanned.changed),
        "unchanged_tensors": scanned.unchanged,
        "lora": subject.is_lora,
    }
    written = result.of(
        found,
        sources,
        run_id=run_id,
        baseline=baseline(),
        tokens=found.evaluations * tokens,
        seconds=time.perf_counter() - began,
        notes=(*subject.notes, *scanned.notes),
    )
    result.write(folder / result.FILE, written)
    return written
