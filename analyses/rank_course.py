"""In how many directions the weights have moved: ranks of the displacement over a run, and its singular values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from grpodyn.analysis import Analysis

if TYPE_CHECKING:
    from grpodyn.trace.reader import Run

Floats = NDArray[np.float64]

RANKS = ("effective_rank", "stable_rank", "energy_rank_90")
VALUES = "singular_values"


@dataclass(frozen=True)
class ModuleRanks:
    """One rank of one module type at every sweep, over the matrices that the sweep measured; nan where none was."""

    module: str
    matrices: int
    median: tuple[float, ...]
    low: tuple[float, ...]
    """Least over the matrices."""
    high: tuple[float, ...]
    cap: float
    """Greatest rank that the median matrix could have: of an adapter, its rank; else the smaller side."""


@dataclass(frozen=True)
class Spectrum:
    """Leading singular values of one module type's displacements, over the greatest of each matrix."""

    module: str
    step: int
    values: tuple[float, ...]
    """Median over the matrices."""
    low: tuple[float, ...]
    high: tuple[float, ...]


@dataclass(frozen=True)
class RankCourse:
    """Ranks of W_t − W_0 over a run."""

    run: str
    status: str
    lora: bool
    steps: tuple[int, ...]
    """Step of each sweep; matrices may have been measured a little earlier."""
    ranks: Mapping[str, tuple[ModuleRanks, ...]]
    """By name of the rank."""
    spectra: tuple[Spectrum, ...]
    """At the last sweep that measured singular values."""
    notes: tuple[str, ...]


class RankCourseAnalysis(Analysis):
    """Ranks over time, by module type, with their caps."""

    name: ClassVar[str] = "rank_course"
    title: ClassVar[str] = (
        "In how many directions the weights have moved: ranks over a run, with their caps, and spectra"
    )
    requires: ClassVar[tuple[str, ...]] = ("effective_rank",)
    reference: ClassVar[str] = (
        "Effective rank: Roy & Vetterli 2007; the probes effective_rank, stable_rank, energy_rank_90."
    )

    def run(self, run: Run, **options: Any) -> RankCourse:
        """Return the `RankCourse` of a run.

        Raises:
            MissingDataError: the run holds no `effective_rank`.
        """
        run.require(*self.requires)
        data = run.spectra
        source = np.asarray(data["source"].values, dtype=object)
        lora = bool((source == "lora").any())
        chosen = np.flatnonzero(
            (source == ("lora" if lora else "full"))
            & np.isin(np.asarray(data["kind"].values, dtype=object), ("linear", "expert"))
            & (np.asarray(data["layer"].values, np.int64) >= 0)
        )
        modules = [str(module) for module in data["module"].values[chosen]]
        members = {name: [i for i, one in enumerate(modules) if one == name] for name in dict.fromkeys(modules)}
        caps = _caps(run, chosen, lora)
        notes = ["the run's weights are stored in bf16: rounding adds directions, so energy ranks lead"]
        rounded = bool(np.isin(np.asarray(data["dtype"].values, dtype=object)[chosen], ("bfloat16", "float16")).any())
        return RankCourse(
            run=run.path.name,
            status=run.status,
            lora=lora,
            steps=tuple(int(step) for step in data["step"].values),
            ranks={
                rank: _ranks(np.asarray(data[rank].values, np.float64)[:, chosen], members, caps)
                for rank in RANKS
                if rank in data
            },
            spectra=_spectra(data, chosen, members) if VALUES in data else (),
            notes=tuple(notes) if rounded and not lora else (),
        )


def _caps(run: Run, chosen: NDArray[np.intp], lora: bool) -> Floats:
    sides = np.minimum(*(np.asarray(run.spectra[side].values, np.float64)[chosen] for side in ("rows", "cols")))
    rank = (run.manifest.lora or {}).get("r")
    return np.minimum(sides, float(rank)) if lora and isinstance(rank, int) else sides


def _ranks(values: Floats, members: Mapping[str, list[int]], caps: Floats) -> tuple[ModuleRanks, ...]:
    found = []
    for module, index in members.items():
        own = values[:, index]
        if np.isfinite(own).any():
            middle, low, high = (_over_matrices(own, share) for share in (0.5, 0.0, 1.0))
            found.append(ModuleRanks(module, len(index), middle, low, high, float(np.median(caps[index]))))
    return tuple(found)


def _over_matrices(values: Floats, share: float) -> tuple[float, ...]:
    return tuple(float(np.quantile(kept, share)) if (kept := row[np.isfinite(row)]).size else np.nan for row in values)


def _spectra(data: Any, chosen: NDArray[np.intp], members: Mapping[str, list[int]]) -> tuple[Spectrum, ...]:
    values = np.asarray(data[VALUES].values, np.float64)[:, chosen]
    known = np.flatnonzero(np.isfinite(values).any(axis=(1, 2)))
    if not known.size:
        return ()
    last, step = values[known[-1]], int(data["step"].values[known[-1]])
    found = []
    for module, index in members.items():
        own = last[index]
        own = own[own[:, 0] > 0]
        if not own.size:
            continue
        relative = own / own[:, :1]
        # A matrix that is smaller than others has fewer of them.
        relative = relative[:, np.isfinite(relative).any(axis=0)].T
        middle, low, high = (_over_matrices(relative, share) for share in (0.5, 0.0, 1.0))
        found.append(Spectrum(module, step, middle, low, high))
    return tuple(found)
