"""The plan of an attribution: which states are evaluated, in which order, and what is read off them. No torch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from grpodyn.attribution import blocks, shapley, shares, verdict
from grpodyn.attribution.asking import Asker, Outcomes, OutOfEvaluations, Split
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


def planned_evaluations(infos: Sequence[TensorInfo], options: Options) -> int:
    """Return how many evaluations an attribution makes at most."""
    parts = len(module_types(infos)) + len(beyond_adapters(infos))
    players = options.leading + 1 if options.leading else 0
    # Coalitions of none, one, all but one and all players are among the tests of the parts.
    coalitions = max(0, shapley.evaluations(players, options.orders) - 2 * players - 2) if players else 0
    confirm = 2 + 2 * (_CONFIRMED_PARTS + 1)
    layers = blocks.planned_evaluations(len(layer_places(infos)))
    return 2 + layers + 2 * parts + coalitions + confirm + len(options.ranks) + 2 * options.null_draws


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
    asker.reserved = min(6, asker.most // 4) if asker.most is not None and confirm else 0
    pairs = _stage(work, "layers", lambda: _layers(work)), _stage(work, "module types", lambda: _modules(work))
    found = {name: made for name, made in zip((LAYERS, MODULES), pairs, strict=True) if made}
    level = options.level
    partitions = {name: shares.partition(name, made, work.base, work.final, level) for name, made in found.items()}
    values = _stage(work, "Shapley values", lambda: _shapley(work, partitions)) if partitions else None
    verdicts = {name: _verdict(work, partition, values) for name, partition in partitions.items()}
    if not verdicts:
        verdicts[LAYERS] = _verdict(work, None, None)
    leading = verdict.overall(verdicts)
    asker.reserved = 0
    confirmed = None
    if confirm:
        confirmed = _stage(work, "confirmation", lambda: _confirm(work, partitions, verdicts))
        verdicts[leading] = checked(verdicts[leading], confirmed, work.notes)
    truncation = _stage(work, "truncation", lambda: _truncation(work)) or ()
    nulls = _stage(work, "random directions", lambda: _nulls(work, partitions, verdicts)) or ()
    base, final = shares.of_accuracies([work.base, work.final], level)
    return Findings(
        base=base,
        final=final,
        gain=shares.gain(work.base, work.final, level),
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


def _layers(work: _Work) -> dict[Part, Pair]:
    places = layer_places(work.infos)
    found: dict[Part, Pair] = {}
    if places:
        found = blocks.Search(work.infos, places, work.base, work.final, work.pair, work.affords).run()
    return _tiled(work, {**found, **{part: work.pair(part) for part in work.beyond}})


def _modules(work: _Work) -> dict[Part, Pair]:
    return _tiled(work, {part: work.pair(part) for part in (*module_types(work.infos), *work.beyond)})


def _tiled(work: _Work, pairs: dict[Part, Pair]) -> dict[Part, Pair]:
    check_tiling(list(pairs), work.every)
    return pairs


def effects(partition: Partition, values: ShapleyValues | None) -> list[Effect]:
    """Return what a verdict needs; a part's Shapley value among several players takes the place of that among two."""
    known = {player.part: player.share for player in values.players} if values is not None else {}
    return [Effect(s.part.name, s.kept, s.lost, known.get(s.part.name, s.share)) for s in partition.shares]


def _verdict(work: _Work, partition: Partition | None, values: ShapleyValues | None) -> Verdict:
    return verdict.decide(*_gains(work), effects(partition, values) if partition is not None else ())


def _gains(work: _Work) -> tuple[Interval, Interval]:
    levels = (work.options.level, _EQUIVALENCE_LEVEL)
    gain, equivalence = (shares.gain(work.base, work.final, level) for level in levels)
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
    found = shapley.shapley(len(players), worth, options.level, options.orders, options.seed)
    shown = tuple(Player(name, share) for name, share in zip(names, found.shares, strict=True))
    return ShapleyValues(shown, found.exact, found.orders)


def _confirm(work: _Work, partitions: dict[str, Partition], verdicts: dict[str, Verdict]) -> Partition | None:
    named = _named(partitions, verdicts)
    if not named:
        return None
    base = work.asker.ask(State(), "confirm")
    final = work.asker.ask(State(work.every), "confirm")
    return shares.partition(
        "confirm", {part: work.pair(part, "confirm") for part in named}, base, final, work.options.level
    )


def _named(partitions: dict[str, Partition], verdicts: dict[str, Verdict]) -> list[Part]:
    """Return the parts that the verdict which says most names, and their union."""
    if not partitions:
        return []
    leading = verdict.overall(verdicts)
    by_name = {s.part.name: s.part for s in partitions[leading].shares}
    parts = [by_name[name] for name in verdicts[leading].parts][:_CONFIRMED_PARTS]
    return [*parts, together(parts)] if len(parts) > 1 else parts


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


def checked(found: Verdict, confirmed: Partition | None, notes: list[str]) -> Verdict:
    """Return the verdict, or `too noisy` if fresh prompts do not show it again."""
    if confirmed is None or not confirmed.shares:
        return found
    single = [s for s in confirmed.shares if s.part.name in found.parts]
    whole = confirmed.shares[-1]
    holds = {
        "localised": whole.share.low > verdict.SURELY,
        "redundant": all(s.kept.low > verdict.SURELY for s in single),
        "joint": all(s.lost.low > verdict.SURELY for s in single),
        "harmful": all(s.lost.value < 0 for s in single) and min(s.lost.high for s in single) < 0,
    }.get(found.word, True)
    if holds:
        return found
    notes.append(f"on the prompts of `choose` the verdict was {found.word} ({found.text}); on those of `confirm` not")
    return Verdict("too noisy", (), "what the prompts of `choose` name does not show again on those of `confirm`")


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
    accuracies = shares.of_accuracies(outcomes, work.options.level)
    kept = shares.of_gain(outcomes, work.base, work.final, work.options.level)
    return tuple(Truncation(rank, a, k) for (rank, _), a, k in zip(measured, accuracies, kept, strict=True))


def _nulls(work: _Work, partitions: dict[str, Partition], verdicts: dict[str, Verdict]) -> tuple[Null, ...]:
    states = [("the whole change", work.every)]
    named = _named(partitions, verdicts)
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
    accuracies = shares.of_accuracies(outcomes, work.options.level)
    kept = shares.of_gain(outcomes, work.base, work.final, work.options.level)
    return tuple(Null(what, a, k) for (what, _), a, k in zip(asked, accuracies, kept, strict=True))


def _resolution(partitions: Sequence[Partition]) -> float:
    widths = [(i.high - i.low) / 2 for p in partitions for s in p.shares for i in (s.kept, s.lost)]
    return max(widths, default=float("nan"))
