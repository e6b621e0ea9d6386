"""The next cheapest experiment: what would move the advice up a rung, as commands that can be typed."""

from __future__ import annotations

import importlib.util
import math
import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING

from grpodyn.lora import evidence
from grpodyn.lora.findings import Movement
from grpodyn.lora.modules import Plan
from grpodyn.lora.policy import Options

if TYPE_CHECKING:
    from grpodyn.trace.reader import Run


@dataclass(frozen=True)
class Experiment:
    """A question, the commands that answer it, and how to read the outcome."""

    question: str
    commands: tuple[str, ...]
    reading: str


def next_experiment(run: Run, movement: Movement, plan: Plan, options: Options) -> Experiment:
    """Return the cheapest experiment that could change the advice."""
    steps = _Commands(run)
    if options.goal == "retention":
        return _retention(steps, movement)
    ranks = movement.ranks
    if ranks is not None and ranks.share_of_cap >= evidence.CAP_BINDS_FROM:
        return Experiment(
            question="does the adapter's rank limit the gain?",
            commands=(
                steps.apply(),
                steps.record("advised"),
                steps.record("rank2x", f"lora.r={2 * plan.rank}"),
                steps.compare("advised", "rank2x"),
            ),
            reading="twice the rank with the same alpha × learning rate; a gain beyond the noise of seeds says it did",
        )
    if not evidence.is_flat(movement.spread("layer", "displacement")):
        return _placement(steps, movement)
    return Experiment(
        question="how much of the run's gain does the advised adapter keep?",
        commands=(steps.apply(), steps.record("advised"), steps.compare("advised")),
        reading="held-out accuracy beside the base's and this run's; one seed each carries no error bar, so repeat "
        "with another `seed` before acting on a small difference",
    )


def _placement(steps: _Commands, movement: Movement) -> Experiment:
    top = [layer.group for layer in evidence.leading_layers(movement)]
    indices = sorted(int(layer.rsplit(".", 1)[-1]) for layer in top)
    share = 100 * sum(layer.displacement_share for layer in evidence.leading_layers(movement))
    if _exists("attribute"):
        return Experiment(
            question=f"layers {_list(indices)} hold {share:.0f} % of the displacement energy; do they hold the gain?",
            commands=(f"grpodyn attribute {steps.run}",),
            reading="one evaluation per part, no training: what put-back costs is where this run's change is stored",
        )
    whole = len(movement.layers)
    low, high = 4, math.ceil(4 * whole / len(indices))
    return Experiment(
        question=f"layers {_list(indices)} hold {share:.0f} % of the displacement energy; does an adapter there alone "
        "keep the gain, at the same budget as a thinner one everywhere?",
        commands=(
            steps.apply(),
            steps.record("everywhere", f"lora.r={low}"),
            steps.record("placed", f"lora.r={high}", f"lora.layers_to_transform={indices}"),
            steps.compare("everywhere", "placed"),
        ),
        reading="equal budgets, so a difference is placement; repeat over seeds before believing it",
    )


def _retention(steps: _Commands, movement: Movement) -> Experiment:
    if _exists("ablate"):
        commands: tuple[str, ...] = (f"grpodyn ablate {steps.run}",)
    else:
        count = len(movement.layers)
        ends = sorted({layer for layer in (0, 1, count - 2, count - 1) if 0 <= layer < count})
        commands = (
            steps.apply(),
            steps.record("everywhere"),
            steps.record("ends", f"lora.layers_to_transform={ends}"),
            steps.compare("everywhere", "ends"),
        )
    return Experiment(
        question="does an adapter on the first and last two layers forget less than one everywhere, and what "
        "does it cost in gain?",
        commands=commands,
        reading="evaluate both on what must not be lost, not only on the trained task; over at least three seeds",
    )


class _Commands:
    """Command lines about one run."""

    def __init__(self, run: Run) -> None:
        self.run = shlex.quote(str(run.path))
        self._stem = str(run.path).rstrip("/")
        # A run that was recorded by `grpodyn record` holds its own config; a bare callback's script has it.
        self._source = self.run if run.manifest.config else "CONFIG.yaml"

    def apply(self) -> str:
        """Write the advised config."""
        return f"grpodyn recommend-lora {self.run} --apply {self._source} -o advised.yaml"

    def record(self, name: str, *settings: str) -> str:
        """Train it, with some values changed."""
        changes = "".join(f" --set {shlex.quote(setting)}" for setting in settings)
        return f"grpodyn record advised.yaml --run-dir {shlex.quote(f'{self._stem}-{name}')}{changes}"

    def compare(self, *names: str) -> str:
        """Set the runs beside this one."""
        others = " ".join(shlex.quote(f"{self._stem}-{name}") for name in names)
        return f"grpodyn compare {self.run} {others}"


def _list(indices: list[int]) -> str:
    return ", ".join(map(str, indices))


def _exists(command: str) -> bool:
    return importlib.util.find_spec(f"grpodyn.cli.commands.{command}") is not None
