"""What a patch test says for advice: which layers and types hold this run's change, and in how few directions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from grpodyn.attribution.result import FILE, Attribution, PartResult, read
from grpodyn.attribution.state import ROUNDED
from grpodyn.lora.modules import LinearModule, layer_of

KEEPS = 0.9
"""A rank keeps the gain if this share of it is left …"""
SURELY_KEEPS = 0.8
"""… and its interval stays above this one."""
LEAST_RANK = 4
"""No truncation supports a smaller rank: trained adapters need more directions than a finished change shows."""


@dataclass(frozen=True)
class Held:
    """How much of the gain one layer or one module type holds, by the patch test; shares of the gain."""

    share: float
    """Half of kept alone + lost without; of a block of layers, an equal part of it for each."""
    gives_way: bool
    """Whether what is lost without it may be nothing."""


@dataclass(frozen=True)
class Stored:
    """A patch test, as advice uses it."""

    found: Attribution
    layers: Mapping[str, Held]
    """By the layer's name, such as `model.layers.3`."""
    types: Mapping[str, Held]
    """By the module type's leaf name."""
    rank_floor: int | None
    """The smallest rank that keeps the gain, never below 4; None where no truncation was made, or rounding undid it."""

    @property
    def word(self) -> str:
        """The verdict."""
        return self.found.verdict

    @property
    def by_types(self) -> bool:
        """Whether the verdict is about module types rather than layers."""
        return self.found.leading != "layers"

    @property
    def tells_parts_apart(self) -> bool:
        """Whether some parts can be said to hold less than others; without a gain none can."""
        nothing = self.word in ("flat", "too noisy") or (self.word == "harmful" and not self.found.reading.parts)
        return bool(self.layers or self.types) and not nothing

    @property
    def rest(self) -> Held:
        """What the linear modules do not hold, experts among it."""
        parts = [part for part in self.found.layers if part.part == "rest"]
        return Held(parts[0].share.value, _gives_way(parts[0])) if parts else Held(0.0, True)

    def named(self, modules: Iterable[LinearModule]) -> list[LinearModule]:
        """Return the modules in the parts that the verdict names; none where LoRA does not reach them."""
        parts = self._named_parts()
        return [module for module in modules if any(_is_in(module, part) for part in parts)]

    @property
    def out_of_reach(self) -> tuple[PartResult, ...]:
        """Named parts that are no LoRA target."""
        return tuple(part for part in self._named_parts() if not part.is_target)

    def held(self, module: LinearModule) -> tuple[float, float]:
        """Return (share of its layer, share of its type) of a module; 0 where nothing was changed."""
        layer, kind = self.layers.get(layer_of(module.name) or ""), self.types.get(module.leaf)
        return (layer.share if layer else 0.0), (kind.share if kind else 0.0)

    def _named_parts(self) -> Sequence[PartResult]:
        names = set(self.found.reading.parts)
        return [part for part in self.found.of_partition(self.found.leading) if part.part in names]


def of_run(run_dir: Path) -> Stored | None:
    """Return the patch test that a run directory holds, if there is one.

    Raises:
        SchemaError: the file is damaged or of another version.
    """
    return of(read(run_dir / FILE)) if (run_dir / FILE).is_file() else None


def of(found: Attribution) -> Stored:
    """Return a patch test as advice uses it."""
    layers: dict[str, Held] = {}
    for part in found.layers:
        for index in part.layers:
            layers[f"{part.stack}.{index}"] = Held(part.share.value / len(part.layers), _gives_way(part))
    types = {
        part.part: Held(part.share.value, _gives_way(part)) for part in found.of_partition("modules") if part.is_target
    }
    return Stored(found, layers, types, _rank_floor(found))


def _gives_way(part: PartResult) -> bool:
    return not part.lost.low > 0


def _is_in(module: LinearModule, part: PartResult) -> bool:
    if not part.is_target:
        return False
    if part.layers:
        return layer_of(module.name) in {f"{part.stack}.{index}" for index in part.layers}
    return module.leaf == part.part


def _rank_floor(found: Attribution) -> int | None:
    if not found.truncation or any(note.startswith(ROUNDED) for note in found.notes):
        return None
    keeping = [row.rank for row in found.truncation if row.kept.value >= KEEPS and row.kept.low >= SURELY_KEEPS]
    # Where none of them keeps it, the rank needed is above the largest that was tried.
    floor = min(keeping) if keeping else 2 * max(row.rank for row in found.truncation)
    return max(LEAST_RANK, floor)
