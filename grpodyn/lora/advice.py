"""From a recorded run to LoRA advice that PEFT resolves exactly as printed."""

from __future__ import annotations

import gc
import math
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from grpodyn import registry
from grpodyn.errors import AdviceError
from grpodyn.lora import dry_run, evidence, learning_rate, literature, policy, twin
from grpodyn.lora.evidence import Evidence
from grpodyn.lora.experiments import Experiment, next_experiment
from grpodyn.lora.findings import Movement
from grpodyn.lora.learning_rate import LearningRate
from grpodyn.lora.literature import Conflict
from grpodyn.lora.modules import ModulePlan, Plan, peft_config
from grpodyn.trace import strict_json

if TYPE_CHECKING:
    from grpodyn.trace.reader import Run

RUNG = 1
"""Movement alone; a patch test is rung 2, an ablation rung 3."""
_LOW_COVERAGE = 0.9


@dataclass(frozen=True)
class Advice:
    """Which adapter to train next, what that rests on, and how sure it is."""

    verdict: str
    rung: int
    peft_config: Mapping[str, Any]
    """As PEFT saves it."""
    modules: tuple[ModulePlan, ...]
    trainable_params: int
    """As PEFT counts them."""
    all_linear_params: int
    """All linear modules at the advised rank."""
    target_counts: Mapping[str, int]
    """How many modules each entry of `target_modules` matches."""
    max_rank: int
    """What an inference server's cap on the rank must allow."""
    coverage: float
    """Share of the blocks' weight elements under the adapter."""
    layer_coverage: Mapping[str, float]
    training: LearningRate
    evidence: tuple[Evidence, ...]
    conflicts: tuple[Conflict, ...]
    warnings: tuple[str, ...]
    next_experiment: Experiment
    movement: Movement

    def to_json(self) -> dict[str, Any]:
        """Return the advice as plain JSON values; nan and infinity become null."""
        return dict(strict_json.jsonable(asdict(self)))


def advise(run: Run, options: policy.Options) -> Advice:
    """Return checked advice for the run that follows `run`.

    Raises:
        MissingDataError: the run does not hold the movement that advice rests on.
        UsageError: no adapter fits the budget.
        AdviceError: the model's twin cannot be built, or PEFT resolves the config differently from the plan.
    """
    movement: Movement = registry.analysis("lora_movement").run(run)
    with _collector_paused():
        model = twin.build(run.manifest.model)
        choice, resolved, unreachable = _checked(run, model, options)
    plan = choice.plan
    arguments = run.manifest.trainer.get("arguments") or {}
    return Advice(
        verdict=_verdict(movement, plan, choice),
        rung=RUNG,
        peft_config=resolved.saved,
        modules=plan.modules,
        trainable_params=resolved.trainable,
        all_linear_params=choice.all_linear_parameters,
        target_counts=_target_counts(resolved.saved["target_modules"], plan),
        max_rank=plan.max_rank,
        coverage=resolved.coverage,
        layer_coverage=resolved.layer_coverage,
        training=learning_rate.advise(
            arguments.get("learning_rate"), run.manifest.lora, plan, options.keep_learning_rate
        ),
        evidence=tuple(evidence.statements(movement)),
        conflicts=literature.conflicts(options.goal),
        warnings=(
            *choice.warnings,
            *unreachable,
            *_left_out(model),
            *_coverage(resolved),
            *_unseen(run, plan),
            *_of_lora_run(run.manifest.lora),
            *evidence.warnings(movement),
        ),
        next_experiment=next_experiment(run, movement, plan, options),
        movement=movement,
    )


@contextmanager
def _collector_paused() -> Iterator[None]:
    """Thousands of modules are built and kept: each collection would walk all of them, a third of the time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _checked(
    run: Run, model: twin.Twin, options: policy.Options
) -> tuple[policy.Choice, dry_run.Resolved, tuple[str, ...]]:
    """Choose a plan and prove it; leave out what PEFT would redirect to stacked experts, and say so."""
    choice, resolved = _resolved(run, model, model.linear, options)
    redirected = choice.plan.names - resolved.ranks.keys()
    unreachable: tuple[str, ...] = ()
    if redirected and resolved.parameters:
        reachable = [module for module in model.linear if module.name not in redirected]
        leaves = ", ".join(sorted({name.rsplit(".", 1)[-1] for name in redirected}))
        unreachable = (
            f"PEFT redirects {leaves} on {model.model_type} to the routed experts, so {len(redirected)} linear modules "
            f"(the first: {min(redirected)}) cannot be adapted and are left out",
        )
        choice, resolved = _resolved(run, model, reachable, options)
    dry_run.check(choice.plan, resolved)
    if resolved.trainable != choice.parameters:
        raise AdviceError(
            f"PEFT counts {resolved.trainable} trainable parameters where the plan has {choice.parameters}: the config "
            "is not what was meant"
        )
    return choice, resolved, unreachable


def _resolved(
    run: Run, model: twin.Twin, linear: Any, options: policy.Options
) -> tuple[policy.Choice, dry_run.Resolved]:
    dropout = float((run.manifest.lora or {}).get("lora_dropout") or 0.0)
    choice = policy.choose(linear, options, dropout)
    names = (run.manifest.model.get("name"), run.manifest.model.get("revision"))
    config = peft_config(choice.plan, model.module_names, *names)
    return choice, dry_run.resolve(dry_run.saved_config(config), model)


def _verdict(movement: Movement, plan: Plan, choice: policy.Choice) -> str:
    spread = movement.spread("layer", "displacement")
    ratio = spread.max_over_min.value if spread is not None else math.nan
    what = f"uniform rank {plan.rank} on {len(plan.modules)} linear modules in all layers"
    if choice.gave_way:
        what += f" (budget: {'; '.join(choice.gave_way)})"
    if math.isnan(ratio):
        return f"{what}: movement says nothing against uniform"
    if evidence.is_flat(spread):
        return f"{what}: movement over layers is flat (largest/smallest {ratio:.2f}, below 3): keep uniform"
    shown = "infinite" if math.isinf(ratio) else f"{ratio:.2f}"
    return (
        f"{what}: movement over layers is uneven (largest/smallest {shown}), but movement is not contribution, and "
        "no study found that ranks allocated by a norm beat uniform under GRPO: still uniform until a test on this run "
        "says otherwise"
    )


def _left_out(model: twin.Twin) -> list[str]:
    reasons: dict[str, list[str]] = {}
    for name, why in model.left_out:
        reasons.setdefault(why, []).append(name)
    reasons.pop(twin.HEAD_REASON, None)
    return [f"{len(names)} modules left out, the first: {names[0]}: {why}" for why, names in reasons.items()]


def _coverage(resolved: dry_run.Resolved) -> list[str]:
    found = []
    if resolved.coverage < _LOW_COVERAGE:
        found.append(
            f"the adapter covers {100 * resolved.coverage:.0f} % of the blocks' weights; the rest are no linear "
            "modules (stacked experts, convolutions, state-space parameters), were given up, or are out of PEFT's reach"
        )
    bare = [layer for layer, share in resolved.layer_coverage.items() if share == 0]
    if bare:
        found.append(f"{len(bare)} of {len(resolved.layer_coverage)} layers get no adapter: {', '.join(bare[:8])}")
    return found


def _target_counts(targets: Iterable[str], plan: Plan) -> dict[str, int]:
    return {t: sum(name == t or name.endswith(f".{t}") for name in plan.names) for t in targets}


def _unseen(run: Run, plan: Plan) -> list[str]:
    """Name advised modules whose weight the trace does not hold; of none, the trace may be of another model."""
    recorded = {str(name).removesuffix(".weight") for name in run.tensors["tensor"].values}
    unseen = sorted(plan.names - recorded)
    if len(unseen) == len(plan.modules):
        return [
            f"none of the advised modules (the first: {unseen[0]}) is in the trace: its tensors have other names than "
            f"the recorded class {run.manifest.model.get('class')}, so their movement may be another model's"
        ]
    if unseen:
        return [f"of {len(unseen)} advised modules (the first: {unseen[0]}) the run recorded nothing"]
    return []


def _of_lora_run(lora: Mapping[str, Any] | None) -> list[str]:
    if not lora:
        return []
    found = ["a LoRA run shows only what its adapters could do: of modules without one it says nothing"]
    fixed = [key for key in ("rank_pattern", "alpha_pattern") if lora.get(key)]
    if fixed:
        found.append(
            f"the run's {' and '.join(fixed)} are not carried over: its alpha × learning rate is taken from r "
            "and lora_alpha"
        )
    if lora.get("modules_to_save"):
        found.append(f"the run also trained {lora['modules_to_save']} in full (modules_to_save); the advice does not")
    initial = lora.get("init_lora_weights")
    if isinstance(initial, str) and initial.startswith(("pissa", "olora", "corda", "mica")):
        found.append(
            f"the run started from {initial}; the advice starts from B = 0, as SVD-based starts collapse "
            "under RL (arXiv:2511.08567)"
        )
    return found
