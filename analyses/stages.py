"""How a run went through its stages: what each taught and cost, how far it moved each layer, and its spectra."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from grpodyn.analysis import Analysis
from grpodyn.errors import MissingDataError
from grpodyn.evaluation.records import HeldOut, held_out_by_step
from grpodyn.series.columns import evaluation
from grpodyn.trace.stages import ACCURACY, PERPLEXITY, RETESTED, Past, past

if TYPE_CHECKING:
    import xarray as xr

    from grpodyn.trace.reader import Run

Floats = NDArray[np.float64]
Curve = tuple[tuple[int, float], ...]
"""(step, value) pairs in the order of steps."""

_TEST = "curriculum/test"
_SHIFT, _LAYER, _DELTA = "spectral_shift", "layer_delta", "delta_norm"


@dataclass(frozen=True)
class Stage:
    """One stage. What was not measured is nan, or left out of a mapping."""

    name: str
    kind: str
    """`sft` or `grpo`."""
    start: int
    """Steps of the run before it."""
    end: int
    """Its last step; of a stage that has not ended the last step so far."""
    outcome: str | None
    """`done`, `mastered`, `stalled` or `not_viable`; None where it has not ended."""
    before: HeldOut
    """Held-out accuracy where it began."""
    after: HeldOut
    """Held-out accuracy where it ended."""
    test: float
    """Of a stage of a curriculum: its last test, the accuracy that decides whether it is mastered."""
    displacement: tuple[float, ...]
    """‖W_end − W_0‖_F / ‖W_0‖_F of each layer: from the model before the first stage. Unit 1."""
    moved: tuple[float, ...]
    """‖W_end − W_start‖_F / ‖W_0‖_F of each layer: of this stage alone. Unit 1."""
    spectral_shift: tuple[float, ...]
    """Median of `spectral_shift` over each layer's matrices where the stage ended, from the model before the first."""
    perplexity: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """Of each text, where the stage began and where it ended."""
    retested: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """Accuracy at T=1 on each stage that is tested again, where this one began and where it ended."""


@dataclass(frozen=True)
class Stages:
    """How a run went through its stages."""

    run: str
    status: str
    stages: tuple[Stage, ...]
    layers: tuple[str, ...]
    """Of `displacement`, `moved` and `spectral_shift`: the index, with its stack before it where there are several."""
    level: float
    """Accuracy at which a stage of a curriculum is mastered; nan of a run without one."""
    accuracy: Curve
    """Held-out, exact, at T=1."""
    greedy: Curve
    tests: Curve
    """Of the stage that was trained then; two at a step where one ended and the next began."""
    retested: Mapping[str, Curve]
    perplexity: Mapping[str, Curve]
    notes: tuple[str, ...]


class StagesAnalysis(Analysis):
    """Stages of a run beside each other."""

    name: ClassVar[str] = "stages"
    title: ClassVar[str] = "What each stage of a run taught and cost, and how far it moved each layer and its spectra"
    requires: ClassVar[tuple[str, ...]] = ()
    reference: ClassVar[str] = (
        "The probes layer_delta and spectral_shift at the ends of stages; what a stage moved by itself is of the "
        "weights at its two ends."
    )

    def run(self, run: Run, **options: Any) -> Stages:
        """Return the `Stages` of a run.

        Raises:
            MissingDataError: the run has no stages.
        """
        known = past(run.manifest.segments)
        if not known:
            raise MissingDataError(
                f"{run.path} was not trained in stages; a config with `sft` or `curriculum` is (docs/sft.md, "
                "docs/curriculum.md)"
            )
        ends = [max(one.end if one.end is not None else run.last_step, one.start) for one in known]
        layers, relative, norms = _displacement(run)
        held_out = held_out_by_step(run)
        perplexity, retested = _curves(run, PERPLEXITY), _curves(run, RETESTED, ACCURACY)
        tests = _curve(evaluation(run, _TEST))
        found, notes = [], []
        for place, (one, end) in enumerate(zip(known, ends, strict=True)):
            segment = _segment(run, one.name)
            displacement = _at(relative, one.start, end, len(layers))
            if place == 0 and one.start == 0:
                moved = displacement
            else:
                moved = _moved(segment, layers, norms)
                why = segment.get("moved_unknown")
                if isinstance(why, str):
                    notes.append(f"how far {one.name} moved by itself is not known: {why}")
            if place and one.outcome is not None and not np.isfinite(moved).any() and "moved_unknown" not in segment:
                notes.append(f"how far {one.name} moved by itself is not known: it was not noted at its end")
            found.append(
                Stage(
                    name=one.name,
                    kind=str(segment.get("kind") or "grpo"),
                    start=one.start,
                    end=end,
                    outcome=one.outcome,
                    before=held_out.get(one.start, HeldOut(-1)),
                    after=held_out.get(end, HeldOut(-1)),
                    test=_last_test(tests, one, end),
                    displacement=displacement,
                    moved=moved,
                    spectral_shift=_at(_shift(run, layers), one.start, end, len(layers)),
                    perplexity=_ends(perplexity, one.start, end),
                    retested=_ends(retested, one.start, end),
                )
            )
        notes += _missing(run, layers, found)
        level = run.manifest.section("curriculum").get("level")
        accuracy = tuple((step, one.accuracy) for step, one in held_out.items() if math.isfinite(one.accuracy))
        greedy = tuple((step, one.greedy) for step, one in held_out.items() if math.isfinite(one.greedy))
        return Stages(
            run=run.path.name,
            status=run.status,
            stages=tuple(found),
            layers=tuple(label for label, _ in layers),
            level=float(level) if isinstance(level, int | float) else math.nan,
            accuracy=accuracy,
            greedy=greedy,
            tests=tests,
            retested=retested,
            perplexity=perplexity,
            notes=tuple(notes),
        )


def _segment(run: Run, stage: str) -> Mapping[str, Any]:
    """Return what the last segment of a stage says: a stage that was resumed has several."""
    own = [segment for segment in run.manifest.segments if segment.get("stage") == stage]
    return own[-1]


def _curve(column: Any) -> Curve:
    if column is None:
        return ()
    pairs = zip(column[0].tolist(), column[1].tolist(), strict=True)
    # Nothing is dropped where a step was measured twice: a stage ends where the next begins.
    return tuple(sorted(((step, value) for step, value in pairs if math.isfinite(value)), key=lambda pair: pair[0]))


def _curves(run: Run, prefix: str, suffix: str = "") -> dict[str, Curve]:
    if not run.rows["evaluations"]:
        return {}
    names = [str(name) for name in run.evaluations["metric"].values]
    wanted = [name for name in names if name.startswith(prefix) and name.endswith(suffix)]
    curves = {name.removeprefix(prefix).removesuffix(suffix): _curve(evaluation(run, name)) for name in wanted}
    return {name: tuple(dict(curve).items()) for name, curve in curves.items() if curve}


def _ends(curves: Mapping[str, Curve], start: int, end: int) -> dict[str, tuple[float, float]]:
    found = {name: (dict(curve).get(start, math.nan), dict(curve).get(end, math.nan)) for name, curve in curves.items()}
    return {name: pair for name, pair in found.items() if any(map(math.isfinite, pair))}


def _last_test(tests: Curve, stage: Past, end: int) -> float:
    # The test at its start is of the stage, but where a stage ended the one after it is tested too: the later one.
    own = [value for step, value in tests if stage.start < step < end]
    at_end = [value for step, value in tests if step == end]
    if at_end:
        return at_end[0]
    return own[-1] if own else math.nan


_Layers = list[tuple[str, str]]
"""Name as it is shown, and `stack.index` as it is stored."""
_Rows = tuple[NDArray[np.int64], Floats]


def _displacement(run: Run) -> tuple[_Layers, _Rows | None, dict[str, float]]:
    """Return the layers, their relative displacement by row, and ‖W_0‖_F of each where it can be told."""
    if not run.rows["layers"] or _LAYER not in run.layers:
        return [], None, {}
    data = run.layers
    indices = np.asarray(data["layer"].values, np.int64).tolist()
    stacks = [str(one) for one in data["stack"].values] if "stack" in data.coords else [""] * len(indices)
    several = len(set(stacks)) > 1
    layers = [
        (f"{stack}.{index}" if several else str(index), f"{stack}.{index}")
        for stack, index in zip(stacks, indices, strict=True)
    ]
    values = np.asarray(data[_LAYER].values, np.float64)
    steps = np.asarray(data["step"].values, np.int64)
    return layers, (steps, values), _norms(run, layers, steps, values)


def _norms(run: Run, layers: _Layers, steps: NDArray[np.int64], relative: Floats) -> dict[str, float]:
    """Return ‖W_0‖_F by layer: the displacement over the relative one, at the last step that has both."""
    if not run.rows["tensors"] or _DELTA not in run.tensors:
        return {}
    data = run.tensors
    own_steps = np.asarray(data["step"].values, np.int64)
    delta = np.asarray(data[_DELTA].values, np.float64)
    places: dict[str, list[int]] = {}
    described = zip(*(data[name].values for name in ("layer", "stack", "source")), strict=True)
    for place, (index, stack, source) in enumerate(described):
        # The factors of an adapter and its effective update are one change seen twice.
        if str(source) != "factor":
            places.setdefault(f"{stack}.{int(index)}", []).append(place)
    found: dict[str, float] = {}
    for column, (_, key) in enumerate(layers):
        for row in range(len(steps) - 1, -1, -1):
            same = np.flatnonzero(own_steps == steps[row])
            if not same.size or not relative[row, column] > 0 or key not in places:
                continue
            whole = float(np.sqrt(np.square(delta[same[-1], places[key]]).sum()))
            if whole > 0:
                found[key] = whole / float(relative[row, column])
                break
    return found


def _moved(segment: Mapping[str, Any], layers: _Layers, norms: Mapping[str, float]) -> tuple[float, ...]:
    noted = segment.get("moved")
    noted = noted if isinstance(noted, Mapping) else {}
    values = [noted.get(key) for _, key in layers]
    known = [float(value) if isinstance(value, int | float) else math.nan for value in values]
    return tuple(value / norms.get(key, math.nan) for value, (_, key) in zip(known, layers, strict=True))


def _shift(run: Run, layers: _Layers) -> _Rows | None:
    if not run.rows["spectra"] or _SHIFT not in run.spectra:
        return None
    data: xr.Dataset = run.spectra
    described = zip(*(data[name].values for name in ("layer", "stack", "source")), strict=True)
    keys = [f"{stack}.{int(index)}" if str(source) != "factor" else "" for index, stack, source in described]
    values = np.asarray(data[_SHIFT].values, np.float64)
    columns = []
    for _, key in layers:
        own = values[:, [place for place, one in enumerate(keys) if one == key]]
        middle = [float(np.median(row[np.isfinite(row)])) if np.isfinite(row).any() else math.nan for row in own]
        columns.append(middle)
    steps = np.asarray(data["step"].values, np.int64)
    return steps, np.array(columns).T.reshape(len(steps), len(layers))


def _at(rows: _Rows | None, start: int, end: int, layers: int) -> tuple[float, ...]:
    """Return the last values of a stage; those of a row before its last step stand for them."""
    if rows is None or not layers:
        return (math.nan,) * layers
    steps, values = rows
    known = np.flatnonzero((steps > start) & (steps <= end) & np.isfinite(values).any(axis=1))
    return tuple(map(float, values[known[-1]])) if known.size else (math.nan,) * layers


def _missing(run: Run, layers: _Layers, stages: list[Stage]) -> list[str]:
    said = []
    if not layers:
        said.append(f"how far each layer moved is not recorded: record the probe {_LAYER}")
    elif not any(np.isfinite(one.spectral_shift).any() for one in stages):
        said.append(
            f"how the spectra moved is not recorded: `--set record.every.{_SHIFT}=0` does, at the end of each stage"
        )
    if not any(one.perplexity for one in stages):
        said.append("no perplexity was measured: set `evaluate.texts`")
    return said
