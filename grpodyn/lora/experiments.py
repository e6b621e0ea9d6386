"""The next cheapest experiment: what would move the advice up a rung, as commands that can be typed."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING

from grpodyn.ablation.results import Ablation
from grpodyn.lora import evidence
from grpodyn.lora.findings import Movement
from grpodyn.lora.modules import Plan
from grpodyn.lora.policy import Options
from grpodyn.lora.rungs import Ladder
from grpodyn.lora.stored import Stored

if TYPE_CHECKING:
    from grpodyn.trace.reader import Run


@dataclass(frozen=True)
class Experiment:
    """A question, the commands that answer it, and how to read the outcome."""

    question: str
    commands: tuple[str, ...]
    reading: str


def next_experiment(
    run: Run, movement: Movement, plan: Plan, options: Options, ladder: Ladder, placed: bool
) -> Experiment:
    """Return the cheapest experiment that could change the advice.

    Args:
        run: the run.
        movement: what moved in it.
        plan: the advised adapter.
        options: what the caller asked for.
        ladder: what was tested already.
        placed: whether the advice leaves out layers or module types because of a test.
    """
    steps = _Commands(run, options)
    if ladder.ablation is not None:
        return _after_ablation(steps, ladder.ablation)
    if options.goal == "retention" and not placed:
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
    if ladder.patch is not None:
        return _after_patch_test(steps, ladder.patch, placed)
    if not evidence.is_flat(movement.spread("layer", "displacement")):
        return _placement(steps, movement)
    return Experiment(
        question="movement is flat; is the gain's place flat too?",
        commands=(f"grpodyn attribute {steps.run}",),
        reading="one evaluation per part, no training: what put-back costs is where this run's change is stored",
    )


def _placement(steps: _Commands, movement: Movement) -> Experiment:
    top = [layer.group for layer in evidence.leading_layers(movement)]
    indices = sorted(int(layer.rsplit(".", 1)[-1]) for layer in top)
    share = 100 * sum(layer.displacement_share for layer in evidence.leading_layers(movement))
    return Experiment(
        question=f"layers {_list(indices)} hold {share:.0f} % of the displacement energy; do they hold the gain?",
        commands=(f"grpodyn attribute {steps.run}",),
        reading="one evaluation per part, no training: what put-back costs is where this run's change is stored",
    )


def _asked(options: Options) -> str:
    """Return the options of `recommend-lora` that ask for the same advice once more."""
    values = {
        "goal": options.goal,
        "max-params": options.max_params,
        "max-fraction": options.max_fraction,
        "rank": options.rank,
        "rank-ladder": ",".join(map(str, options.rank_ladder)) or None,
        "method": None if options.method == "lora" else options.method,
    }
    named = [f"--{name} {value}" for name, value in values.items() if value is not None]
    flags = [("--keep-lr", options.keep_learning_rate), ("--experts", options.experts)]
    return "".join(f" {word}" for word in [*named, *(flag for flag, given in flags if given)])


def _after_patch_test(steps: _Commands, stored: Stored, placed: bool) -> Experiment:
    prompts = int(stored.found.sources["prompts"]["choose"]["prompts"])
    if stored.word == "too noisy":
        return Experiment(
            question="with more prompts, can the parts be told apart?",
            commands=(f"grpodyn attribute {steps.run} --prompts {4 * prompts}",),
            reading="four times the prompts halve the intervals; if all of the task's are used, the answer is no",
        )
    if placed:
        return Experiment(
            question="does training where this run's change is stored keep the gain?",
            commands=(
                f"{steps.recommend} --json > advised.json",
                f"grpodyn ablate {steps.run} --advice advised.json "
                "--arms advised,all-linear,all-linear-same-budget,random-same-budget",
            ),
            reading="the advised adapter against all-linear, and against as many parameters spread evenly or placed at "
            "random, over seeds: only that makes the hypothesis a finding",
        )
    return Experiment(
        question="how much of the run's gain does the advised adapter keep?",
        commands=(steps.apply(), steps.record("advised"), steps.compare("advised")),
        reading="held-out accuracy beside the base's and this run's; one seed each carries no error bar, so repeat "
        "with another `seed` before acting on a small difference",
    )


def _after_ablation(steps: _Commands, ablation: Ablation) -> Experiment:
    needed = [c.needs_seeds for c in ablation.comparisons if c.needs_seeds is not None]
    if ablation.missing:
        return Experiment(
            question=f"{ablation.missing} trainings of the ablation are still to be done",
            commands=(f"grpodyn ablate {steps.run}",),
            reading="with the options that it was started with it goes on where it was stopped",
        )
    if needed:
        return Experiment(
            question="would more seeds separate the arms?",
            commands=(f"grpodyn ablate {steps.run} --seeds {max(needed)}",),
            reading="seeds that would show a difference of the size found (other options as they were); if that is too "
            "small to matter, stop here",
        )
    return Experiment(
        question="does it hold on another task, or another model?",
        commands=("grpodyn ablate CONFIG.yaml",),
        reading="an ablation speaks for its own task and model only",
    )


def _retention(steps: _Commands, movement: Movement) -> Experiment:
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
    """Command lines about one run, which ask for what was asked for."""

    def __init__(self, run: Run, options: Options) -> None:
        self.run = shlex.quote(str(run.path))
        self.recommend = f"grpodyn recommend-lora {self.run}{_asked(options)}"
        self._stem = str(run.path).rstrip("/")
        # A run that was recorded by `grpodyn record` holds its own config; a bare callback's script has it.
        self._source = self.run if run.manifest.config else "CONFIG.yaml"

    def apply(self) -> str:
        """Write the advised config."""
        return f"{self.recommend} --apply {self._source} -o advised.yaml"

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
