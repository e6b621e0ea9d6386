"""The run that advice comes from, and the advice: trained on a seed that nothing is tested on, then asked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from grpodyn.ablation.arms import Advised
from grpodyn.ablation.protocol import Study
from grpodyn.ablation.signals import Signals, read_signals
from grpodyn.attribution import result as attribution
from grpodyn.attribution.request import Request, carry_out
from grpodyn.attribution.run import Plan, Watcher
from grpodyn.config.lora_file import read_lora
from grpodyn.config.resume import check_same
from grpodyn.config.run import RunConfig
from grpodyn.errors import GrpodynError
from grpodyn.lora import advice as lora_advice
from grpodyn.lora import rungs
from grpodyn.lora.apply import lora_section
from grpodyn.lora.policy import Options
from grpodyn.trace.reader import open_run
from grpodyn.training.display import Display
from grpodyn.training.session import train


@dataclass(frozen=True)
class Source:
    """What is known from it."""

    signals: Signals
    advised: Advised | None
    notes: tuple[str, ...]


def train_source(config: RunConfig, study: Study, directory: Path, display: Display) -> bool:
    """Train the source run, or go on with it; return whether it is finished.

    Raises:
        ConfigError, UnknownNameError: the config does not describe a run that can start, or the one that is there was
            trained under other settings.
    """
    config = config.model_copy(update={"seed": study.source.seed})
    status = open_run(directory).status if directory.exists() else "empty"
    if status != "empty":
        check_same(directory, config)
    if status != "finished":
        train(config, directory, display, resume=status != "empty")
    return open_run(directory).status == "finished"


def patch_test(directory: Path, study: Study, say: Callable[[str], None]) -> None:
    """Find where the source run's change is stored, so that its advice stands on rung 2; done once.

    A run that cannot be patch-tested keeps the advice of rung 1, and says why.
    """
    if not study.source.attribute or (directory / attribution.FILE).is_file():
        return
    try:
        carry_out(Request(run=directory), directory, Watcher(planned=lambda plan: say(_patching(plan))))
    except GrpodynError as error:
        say(f"{directory.name} is not patch-tested: {error}")


def _patching(plan: Plan) -> str:
    return f"patch test: at most {plan.evaluations} evaluations on {plan.prompts} prompts"


def read_source(directory: Path, study: Study) -> Source:
    """Return what a recorded run shows, and what `recommend-lora` says about it at the protocol's size.

    Where no adapter of that size is supported by the evidence, the advice is asked for without a limit: it is then
    all-linear, and the arm that movement points at is tested in its place.

    Raises:
        NotARunError, SchemaError, MissingDataError: the run cannot be read or says nothing.
    """
    run = open_run(directory)
    signals = read_signals(run)
    notes: list[str] = []
    for options in (Options(rank=study.rank, max_fraction=study.max_fraction), Options(rank=study.rank)):
        try:
            # Not what an earlier ablation found: that would be tested against itself.
            found = lora_advice.advise(run, options, highest_rung=rungs.PATCH)
        except GrpodynError as error:
            notes.append(f"advice: {error}")
            continue
        basis = f"{found.verdict}; rung {found.rung}: {rungs.RUNG_NAMES[found.rung]}"
        advised = Advised(lora_section(found.peft_config), found.training.learning_rate, basis)
        return Source(signals, advised, tuple(notes))
    return Source(signals, None, tuple(notes))


def read_advice(path: Path) -> Advised:
    """Return an adapter from a file.

    Raises:
        ConfigError: the file holds none.
    """
    found = read_lora(path)
    return Advised(found.lora, found.learning_rate, f"read from {path.name}")
