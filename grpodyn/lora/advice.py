"""From a recorded run to LoRA advice that PEFT resolves exactly as printed, on the highest rung of evidence."""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from grpodyn import registry
from grpodyn.lora import (
    evidence,
    learning_rate,
    limits,
    literature,
    placement,
    policy,
    proof,
    rungs,
    statements,
    twin,
    wording,
)
from grpodyn.lora.evidence import Evidence
from grpodyn.lora.experiments import Experiment, next_experiment
from grpodyn.lora.findings import Movement
from grpodyn.lora.learning_rate import LearningRate
from grpodyn.lora.literature import Conflict
from grpodyn.lora.modules import LinearModule, ModulePlan, Plan, uniform
from grpodyn.lora.proof import Proven
from grpodyn.lora.rungs import Ladder
from grpodyn.lora.savings import Savings, compare, measured
from grpodyn.trace import strict_json

if TYPE_CHECKING:
    from grpodyn.lora.stored import Stored
    from grpodyn.trace.reader import Run

_ABOUT_AS_MANY = 1.1
"""Parameters of a low rank everywhere over those of a place, up to which the one is offered instead of the other."""


@dataclass(frozen=True)
class Advice:
    """Which adapter to train next, what that rests on, and how sure it is."""

    verdict: str
    rung: int
    """1 movement, 2 patch test, 3 ablation: what the choice of modules rests on."""
    peft_config: Mapping[str, Any]
    """As PEFT saves it."""
    modules: tuple[ModulePlan, ...]
    where: str
    """Where the adapter sits, in words."""
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
    savings: Savings | None
    """Against all-linear at the same rank; None for all-linear itself, or where it cannot be counted."""
    evidence: tuple[Evidence, ...]
    smallest_difference: str
    """What the evidence could have shown at best."""
    conflicts: tuple[Conflict, ...]
    warnings: tuple[str, ...]
    next_experiment: Experiment
    movement: Movement

    def to_json(self) -> dict[str, Any]:
        """Return the advice as plain JSON values; nan and infinity become null."""
        return dict(strict_json.jsonable(asdict(self)))


def advise(run: Run, options: policy.Options, highest_rung: int = rungs.ABLATION) -> Advice:
    """Return checked advice for the run that follows `run`.

    Args:
        run: the recorded run; a patch test or an ablation that lies in its directory is used.
        options: what the caller asks for.
        highest_rung: evidence above this rung is not looked at.

    Raises:
        MissingDataError: the run does not hold the movement that advice rests on.
        SchemaError: a patch test or an ablation in the run's directory is damaged.
        UsageError: no adapter fits the budget.
        AdviceError: the model's twin cannot be built, or PEFT resolves the config differently from the plan.
    """
    movement: Movement = registry.analysis("lora_movement").run(run)
    ladder = rungs.of_run(run.path, highest_rung)
    with _collector_paused():
        model = twin.build(run.manifest.model)
        chosen = _Chooser(run, model, options, ladder).choose()
    plan, resolved = chosen.proven.choice.plan, chosen.proven.resolved
    return Advice(
        verdict=wording.verdict(movement, ladder, chosen.rung, chosen.where, chosen.proven.choice, chosen.placed),
        rung=chosen.rung,
        peft_config=resolved.saved,
        modules=plan.modules,
        where=chosen.where,
        trainable_params=resolved.trainable,
        all_linear_params=chosen.proven.choice.all_linear_parameters,
        target_counts=_target_counts(resolved.saved["target_modules"], plan),
        max_rank=plan.max_rank,
        coverage=resolved.coverage,
        layer_coverage=resolved.layer_coverage,
        training=_training(run, ladder, chosen, options),
        savings=chosen.savings,
        evidence=_evidence(movement, ladder),
        smallest_difference=statements.smallest_difference(ladder.patch, ladder.ablation),
        conflicts=literature.conflicts(options.goal, placed=chosen.placed),
        warnings=_warnings(run, movement, model, ladder, chosen, options),
        next_experiment=next_experiment(run, movement, plan, options, ladder, chosen.placed),
        movement=movement,
    )


@dataclass(frozen=True)
class _Chosen:
    """A proven choice, the rung that it rests on, and what it saves."""

    proven: Proven
    rung: int
    where: str
    placed: bool
    """Whether it leaves out layers or module types because of what was tested."""
    savings: Savings | None
    notes: tuple[str, ...] = ()


class _Chooser:
    """Finds the adapter: of the ablation if it fits, else by the patch test, else by movement."""

    def __init__(self, run: Run, model: twin.Twin, options: policy.Options, ladder: Ladder) -> None:
        self._model = model
        self._options = options
        self._ladder = ladder
        self._arguments: Mapping[str, Any] = run.manifest.arguments
        # PEFT drops nothing out on bare parameters, and refuses to be asked.
        self._dropout = 0.0 if options.experts else float((run.manifest.lora or {}).get("lora_dropout") or 0.0)
        self._base = (run.manifest.model.get("name"), run.manifest.model.get("revision"))

    def choose(self) -> _Chosen:
        """Return the choice of the highest rung that supports one within the budget."""
        trained, notes = self._trained()
        if trained is not None:
            return trained
        ablation = self._ladder.ablation
        if ablation is not None and ablation.verdict_kind == "refuted":
            # The patch test would lead back to the adapter that was refuted.
            why = f"the ablation of this run refuted {ablation.candidate}: parts are left out as on movement alone"
            return replace(self._by_movement(), notes=(*notes, why))
        found = self._by_movement() if self._ladder.patch is None else self._patched()
        return replace(found, notes=(*notes, *found.notes))

    def _by_movement(self) -> _Chosen:
        proven = self._prove(lambda linear: policy.choose(linear, self._options, self._dropout))
        where = placement.where(_modules(proven), proven.reachable)
        return _Chosen(proven, rungs.MOVEMENT, where, False, None)

    def _prove(self, choose: proof.Choose) -> Proven:
        return proof.prove(self._model, choose, self._base, experts=self._options.experts)

    def _trained(self) -> tuple[_Chosen | None, tuple[str, ...]]:
        """Return the adapter that an ablation supports, if the caller's wishes allow it."""
        arm = self._ladder.arm
        if arm is None or arm.lora is None:
            return None, ()
        rank = int(arm.lora.get("r") or policy.DEFAULT_RANK)
        everything = (*self._model.linear, *(self._model.experts if self._options.experts else ()))
        whole = sum(m.adapter_parameters(rank, self._options.method) for m in everything)
        proven = proof.of_config(self._model, arm.lora, whole, self._base)
        against = policy.objection(proven.choice.plan, proven.choice.parameters, whole, self._options)
        if against is not None:
            return None, (f"the ablation supports {arm.arm}, which {against}; the advice rests on what lies below it",)
        where = placement.where(_modules(proven), proven.reachable)
        placed = len(proven.choice.plan.modules) < len(proven.reachable)
        return _Chosen(proven, rungs.ABLATION, where, placed, self._savings(proven)), ()

    def _patched(self) -> _Chosen:
        stored, options = self._ladder.patch, self._options
        assert stored is not None  # noqa: S101  # `choose` has looked
        limited = options.max_params is not None or options.max_fraction is not None
        if limited and not stored.tells_parts_apart:
            why = f"the patch test ({stored.word}) tells no part from another: the limit is met as on movement alone"
            return replace(self._by_movement(), notes=(why,))
        proven = self._prove(lambda linear: placement.choose(linear, options, stored, self._dropout))
        # A lower rank everywhere met budgets better than a place in what was tested, which was gain, not retention.
        if not proven.choice.gave_way or options.goal == "retention":
            named = self._named_parts(proven)
            if named is not None:
                return named
        where = placement.where(_modules(proven), proven.reachable)
        placed = len(proven.choice.plan.modules) < len(proven.reachable)
        return _Chosen(proven, rungs.PATCH, where, placed, self._savings(proven) if placed else None)

    def _named_parts(self, everywhere: Proven) -> _Chosen | None:
        """Return an adapter on the named parts alone, if leaving out the others saves something worth having."""
        stored, options = self._ladder.patch, self._options
        assert stored is not None  # noqa: S101  # `_patched` has it
        if placement.named_only(everywhere.reachable, options, stored, self._dropout) is None:
            return None

        def named(linear: Sequence[LinearModule]) -> policy.Choice:
            found = placement.named_only(linear, options, stored, self._dropout)
            return found if found is not None else everywhere.choice

        proven = self._prove(named)
        savings = self._savings(proven)
        where = placement.where(_modules(proven), proven.reachable)
        if options.goal != "retention" and (savings is None or not savings.practical):
            where = placement.where(_modules(everywhere), everywhere.reachable)
            return _Chosen(everywhere, rungs.PATCH, where, False, savings)
        return _Chosen(proven, rungs.PATCH, where, True, savings)

    def _savings(self, proven: Proven) -> Savings | None:
        choice = proven.choice
        whole = uniform(proven.reachable, choice.plan.rank, policy.ALPHA, choice.plan.method, choice.plan.dropout)
        if choice.plan.names == whole.names:
            return None
        config = proof.saved(self._model, whole, self._base)
        sizes = (choice.parameters, choice.all_linear_parameters)
        found = compare(self._model, proven.resolved.saved, config, sizes, self._arguments)
        ablation = self._ladder.ablation
        trained = measured(ablation) if ablation is not None else ()
        return replace(found, items=(*trained, *found.items)) if found is not None else None


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


def _modules(proven: Proven) -> list[LinearModule]:
    names = proven.choice.plan.names
    return [module for module in proven.reachable if module.name in names]


def _training(run: Run, ladder: Ladder, chosen: _Chosen, options: policy.Options) -> LearningRate:
    recorded = run.manifest.arguments.get("learning_rate")
    plan = chosen.proven.choice.plan
    if chosen.rung == rungs.ABLATION and ladder.arm is not None and not options.keep_learning_rate:
        best = ladder.arm.learning_rate
        tried = ", ".join(f"{float(rate):g}" for rate in sorted(ladder.arm.rates_tried, key=float))
        return LearningRate(best, best, best, f"the best of the rates that the ablation tried ({tried})")
    return learning_rate.advise(recorded, run.manifest.lora, plan, options.keep_learning_rate)


def _evidence(movement: Movement, ladder: Ladder) -> tuple[Evidence, ...]:
    found: list[Evidence] = []
    if ladder.ablation is not None:
        found += statements.of_ablation(ladder.ablation, ladder.arm)
    if ladder.patch is not None:
        found += statements.of_patch_test(ladder.patch)
    return (*found, *evidence.statements(movement))


def _warnings(
    run: Run, movement: Movement, model: twin.Twin, ladder: Ladder, chosen: _Chosen, options: policy.Options
) -> tuple[str, ...]:
    plan = chosen.proven.choice.plan
    choice = chosen.proven.choice
    return (
        *chosen.notes,
        *choice.warnings,
        *chosen.proven.unreachable,
        *limits.left_out(model),
        *limits.coverage(chosen.proven.resolved, by_choice=chosen.placed),
        *limits.unseen(run, plan),
        *(
            limits.of_patch_test(ladder.patch, plan, _everywhere_instead(ladder.patch, chosen, options))
            if ladder.patch is not None
            else ()
        ),
        *limits.of_lora_run(run.manifest.lora),
        *evidence.warnings(movement),
    )


def _everywhere_instead(stored: Stored, chosen: _Chosen, options: policy.Options) -> int | None:
    """Return the size of all linear modules at the highest lower rank that costs about what an advised place does."""
    if not chosen.placed or chosen.rung != rungs.PATCH:
        return None
    choice = chosen.proven.choice
    lower = [rank for rank in placement.ranks(options, stored) if rank < choice.plan.rank]
    sizes = [rank * choice.all_linear_parameters // choice.plan.rank for rank in lower]
    return max((size for size in sizes if size <= _ABOUT_AS_MANY * choice.parameters), default=None)


def _target_counts(targets: Iterable[str] | str, plan: Plan) -> dict[str, int]:
    named = [targets] if isinstance(targets, str) else targets
    return {t: sum(name == t or name.endswith(f".{t}") for name in plan.names) for t in named}
