"""The plan of an attribution: which states are evaluated, in which order, and what is read off them. No torch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from grpodyn.attribution import blocks, shapley, shares, verdict
from grpodyn.attribution.asking import Asker, Outcomes, OutOfEvaluations, Split
from grpodyn.attribution.confirming import checked
from grpodyn.attribution.parts import Part, beyond_adapters, check_tiling, layer_places, module_types
from grpodyn.attribution.shares import Pair, Partition
from grpodyn.attribution.simultaneous import Floats
from grpodyn.attribution.state import State
from grpodyn.attribution.verdict import Effect, Verdict
from grpodyn.statistics import Interval
from grpodyn.trace.schema import TensorInfo

LAYERS, MODULES = "layers", "modules"
_T = TypeVar("_T")
_EQUIVALENCE_LEVEL = 0.9
_CONFIRMED_PARTS = 4
_NOTABLE = 0.1
"""Share of the gain from which a part is a player of its own in the Shapley values."""


@dataclass(frozen=True)
class Options:
    """How much is asked."""

    level: float = 0.95
    """Joint confidence of each family of intervals."""
    ranks: tuple[int, ...] = (1, 2, 4, 8, 16)
    """Ranks to which every change is truncated; empty for none."""
    leading: int = 3
    """How many leading parts get Shapley values, beside all others taken as one; 0 for none."""
    orders: int = 20
    """Sampled orders where there are more than six players."""
    null_draws: int = 1
    """Draws of a change with the same singular values in random directions."""
    seed: int = 0
    sampled: bool = False
    """Whether outcomes come from samples rather than being exact probabilities."""


@dataclass(frozen=True)
class Truncation:
    """The trained weights with every change cut to a rank."""

    rank: int
    accuracy: Interval
    kept: Interval
    """Share of the gain."""


@dataclass(frozen=True)
class Player:
    """A part's Shapley value, as a share of the gain."""

    part: str
    share: Interval


@dataclass(frozen=True)
class ShapleyValues:
    """Shapley values of the leading parts; they add up to the whole gain."""

    players: tuple[Player, ...]
    exact: bool
    orders: int


@dataclass(frozen=True)
class Null:
    """A change of the same size that points in random directions."""

    what: str
    accuracy: Interval
    kept: Interval


@dataclass(frozen=True)
class Findings:
    """What an attribution found on the prompts of `choose`, and on those of `confirm` about the parts it named."""

    base: Interval
    final: Interval
    gain: Interval
    greedy: tuple[float, float]
    """Greedy accuracy of the base and of the trained weights; nan where it was not measured."""
    partitions: tuple[Partition, ...]
    verdicts: dict[str, Verdict]
    leading: str
    """The partition whose verdict says most."""
    truncation: tuple[Truncation, ...]
    shapley: ShapleyValues | None
    nulls: tuple[Null, ...]
    confirmed: Partition | None
    """The named parts (and all of them together) on prompts that took no part in naming them."""
    resolution: float
    """Half-width of the widest interval of a share of the gain: smaller differences cannot be seen."""
    evaluations: int
    notes: tuple[str, ...]

    @property
    def verdict(self) -> Verdict:
        """The verdict that says most."""
        return self.verdicts[self.leading]


@dataclass
class _Work:
    """What the stages share."""

    asker: Asker
    infos: Sequence[TensorInfo]
    options: Options
    base: Outcomes
    final: Outcomes
    beyond: list[Part]
    notes: list[str] = field(default_factory=list)

    @property
    def every(self) -> frozenset[str]:
        return frozenset(info.name for info in self.infos)

    def pair(self, part: Part, split: Split = "choose") -> Pair:
        kept = self.asker.ask(State(part.tensors), split)
        return Pair(kept, self.asker.ask(State(self.every - part.tensors), split))

    def affords(self, evaluations: int) -> bool:
        asker = self.asker
        return asker.most is None or asker.used + evaluations <= asker.most - asker.reserved

    def require(self, evaluations: int) -> None:
        """Check that a stage can be finished before anything is spent on it."""
        if not self.affords(evaluations):
            raise OutOfEvaluations

    def partition(self, name: str, pairs: dict[Part, Pair]) -> Partition:
        return shares.partition(name, pairs, self.base, self.final, self.options.level, self.options.sampled)


def planned_evaluations(infos: Sequence[TensorInfo], options: Options) -> int:
    """Return how many evaluations an attribution makes at most."""
    parts = len(module_types(infos)) + len(beyond_adapters(infos))
    players = options.leading + 1 if options.leading else 0
    # The leading parts, alone and put back, are among the tests of the parts; the others taken as one are not.
    coalitions = shapley.unknown(players, options.orders) if players else 0
    unions = 2 * len((LAYERS, MODULES))
    confirm = 2 + 2 * (_CONFIRMED_PARTS + 1)
    layers = blocks.planned_evaluations(*_layers_and_stacks(infos))
    return 2 + layers + 2 * parts + unions + coalitions + confirm + len(options.ranks) + 2 * options.null_draws


def _layers_and_stacks(infos: Sequence[TensorInfo]) -> tuple[int, int]:
    places = layer_places(infos)
    return len(places), max(1, len({stack for stack, _ in places}))


def investigate(asker: Asker, infos: Sequence[TensorInfo], options: Options, confirm: bool = True) -> Findings:
    """Ask what is needed and read it.

    Args:
        asker: answers states.
        infos: the tensors that the run changed.
        options: how much is asked.
        confirm: whether there are prompts of `confirm`.

    Raises:
        OutOfEvaluations: not even the base and the trained weights may be evaluated.
    """
    every = State(frozenset(info.name for info in infos))
    asker.reserved = 0
    work = _Work(asker, infos, options, asker.ask(State()), asker.ask(every), beyond_adapters(infos))
    whole = verdict.of_the_gain(*_gains(work))
    if whole is not None:
        return _nothing_to_attribute(work, whole)
    asker.reserved = _reserve(work) if confirm else 0
    pairs = _stage(work, "layers", lambda: _layers(work)), _stage(work, "module types", lambda: _modules(work))
    found = {name: made for name, made in zip((LAYERS, MODULES), pairs, strict=True) if made}
    partitions = {name: work.partition(name, made) for name, made in found.items()}
    verdicts = {name: _verdict(work, partition) for name, partition in partitions.items()}
    values = _stage(work, "Shapley values", lambda: _shapley(work, partitions)) if partitions else None
    if not verdicts:
        verdicts[LAYERS] = verdict.decide(*_gains(work), ())
    leading = _leading(partitions, verdicts)
    asker.reserved = 0
    named = _named(partitions.get(leading), verdicts[leading])
    confirmed = _stage(work, "confirmation", lambda: _confirm(work, named)) if confirm and named else None
    verdicts = {
        name: checked(found, confirmed if name == leading else None, work.notes) for name, found in verdicts.items()
    }
    named = _named(partitions.get(leading), verdicts[leading])
    truncation = _stage(work, "truncation", lambda: _truncation(work)) or ()
    nulls = _stage(work, "random directions", lambda: _nulls(work, named)) or ()
    base, final = shares.of_accuracies([work.base, work.final], options.level, options.sampled)
    return Findings(
        base=base,
        final=final,
        gain=_gains(work)[0],
        greedy=(work.base.greedy, work.final.greedy),
        partitions=tuple(partitions.values()),
        verdicts=verdicts,
        leading=leading,
        truncation=truncation,
        shapley=values,
        nulls=nulls,
        confirmed=confirmed,
        resolution=_resolution(list(partitions.values())),
        evaluations=asker.used,
        notes=tuple(work.notes),
    )


def _stage(work: _Work, name: str, make: Callable[[], _T]) -> _T | None:
    try:
        return make()
    except OutOfEvaluations:
        work.notes.append(f"{name}: left out, the allowance of {work.asker.most} evaluations was spent")
        return None


def _least(work: _Work) -> int:
    """Evaluations of the coarsest partition by layers."""
    return blocks.least_evaluations(*_layers_and_stacks(work.infos)) + 2 * len(work.beyond)


def _reserve(work: _Work) -> int:
    """Return how many evaluations are kept for fresh prompts: what the coarsest partition leaves, and no more."""
    most = work.asker.most
    if most is None:
        return 0
    left = most - work.asker.used - _least(work)
    return min(6, most // 4, left) if left >= 0 else min(6, most // 4)


def _layers(work: _Work) -> dict[Part, Pair]:
    work.require(_least(work))
    places = layer_places(work.infos)
    # First what does not give way to anything: the search then takes what is left, and the parts tile the change.
    beyond = {part: work.pair(part) for part in work.beyond}
    found: dict[Part, Pair] = {}
    if places:
        search = blocks.Search(work.infos, places, work.base, work.final, work.pair, work.affords)
        found = search.run()
        if search.unfinished:
            blocked = f"{search.unfinished} block{'s' * (search.unfinished > 1)} of layers that may hold something"
            work.notes.append(f"layers: {blocked} stayed whole, no evaluations were left to halve them")
    return _tiled(work, {**found, **beyond})


def _modules(work: _Work) -> dict[Part, Pair]:
    types = module_types(work.infos)
    known = all(work.asker.knows(State(part.tensors)) for part in work.beyond)
    work.require(2 * (len(types) + (0 if known else len(work.beyond))))
    return _tiled(work, {part: work.pair(part) for part in (*types, *work.beyond)})


def _tiled(work: _Work, pairs: dict[Part, Pair]) -> dict[Part, Pair]:
    check_tiling(list(pairs), work.every)
    return pairs


def effects(partition: Partition) -> list[Effect]:
    """Return what a verdict needs: of each part its share against everything else taken as one."""
    return [
        Effect(s.part.name, s.kept, s.lost, s.share, max(1, len(s.part.layers)), s.part.is_target)
        for s in partition.shares
    ]


def _verdict(work: _Work, partition: Partition) -> Verdict:
    found = effects(partition)
    names = verdict.to_measure(found)
    union = None
    if names:
        stage = f"what {verdict.listed(names)} hold together"
        part = together([s.part for s in partition.shares if s.part.name in names])
        measured = _stage(work, stage, lambda: work.partition(stage, {part: work.pair(part)}))
        union = effects(measured)[0] if measured is not None else None
    return verdict.decide(*_gains(work), found, union)


def _leading(partitions: dict[str, Partition], verdicts: dict[str, Verdict]) -> str:
    """Return the partition that says most; one of a single part tells nothing apart, and leads only where all do."""
    several = {
        name: found for name, found in verdicts.items() if name in partitions and len(partitions[name].shares) > 1
    }
    return verdict.overall(several or verdicts)


def _gains(work: _Work) -> tuple[Interval, Interval]:
    levels = (work.options.level, _EQUIVALENCE_LEVEL)
    gain, equivalence = (shares.gain(work.base, work.final, level, work.options.sampled) for level in levels)
    return gain, equivalence


def _nothing_to_attribute(work: _Work, whole: Verdict) -> Findings:
    """Return what is known when the whole change gains nothing: no part is tested then."""
    base, final = shares.of_accuracies([work.base, work.final], work.options.level)
    return Findings(
        base=base,
        final=final,
        gain=_gains(work)[0],
        greedy=(work.base.greedy, work.final.greedy),
        partitions=(),
        verdicts={LAYERS: whole},
        leading=LAYERS,
        truncation=(),
        shapley=None,
        nulls=(),
        confirmed=None,
        resolution=float("nan"),
        evaluations=work.asker.used,
        notes=("no part was tested, as there is no gain to be found in it",),
    )


def _shapley(work: _Work, partitions: dict[str, Partition]) -> ShapleyValues | None:
    partition = partitions.get(LAYERS) or next(iter(partitions.values()))
    ranked = sorted(partition.shares, key=lambda s: -max(abs(s.kept.value), abs(s.lost.value)))
    leads = [s.part for s in ranked[: work.options.leading] if max(abs(s.kept.value), abs(s.lost.value)) >= _NOTABLE]
    # With one lead and the others there is nothing that keep-only and put-back have not told.
    if len(leads) < 2:
        return None
    rest = work.every - frozenset(name for part in leads for name in part.tensors)
    players = [part.tensors for part in leads] + ([rest] if rest else [])
    names = [part.name for part in leads] + (["all others"] if rest else [])

    def worth(coalition: frozenset[int]) -> Floats:
        changed: frozenset[str] = frozenset().union(*(players[p] for p in coalition))
        return work.asker.ask(State(changed)).value

    options = work.options
    found = shapley.shapley(len(players), worth, options.level, options.orders, options.seed, options.sampled)
    shown = tuple(Player(name, share) for name, share in zip(names, found.shares, strict=True))
    return ShapleyValues(shown, found.exact, found.orders)


def _confirm(work: _Work, named: Sequence[Part]) -> Partition:
    base = work.asker.ask(State(), "confirm")
    final = work.asker.ask(State(work.every), "confirm")
    pairs = {part: work.pair(part, "confirm") for part in named}
    return shares.partition("confirm", pairs, base, final, work.options.level, work.options.sampled)


def _named(partition: Partition | None, found: Verdict) -> list[Part]:
    """Return the leading ones of the parts that a verdict names, and last the union of all of them."""
    if partition is None:
        return []
    by_name = {s.part.name: s.part for s in partition.shares}
    parts = [by_name[name] for name in found.parts]
    return [*parts[:_CONFIRMED_PARTS], together(parts)] if len(parts) > 1 else parts


def together(parts: Sequence[Part]) -> Part:
    """Return some parts as one."""
    return Part(
        name=" + ".join(part.name for part in parts),
        kind="rest" if len({part.kind for part in parts}) > 1 else parts[0].kind,
        tensors=frozenset(name for part in parts for name in part.tensors),
        layers=tuple(sorted(layer for part in parts for layer in part.layers)),
        stack=parts[0].stack,
        is_target=all(part.is_target for part in parts),
    )


def _truncation(work: _Work) -> tuple[Truncation, ...]:
    if not work.options.ranks:
        return ()
    measured: list[tuple[int, Outcomes]] = []
    try:
        for rank in work.options.ranks:
            measured.append((rank, work.asker.ask(State(work.every, rank=rank))))  # noqa: PERF401  # keeps what came before
    except OutOfEvaluations:
        if not measured:
            raise
        work.notes.append(f"truncation: stopped at rank {measured[-1][0]}, the allowance was spent")
    outcomes = [o for _, o in measured]
    accuracies = shares.of_accuracies(outcomes, work.options.level, work.options.sampled)
    kept = shares.of_gain(outcomes, work.base, work.final, work.options.level, work.options.sampled)
    return tuple(Truncation(rank, a, k) for (rank, _), a, k in zip(measured, accuracies, kept, strict=True))


def _nulls(work: _Work, named: Sequence[Part]) -> tuple[Null, ...]:
    states = [("the whole change", work.every)]
    if named:
        states.append((f"{named[-1].name} alone", named[-1].tensors))
    asked = [
        (what, work.asker.ask(State(tensors, random_seed=work.options.seed + draw)))
        for draw in range(work.options.null_draws)
        for what, tensors in states
    ]
    if not asked:
        return ()
    outcomes = [o for _, o in asked]
    accuracies = shares.of_accuracies(outcomes, work.options.level, work.options.sampled)
    kept = shares.of_gain(outcomes, work.base, work.final, work.options.level, work.options.sampled)
    return tuple(Null(what, a, k) for (what, _), a, k in zip(asked, accuracies, kept, strict=True))


def _resolution(partitions: Sequence[Partition]) -> float:
    widths = [(i.high - i.low) / 2 for p in partitions for s in p.shares for i in (s.kept, s.lost)]
    return max(widths, default=float("nan"))
