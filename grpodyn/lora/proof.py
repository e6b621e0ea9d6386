"""A choice of adapter, proven: PEFT resolves its config on the model's twin as planned, or the advice is refused."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from grpodyn.errors import AdviceError
from grpodyn.lora import dry_run
from grpodyn.lora.modules import LinearModule, Method, ModulePlan, Plan, peft_config
from grpodyn.lora.policy import Choice
from grpodyn.lora.twin import Twin

Choose = Callable[[Sequence[LinearModule]], Choice]


@dataclass(frozen=True)
class Proven:
    """A choice and what PEFT makes of it."""

    choice: Choice
    resolved: dry_run.Resolved
    reachable: tuple[LinearModule, ...]
    """Linear modules that PEFT can adapt one by one."""
    unreachable: tuple[str, ...]
    """What had to be left out, in words."""


def prove(model: Twin, choose: Choose, base: tuple[str | None, str | None], *, experts: bool = False) -> Proven:
    """Return a choice with its proof; leave out what PEFT would redirect to stacked experts, and say so.

    Args:
        model: the twin.
        choose: makes a choice among linear modules.
        base: name and revision of the base model, for the config.
        experts: whether stacks of experts may be adapted too.

    Raises:
        AdviceError: PEFT resolves the config differently from the plan.
        UsageError: no adapter fits the budget.
    """
    stacks = model.experts if experts else ()
    choice = choose((*model.linear, *stacks))
    resolved = _resolved(model, choice.plan, base)
    reachable = (*model.linear, *stacks)
    unreachable: tuple[str, ...] = ()
    redirected = choice.plan.names - resolved.ranks.keys() - resolved.parameters.keys()
    if redirected and resolved.parameters:
        leaves = {name.rsplit(".", 1)[-1] for name in redirected}
        # PEFT goes by the last part of the name, so that another plan would meet the same end.
        reachable = tuple(m for m in reachable if m.experts or m.leaf not in leaves)
        unreachable = (
            f"PEFT redirects {', '.join(sorted(leaves))} on {model.model_type} to the routed experts, so "
            f"{len(redirected)} linear modules (the first: {min(redirected)}) cannot be adapted and are left out",
        )
        choice = choose(reachable)
        resolved = _resolved(model, choice.plan, base)
    check(choice, resolved)
    return Proven(choice, resolved, reachable, unreachable)


def of_config(model: Twin, lora: Mapping[str, Any], all_linear: int, base: tuple[str | None, str | None]) -> Proven:
    """Return the proof of a config that was trained before: what PEFT makes of it is the plan.

    Raises:
        AdviceError: PEFT does not accept it, or adapts nothing.
    """
    named = {"peft_type": "LORA", "task_type": "CAUSAL_LM", "base_model_name_or_path": base[0], "revision": base[1]}
    resolved = dry_run.resolve(dry_run.saved_config({**named, **lora}), model)
    if not resolved.ranks:
        raise AdviceError(f"the adapter {dict(lora)} adapts no linear module of {model.model_type}")
    method: Method = "dora" if lora.get("use_dora") else "rslora" if lora.get("use_rslora") else "lora"
    modules = tuple(
        ModulePlan(name, rank, int(alpha), name in resolved.parameters)
        for name, (rank, alpha) in {**resolved.ranks, **resolved.parameters}.items()
    )
    plan = Plan(modules, method, float(lora.get("lora_dropout") or 0.0))
    return Proven(Choice(plan, resolved.trainable, all_linear, (), ()), resolved, model.linear, ())


def check(choice: Choice, resolved: dry_run.Resolved) -> None:
    """Raise unless PEFT gives the planned adapter and the planned number of parameters.

    Raises:
        AdviceError: with the differences.
    """
    dry_run.check(choice.plan, resolved)
    if resolved.trainable != choice.parameters:
        raise AdviceError(
            f"PEFT counts {resolved.trainable} trainable parameters where the plan has {choice.parameters}: the config "
            "is not what was meant"
        )


def saved(model: Twin, plan: Plan, base: tuple[str | None, str | None]) -> dict[str, Any]:
    """Return a plan's config as PEFT saves it."""
    return dry_run.saved_config(peft_config(plan, model.module_names, *base))


def _resolved(model: Twin, plan: Plan, base: tuple[str | None, str | None]) -> dry_run.Resolved:
    return dry_run.resolve(saved(model, plan, base), model)
