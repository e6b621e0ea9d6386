"""Which adapter to advise on movement alone (rung 1): uniform over all linear modules, less where a budget forces it.

Movement does not say what matters, so it never moves rank from one part to another here. A budget takes, in this order:
rank 16 → 8 → 4, the last with a warning, then q and k. Layers are never left out on this rung.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from grpodyn.errors import UsageError
from grpodyn.lora.modules import FUSED_ATTENTION, QUERY_AND_KEY, LinearModule, Method, Plan, uniform

DEFAULT_RANK = 16
REDUCED_RANK = 8
LAST_RANK = 4
ALPHA = 32
Goal = Literal["gain", "retention"]


@dataclass(frozen=True)
class Options:
    """What the caller asks for."""

    rank: int | None = None
    goal: Goal | None = None
    max_params: int | None = None
    max_fraction: float | None = None
    """Of all-linear at the same rank as the advice."""
    method: Method = "lora"
    rank_ladder: tuple[int, ...] = ()
    """Ranks that the server allows; empty allows all."""
    keep_learning_rate: bool = False
    experts: bool = False
    """Whether stacks of experts get an adapter too."""

    def __post_init__(self) -> None:
        if self.rank is not None and self.rank < 1:
            raise UsageError(f"--rank {self.rank}: a rank is at least 1")
        if self.max_params is not None and self.max_params < 1:
            raise UsageError(f"--max-params {self.max_params}: a budget is at least 1 parameter")
        if self.max_fraction is not None and not 0 < self.max_fraction <= 1:
            raise UsageError(f"--max-fraction {self.max_fraction}: expected a fraction of all-linear in (0, 1]")
        if self.experts and self.method == "dora":
            raise UsageError("--experts --method dora: PEFT has no DoRA for stacked experts; use lora or rslora")
        if any(rank < 1 for rank in self.rank_ladder):
            raise UsageError(f"--rank-ladder {self.rank_ladder}: ranks are at least 1")
        if self.rank is not None and self.rank_ladder and self.rank not in self.rank_ladder:
            allowed = ", ".join(map(str, sorted(self.rank_ladder)))
            raise UsageError(f"--rank {self.rank} is not on the server's ladder ({allowed}); give one of these")


@dataclass(frozen=True)
class Choice:
    """The plan, and what had to give way for it."""

    plan: Plan
    parameters: int
    all_linear_parameters: int
    """All linear modules at the plan's rank."""
    gave_way: tuple[str, ...]
    warnings: tuple[str, ...]


@dataclass(frozen=True)
class Candidate:
    """An adapter on a policy's path: less and less of one."""

    rank: int
    modules: tuple[LinearModule, ...]
    gave_way: tuple[str, ...]


def choose(linear: Sequence[LinearModule], options: Options, dropout: float = 0.0) -> Choice:
    """Return the first adapter on the policy's path that fits the budget.

    Raises:
        UsageError: nothing on the path fits; states the smallest that is possible.
    """
    return choice_of(first_that_fits(_path(linear, options), linear, options), linear, options, dropout)


def first_that_fits(path: Sequence[Candidate], linear: Sequence[LinearModule], options: Options) -> Candidate:
    """Return the first adapter of a path that fits the budget.

    Raises:
        UsageError: nothing on the path fits; states the smallest that is possible.
    """
    for candidate in path:
        if fits(candidate, linear, options):
            return candidate
    raise UsageError(_too_large(path, linear, options))


def choice_of(candidate: Candidate, linear: Sequence[LinearModule], options: Options, dropout: float = 0.0) -> Choice:
    """Return an adapter as a plan, with its size and what is to be said about it."""
    parameters, whole = _sizes(candidate, linear, options.method)
    plan = uniform(candidate.modules, candidate.rank, ALPHA, options.method, dropout)
    return Choice(plan, parameters, whole, candidate.gave_way, _warnings(candidate, options))


def _path(linear: Sequence[LinearModule], options: Options) -> list[Candidate]:
    """Adapters in the order in which a shrinking budget reaches them."""
    everything = tuple(linear)
    fewer = tuple(module for module in linear if module.leaf not in QUERY_AND_KEY)
    dropped = tuple(sorted({module.leaf for module in linear if module.leaf in QUERY_AND_KEY}))
    ranks = _ranks(options)

    def lower(rank: int) -> tuple[str, ...]:
        return () if rank == ranks[0] else (f"rank {ranks[0]} → {rank}",)

    path = [Candidate(rank, everything, lower(rank)) for rank in ranks]
    if not dropped or not fewer:
        return path
    # A lower rank lowers all-linear at that rank alike, so under a fraction only leaving modules out helps.
    left_out = f"{' and '.join(dropped)} left out"
    return path + [Candidate(rank, fewer, (*lower(rank), left_out)) for rank in ranks]


def _ranks(options: Options) -> list[int]:
    """Ranks of the path, the preferred first."""
    if options.rank is not None:
        return [options.rank]
    if not options.rank_ladder:
        return [DEFAULT_RANK, REDUCED_RANK, LAST_RANK]
    return on_ladder(options.rank_ladder, LAST_RANK)


def on_ladder(ladder: Sequence[int], least: int) -> list[int]:
    """Return the ranks of a server's ladder that a policy tries, the preferred first.

    It starts at the highest step up to 16, or at the next one above if that is below what is needed, and goes down to
    rank 4. A ladder that ends below what is needed gives its highest step.

    Args:
        ladder: the ranks that the server allows.
        least: the rank that is needed, for the first one.

    >>> on_ladder((8, 16, 32), 4), on_ladder((8, 32, 64), 16), on_ladder((1, 2), 4)
    ([16, 8], [32, 8], [2])
    """
    steps = sorted(set(ladder), reverse=True)
    usual = [step for step in steps if step <= DEFAULT_RANK]
    if usual and usual[0] >= least:
        first = usual[0]
    else:
        first = min((step for step in steps if step >= least), default=steps[0])
    return [first, *(step for step in usual if LAST_RANK <= step < first)]


def _sizes(candidate: Candidate, linear: Sequence[LinearModule], method: Method) -> tuple[int, int]:
    def size(modules: Sequence[LinearModule]) -> int:
        return sum(module.adapter_parameters(candidate.rank, method) for module in modules)

    return size(candidate.modules), size(linear)


def fits(candidate: Candidate, linear: Sequence[LinearModule], options: Options) -> bool:
    """Return whether an adapter is within the budget."""
    parameters, whole = _sizes(candidate, linear, options.method)
    return (options.max_params is None or parameters <= options.max_params) and (
        options.max_fraction is None or parameters <= options.max_fraction * whole
    )


def objection(plan: Plan, parameters: int, whole: int, options: Options) -> str | None:
    """Return why an adapter that was trained before is not what the caller asks for; None if it is."""
    ranks = {module.rank for module in plan.modules}
    if options.max_params is not None and parameters > options.max_params:
        return f"has {parameters} parameters, more than --max-params {options.max_params}"
    if options.max_fraction is not None and parameters > options.max_fraction * whole:
        share = parameters / whole
        return f"has {share:.2f} of all-linear's parameters, more than --max-fraction {options.max_fraction:g}"
    if options.rank is not None and ranks != {options.rank}:
        return f"has rank {max(ranks)}, not the --rank {options.rank} asked for"
    if options.rank_ladder and not ranks <= set(options.rank_ladder):
        return f"has ranks {sorted(ranks)}, not all on the server's ladder"
    if plan.method != options.method:
        return f"is of the method {plan.method}, not {options.method}"
    return None


def _why_low(rank: int, options: Options) -> str:
    if options.rank is not None:
        return "was asked for"
    if options.rank_ladder and rank == _ranks(options)[0]:
        return "is what the server's ladder leaves"
    return "is what the budget leaves"


def _warnings(candidate: Candidate, options: Options) -> tuple[str, ...]:
    found: list[str] = []
    if candidate.rank < REDUCED_RANK:
        found.append(
            f"rank {candidate.rank} {_why_low(candidate.rank, options)}: studies disagree on whether a rank below 8 "
            "limits the gain; compare it with rank 8 before relying on it"
        )
    tight = [m for m in candidate.modules if candidate.rank > min(m.in_features, m.out_features)]
    if tight:
        found.append(
            f"rank {candidate.rank} exceeds the smaller side of {len(tight)} modules, the first: {tight[0].name} "
            f"({tight[0].out_features} × {tight[0].in_features}); more than the weight itself can use"
        )
    if (options.max_params or options.max_fraction) and any(m.leaf in FUSED_ATTENTION for m in candidate.modules):
        found.append("q and k are fused with v in one module here, so a budget cannot leave them out")
    if options.rank_ladder and options.rank is None and candidate.rank > DEFAULT_RANK:
        found.append(f"rank {candidate.rank} is the server's step above the usual rank {DEFAULT_RANK}")
    return tuple(found)


def _too_large(path: Sequence[Candidate], linear: Sequence[LinearModule], options: Options) -> str:
    asked = [f"--max-params {options.max_params}"] if options.max_params is not None else []
    asked += [f"--max-fraction {options.max_fraction:g}"] if options.max_fraction is not None else []
    sizes = [(*_sizes(candidate, linear, options.method), candidate) for candidate in path]
    parameters, _, smallest = min(sizes, key=lambda size: size[0])
    fraction = min(size / whole for size, whole, _ in sizes)
    what = (
        ", ".join((f"rank {smallest.rank}", *smallest.gave_way[-1:])) if smallest.gave_way else f"rank {smallest.rank}"
    )
    message = (
        f"no adapter that the evidence supports fits {' and '.join(asked)}: the smallest possible has {parameters} "
        f"parameters ({what}), the smallest fraction of all-linear at the same rank is {fraction:.3f}. "
    )
    if options.max_fraction is not None and options.max_fraction < fraction:
        return message + (
            "To lower the rank instead, give --max-params; leaving out layers or more module types needs the evidence "
            "of a patch test or an ablation"
        )
    if options.rank is not None:
        return message + "Leave out --rank so that the rank may go down, or raise the budget"
    return message + "Raise the budget"
