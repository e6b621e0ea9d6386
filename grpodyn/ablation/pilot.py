"""The cheap path: a short all-linear warm-up, advice from it, and the full run with the advised adapter."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from grpodyn.attribution import result as attribution
from grpodyn.attribution.request import Request, carry_out
from grpodyn.attribution.run import Watcher
from grpodyn.config.batching import batch_plan, planned_steps, world_size
from grpodyn.config.resume import check_same
from grpodyn.config.run import RunConfig
from grpodyn.errors import GrpodynError, MissingDataError, UsageError
from grpodyn.evaluation.records import HeldOut, held_out_by_step
from grpodyn.lora import advice as lora_advice
from grpodyn.lora.advice import Advice
from grpodyn.lora.apply import lora_section
from grpodyn.lora.learning_rate import LOW_FACTOR
from grpodyn.lora.policy import ALPHA, DEFAULT_RANK, Options
from grpodyn.trace import strict_json
from grpodyn.trace.reader import Run, open_run
from grpodyn.training import data
from grpodyn.training.display import Display
from grpodyn.training.session import train

WARM_UP, RUN, ADVICE, FILE = "warmup", "run", "advice.json", "pilot.json"
LEAST_STEPS = 8
"""A warm-up shorter than this moves too little to be asked anything."""


@dataclass(frozen=True)
class Pilot:
    """What a pilot came to; seconds are wall time of training."""

    warm_up: str
    run: str
    decision: str
    """In words: what was trained, or why all-linear was kept."""
    keeps_all_linear: bool
    rung: int
    verdict: str
    trainable_params: int
    all_linear_params: int
    warm_up_steps: int
    steps: int
    warm_up_step_seconds: float
    """Median of a step of all-linear."""
    step_seconds: float
    """Median of a step of the run."""
    overhead_seconds: float
    """What warm-up and advice cost."""
    net_seconds: float
    """Saved over training all-linear all along, warm-up and advice paid; negative if they cost more."""
    before: HeldOut | None
    after: HeldOut | None

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return dict(strict_json.jsonable(asdict(self)))


class NotFinished(Exception):  # noqa: N818 - not an error
    """A training of the pilot was stopped by the user."""


def pilot(
    config: RunConfig,
    folder: Path,
    display: Display,
    *,
    share: float = 0.1,
    options: Options | None = None,
    patch_test: bool = True,
) -> Pilot:
    """Train a warm-up, ask it, and train the full run as advised; each part is done once, and gone on with.

    Args:
        config: the full run.
        folder: holds `warmup`, `run` and what was decided.
        display: shows both trainings.
        share: of the run's steps that the warm-up takes.
        options: what the advice must keep to.
        patch_test: whether to patch-test the warm-up (one evaluation a part); without it, advice rests on movement.

    Raises:
        UsageError: a share that leaves no steps, or is more than the run.
        ConfigError, UnknownNameError: the config does not describe a run that can start.
        NotFinished: the user has stopped a training.
    """
    if not 0 < share < 1:
        raise UsageError(f"--warmup {share}: expected a share of the run's steps between 0 and 1")
    warm = folder / WARM_UP
    steps = _steps(config)
    short = max(LEAST_STEPS, math.ceil(share * steps))
    if short >= steps:
        raise UsageError(
            f"a warm-up of {short} steps (at least {LEAST_STEPS}) is no shorter than the run of {steps}; train the run"
        )
    _train_once(_all_linear(config, short), warm, display)
    if patch_test:
        _patch(warm, display.say)
    started = time.perf_counter()
    found = _advice(open_run(warm), options or Options(), display.say)
    kept = found.trainable_params == found.all_linear_params
    # The patch test may be of an earlier start; its own seconds are in its file.
    overhead = time.perf_counter() - started + _patch_seconds(warm)
    _write(folder / ADVICE, found.to_json())
    display.say(_decision(found, kept))
    _train_once(_as_advised(config, found, _alpha_rate(config)), folder / RUN, display)
    done = _result(folder, found, kept, short, overhead)
    _write(folder / FILE, done.to_json())
    return done


def _steps(config: RunConfig) -> int:
    prompts = len(data.train_prompts(config.task))
    return planned_steps(config.grpo, batch_plan(config.grpo, world_size()), prompts)


def _alpha_rate(config: RunConfig) -> float:
    """The learning rate of LoRA at alpha 32 that goes with the config's own."""
    rate = config.grpo.get("learning_rate")
    if rate is None:
        raise UsageError("the run config has no grpo.learning_rate; set it: the adapter's rate follows from it")
    if config.lora is None:
        return float(f"{LOW_FACTOR * rate:.6g}")
    return float(f"{rate * config.lora.get('lora_alpha', 8) / ALPHA:.6g}")


def _all_linear(config: RunConfig, steps: int) -> RunConfig:
    rank = int(config.lora["r"]) if config.lora and "r" in config.lora else DEFAULT_RANK
    lora = {"r": rank, "lora_alpha": ALPHA, "lora_dropout": 0.0, "target_modules": "all-linear"}
    grpo = {**config.grpo, "max_steps": steps, "learning_rate": _alpha_rate(config)}
    return config.model_copy(update={"lora": lora, "grpo": grpo})


def _as_advised(config: RunConfig, found: Advice, rate: float) -> RunConfig:
    grpo = {**config.grpo, "learning_rate": found.training.learning_rate or rate}
    return config.model_copy(update={"lora": lora_section(found.peft_config), "grpo": grpo})


def _train_once(config: RunConfig, directory: Path, display: Display) -> None:
    """Train, or go on with what is there, unless it is finished.

    Raises:
        NotFinished: it was stopped.
        ConfigError: what is there was trained under other settings.
    """
    resume = directory.exists()
    if resume:
        check_same(directory, config)
    if not resume or open_run(directory).status != "finished":
        train(config, directory, display, resume=resume)
    if open_run(directory).status != "finished":
        raise NotFinished


def _patch(warm: Path, say: Callable[[str], None]) -> None:
    if (warm / attribution.FILE).is_file():
        return
    try:
        carry_out(Request(run=warm), warm, Watcher())
    except GrpodynError as error:
        say(f"the warm-up is not patch-tested, advice rests on movement alone: {error}")


def _advice(warm: Run, options: Options, say: Callable[[str], None]) -> Advice:
    """Return the warm-up's advice; where nothing supports leaving parts out, a fraction is met by a lower rank."""
    try:
        return lora_advice.advise(warm, options)
    except UsageError as error:
        if options.max_fraction is None:
            raise
        say(f"{error}; all linear modules are trained at a lower rank")
        whole = lora_advice.advise(warm, replace(options, max_fraction=None)).all_linear_params
        size = math.floor(options.max_fraction * whole)
        limit = size if options.max_params is None else min(size, options.max_params)
        return lora_advice.advise(warm, replace(options, max_fraction=None, max_params=limit))


def _patch_seconds(warm: Path) -> float:
    file = warm / attribution.FILE
    return attribution.read(file).seconds if file.is_file() else 0.0


def _decision(found: Advice, kept: bool) -> str:
    if kept:
        return f"keep all-linear ({found.verdict})"
    saved = ""
    if found.savings is not None:
        saved = f", estimated to save {found.savings.time_share:.0%} of a step and {found.savings.memory_share:.0%} of "
        saved += "the peak memory"
    return (
        f"train {found.where}: {found.trainable_params:,} parameters instead of {found.all_linear_params:,}{saved} "
        f"(rung {found.rung}; a hypothesis until `grpodyn ablate` has tested it)"
    )


def _result(folder: Path, found: Advice, kept: bool, short: int, overhead: float) -> Pilot:
    warm, run = open_run(folder / WARM_UP), open_run(folder / RUN)
    slow, fast = _step_seconds(warm), _step_seconds(run)
    evaluations = held_out_by_step(run)
    last = max(evaluations, default=0)
    paid = short * slow + overhead
    return Pilot(
        warm_up=str(folder / WARM_UP),
        run=str(folder / RUN),
        decision=_decision(found, kept),
        keeps_all_linear=kept,
        rung=found.rung,
        verdict=found.verdict,
        trainable_params=found.trainable_params,
        all_linear_params=found.all_linear_params,
        warm_up_steps=short,
        steps=run.last_step,
        warm_up_step_seconds=slow,
        step_seconds=fast,
        overhead_seconds=paid,
        net_seconds=run.last_step * (slow - fast) - paid,
        before=evaluations.get(0),
        after=evaluations[last] if last > 0 else None,
    )


def _step_seconds(run: Run) -> float:
    try:
        seconds = np.asarray(run.metric("step_seconds").values, np.float64)
    except MissingDataError:
        return math.nan
    # The first step pays for warming up caches.
    return median(seconds[1:].tolist()) if seconds.size > 1 else math.nan


def _write(path: Path, content: Mapping[str, Any]) -> None:
    strict_json.replace_file(path, (json.dumps(strict_json.jsonable(content), indent=1) + "\n").encode())
