"""What a recorder says when it starts: the manifest, what it leaves out and why, and one line for people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from grpodyn.config.record import RecordConfig
from grpodyn.naming.adapters import Unmeasured
from grpodyn.naming.inventory import Inventory
from grpodyn.probe import COUNTS, OF_WINDOW, Need
from grpodyn.recording import facts
from grpodyn.recording.candidates import STEP, WEIGHTS, has_vectors
from grpodyn.recording.gradient_moments import SAMPLED
from grpodyn.recording.measurement import Measurement
from grpodyn.recording.plan import Plan, describe_cadence
from grpodyn.recording.reference import Reference
from grpodyn.recording.rollouts import RolloutHooks
from grpodyn.recording.tracked import unknown_updates

_SHOWN = 3


@dataclass(frozen=True)
class Start:
    """What training begins with."""

    model: nn.Module
    trainer: Any
    """None where there is none, or it cannot be found."""
    optimizer: Any
    args: Any
    """The trainer's arguments; None for a loop of one's own."""
    step: int
    """Steps done before."""
    last: int | None
    """The last step, where it is known."""
    append: bool = False
    """Whether the run in the directory goes on although training starts over from step 0."""
    tokenizer: Any = None
    """None where there is none, or it is not told."""


def left_out(
    plan: Plan, inventory: Inventory, measurement: Measurement, reference: Reference, hooks: RolloutHooks
) -> list[Unmeasured]:
    """Return everything that is not recorded, and why."""
    out = [*inventory.unmeasured, *reference.unmeasured, *unknown_updates(measurement.previous, inventory)]
    if measurement.intended.unavailable is not None:
        names = [name for name, probe in plan.probes.items() if Need.INTENDED_STEP in probe.needs]
        out += [Unmeasured(name, measurement.intended.unavailable) for name in names]
    out += _of_adapted(plan, inventory)
    matrices = [i for i, entry in enumerate(inventory.stored) if plan.has_spectrum(entry.info)]
    shares = [inventory.stored[i].share for i in matrices]
    unplaced = sum(share is not None and share.box is None for share in shares)
    if unplaced:
        why = "their matrices are split among ranks in a way that is not put together here"
        out.append(Unmeasured(f"spectra of {unplaced} tensors", why))
    sampled = sum(not measurement.tracked.has_previous(i) for i in matrices)
    if sampled and STEP in plan.subjects():
        why = "only sampled rows of the weights before a step fit into record.copy_limit; raise it"
        out.append(Unmeasured(f"spectra of the updates of {sampled} tensors", why))
    if WEIGHTS in plan.subjects():
        large = sum(plan.has_spectrum(info) and not has_vectors(plan, info) for info in inventory.infos)
        if large:
            limit = f"record.decomposition_limit ({plan.config.decomposition_limit})"
            out.append(Unmeasured(f"singular vectors of {large} matrices", f"their sides exceed {limit}"))
    if hooks.source is None and hooks.expected:
        out.append(
            Unmeasured("rollouts", "the trainer does not score completions (TRL's GRPOTrainer does), or was not found")
        )
    if hooks.unwrapped:
        why = "reward models and asynchronous functions cannot be seen with this version of TRL"
        out.append(Unmeasured(f"rewards of {', '.join(hooks.unwrapped)}", why))
    by_kind = Counter(
        info.kind
        for info in inventory.infos
        if info.source != "factor" and info.cols > 1 and not plan.has_spectrum(info)
    )
    for kind, count in sorted(by_kind.items()):
        opt_in = kind in ("embedding", "head")
        why = (
            "opt-in: record.spectra_embeddings"
            if opt_in
            else f"tensors of kind {kind} are no single matrix of a linear map"
        )
        if plan.spectral_probes:
            out.append(Unmeasured(f"spectra of {count} {kind} tensors", why))
    return out


def _of_adapted(plan: Plan, inventory: Inventory) -> list[Unmeasured]:
    """Return what is not recorded of weights under adapters."""
    out: list[Unmeasured] = []
    adapted = len(inventory.effective)
    if adapted and plan.needs() & COUNTS:
        why = "they are never formed as dense matrices; their factors have changed fractions of their own"
        out.append(Unmeasured(f"changed fractions of {adapted} effective updates", why))
    dense = sum(entry.is_dense for entry in inventory.effective)
    if dense:
        why = "it is a matrix of full rank, which is formed where spectra are due and nowhere else"
        out.append(Unmeasured(f"effective update of {dense} weights under DoRA between spectral sweeps", why))
    stacks = sum(entry.info.matrices > 1 for entry in inventory.effective)
    if stacks and WEIGHTS in plan.subjects():
        out.append(Unmeasured(f"singular vectors of {stacks} adapted stacks", "stacks are never formed dense"))
    if adapted and plan.needs() & {Need.GRADIENT, *OF_WINDOW}:
        why = "the gradient of an adapted weight is never computed; its factors have their own"
        out.append(Unmeasured(f"gradient of {adapted} adapted weights", why))
    return out


def manifest_fields(start: Start, inventory: Inventory, reference: Reference, *, resumed: bool) -> dict[str, Any]:
    """Return the manifest's fields about model, trainer, data and machine. A resumed run keeps its first W_0."""
    device = next((entry.parameter.device for entry in inventory.stored), torch.device("cpu"))
    sharded = any(entry.share is not None for entry in inventory.stored)
    sharded = sharded or any("sharded" in entry.why for entry in inventory.unmeasured)
    fields = {
        "model": facts.about_model(start.model),
        "trainer": facts.about_trainer(start.trainer, start.args),
        "lora": facts.about_lora(start.model),
        "rewards": facts.about_rewards(start.trainer),
        "dataset": facts.about_dataset(start.trainer),
        "world": facts.about_world(sharded),
        "environment": facts.about_environment(device),
    }
    return fields if resumed else {**fields, "reference": reference.facts}


def recorder_facts(
    config: RecordConfig, plan: Plan, measurement: Measurement, inventory: Inventory, hooks: RolloutHooks
) -> dict[str, Any]:
    """Return what the manifest says about the recorder itself."""
    previous = measurement.previous
    sampled = (
        {entry.info.name: previous.method(i) for i, entry in enumerate(inventory.stored) if previous.is_sampled(i)}
        if previous is not None
        else {}
    )
    of_step = (
        f"from {len(sampled)} sampled tensors, the others from whole copies" if sampled else "from a copy of W_{t-1}"
    )
    methods = {
        name: measurement.intended.method if Need.INTENDED_STEP in probe.needs else of_step
        for name, probe in plan.probes.items()
        if probe.needs & {Need.STEP, Need.INTENDED_STEP, Need.CHANGED_BY_STEP}
    }
    windowed = f"over the steps since the last value, from {SAMPLED} sampled elements of each larger tensor"
    methods |= {name: windowed for name, probe in plan.probes.items() if probe.needs & OF_WINDOW}
    return {
        "preset": config.preset,
        "config": config.model_dump(mode="json"),
        "probes": sorted(plan.probes),
        "cadence": {name: config.cadence(probe) for name, probe in plan.probes.items()},
        "method": methods,
        "sampled": sampled,
        "rollouts": hooks.source,
    }


_WHAT_IS_RECORDED = ("preset", "config", "probes", "cadence")


def records_as_before(before: Mapping[str, Any], now: Mapping[str, Any]) -> bool:
    """Return whether a recorder's facts say that it records what it recorded before the run was gone on with."""
    return bool(before) and all(before.get(key) == now.get(key) for key in _WHAT_IS_RECORDED)


def announcement(
    run_dir: str,
    plan: Plan,
    inventory: Inventory,
    reference: Reference,
    skipped: Sequence[Unmeasured],
    cost: str,
    *,
    as_before: bool = False,
) -> str:
    """Return the line that says what is recorded, what is not and why, and what it costs.

    Args:
        run_dir: where.
        plan: what is measured, and when.
        inventory: of the tensors.
        reference: where W_0 comes from.
        skipped: what is not recorded.
        cost: a sentence.
        as_before: whether the run goes on, and the same was recorded before: what was said then is not said again.
    """
    rows = len(inventory.infos)
    if as_before:
        return f"recording on into {run_dir} as before: preset {plan.config.preset}, {rows} tensors. {cost}"
    left = "; ".join(f"{entry.what} ({entry.why})" for entry in skipped[:_SHOWN])
    more = f"; and {len(skipped) - _SHOWN} more, see run.json" if len(skipped) > _SHOWN else ""
    return (
        f"recording into {run_dir}, preset {plan.config.preset}: {rows} tensors; {describe_cadence(plan)}; W_0 from "
        f"{reference.facts.get('source', 'none')}. Not recorded: {left + more or 'nothing'}. {cost}"
    )
