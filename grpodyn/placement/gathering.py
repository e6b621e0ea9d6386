"""Everything that can be asked before training: the scores of every predictor, from one run directory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from grpodyn.attribution import result as attribution
from grpodyn.attribution.subject import of_run
from grpodyn.config.run import RunConfig
from grpodyn.lora.twin import Twin
from grpodyn.placement import movement, patched
from grpodyn.placement.first_order import FEATURE_NORM, FIRST_ORDER, feature_norm_scores, loss_change
from grpodyn.placement.judging import Predictor
from grpodyn.placement.parts import Scores
from grpodyn.trace.reader import Run, open_run
from grpodyn.training import data

BASE: Final = "the base alone"
SHARES: Final = (0.1, 0.25, 0.5, 1.0)
_OF_TWO_CHECKPOINTS = frozenset({movement.DISPLACEMENT, movement.RANK})
"""What needs no step in between: a checkpoint saved at that step and the base tell it."""
_PROMPTS = 500


@dataclass(frozen=True)
class Source:
    """A recorded run as a source of advice."""

    name: str
    """Such as `full run`."""
    directory: Path
    shares: Sequence[float] = SHARES
    """Of the run that the trace is looked at up to."""


def scores_of(source: Source, linear: Twin, config: RunConfig) -> dict[Predictor, Scores]:
    """Return what each predictor says of a run, told apart by what it needs: two checkpoints of it, or its trace.

    Args:
        source: the run; its patch test counts if `attribution.json` is there.
        linear: the model's twin, which knows the linear modules.
        config: of the run; its held-out split `choose` gives the prompts of the backward pass.

    Raises:
        NotARunError, MissingDataError, SchemaError: the run cannot be read, or holds no weights.
    """
    run = open_run(source.directory)
    ends, found = _ends(source.name), moved(run, source)
    if (source.directory / attribution.FILE).is_file():
        tested = patched.scores(attribution.read(source.directory / attribution.FILE))
        found |= {Predictor(name, ends): by_part for name, by_part in tested.items() if by_part}
    subject = of_run(source.directory, None, None, None, "cpu")
    examples = data.held_out(config.task, "choose", _PROMPTS)
    found[Predictor(FIRST_ORDER, ends)] = loss_change(subject, linear.linear, examples)
    found[Predictor(FEATURE_NORM, BASE)] = feature_norm_scores(subject, linear.linear, examples)
    return found


def moved(run: Run, source: Source) -> dict[Predictor, Scores]:
    """Return what the movement in a run says of each part, after each share of it."""
    found: dict[Predictor, Scores] = {}
    for share in source.shares:
        for name, by_part in movement.scores(run, share).items():
            needs = _ends(source.name) if name in _OF_TWO_CHECKPOINTS else f"trace: {source.name}"
            found[Predictor(name, needs, share)] = by_part
    return found


def _ends(name: str) -> str:
    return f"two checkpoints: {name}"


def seconds_of(directory: Path) -> tuple[float, float]:
    """Return what a run's steps and its patch test took, in seconds of wall time; 0 for a patch test that was not made.

    Raises:
        NotARunError, MissingDataError: the run cannot be read, or its trainer logged no `step_time`.
    """
    training = float(open_run(directory).metric("step_time").sum())
    path = directory / attribution.FILE
    return training, attribution.read(path).seconds if path.is_file() else 0.0
