"""Results of analyses of runs whose movement is known, at 12 and at 80 layers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import pytest

from grpodyn import figures, registry
from grpodyn.attribution.result import Attribution, PartResult, Range, TruncationResult, VerdictResult
from grpodyn.figures import Drawn
from grpodyn.trace.reader import Run
from tests.simulation.staged_run import write_staged_run
from tests.simulation.whole_run import write_whole_run


@dataclass(frozen=True)
class Results:
    """Everything that figures are made of, of one run."""

    run: Run
    staged_run: Run

    @cache  # noqa: B019  # a handful of results, for one test session
    def of(self, name: str) -> Any:
        return registry.analysis(name).run(self.run)

    @cache  # noqa: B019
    def staged(self) -> Any:
        return registry.analysis("stages").run(self.staged_run)


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory) -> Results:
    folder = tmp_path_factory.mktemp("figures")
    staged = write_staged_run(folder / "staged", layers=12, curriculum=True)
    return Results(write_whole_run(folder / "twelve", planned=60), staged)


@pytest.fixture(scope="session")
def deep(tmp_path_factory: pytest.TempPathFactory) -> Results:
    folder = tmp_path_factory.mktemp("figures")
    staged = write_staged_run(folder / "staged", layers=80)
    return Results(write_whole_run(folder / "eighty", layers=80, steps=20), staged)


def part(partition: str, name: str, kind: str, share: float, **fields: Any) -> PartResult:
    around = Range(value=share, low=share - 0.05, high=share + 0.05, level=0.95)
    measures = dict.fromkeys(("keep_only", "put_back", "kept", "lost", "share"), around)
    return PartResult(partition=partition, part=name, kind=kind, is_target=True, tensors=1, **measures, **fields)


@pytest.fixture(scope="session")
def attribution() -> Attribution:
    """A patch test that says the opposite of the movement: the gain is in layer 0 and in q_proj."""
    one = Range(value=0.9, low=0.88, high=0.92, level=0.95)
    layers = [part("layers", "layer 0", "layer", 0.7, layers=(0,), stack="model.layers")]
    layers.append(part("layers", "layers 1-11", "layers", 0.2, layers=tuple(range(1, 12)), stack="model.layers"))
    modules = [part("modules", name, "module", share) for name, share in (("q_proj", 0.8), ("down_proj", 0.1))]
    reading = VerdictResult(word="localised", parts=("layer 0",), text="layer 0 holds most of the gain")
    return Attribution(
        created_at="2026-01-01T00:00:00Z",
        sources={},
        base=one,
        final=one,
        gain=one,
        greedy={},
        parts=(*layers, *modules),
        partitions=(),
        truncation=tuple(TruncationResult(rank=r, accuracy=one, kept=one) for r in (1, 2, 4)),
        shapley=None,
        null=(),
        confirm=(),
        verdict="localised",
        reading=reading,
        verdicts={},
        leading="layers",
        resolution=0.1,
        evaluations=1,
        tokens=1,
        seconds=1.0,
        notes=(),
    )


VIEWS: dict[str, Callable[[Results, str], Drawn]] = {
    "reward": lambda r, w: figures.reward(r.of("reward_course"), w),
    "relative_update": lambda r, w: figures.relative_update(r.of("layer_dynamics"), w),
    "displacement": lambda r, w: figures.displacement(r.of("layer_dynamics"), w),
    "ranks": lambda r, w: figures.ranks(r.of("rank_course"), w),
    "spectra": lambda r, w: figures.spectra(r.of("rank_course"), w),
    "path_and_displacement": lambda r, w: figures.path_and_displacement(r.of("path_and_displacement"), w),
    "group_outcomes": lambda r, w: figures.group_outcomes(r.of("group_outcomes"), w),
    "dead_groups": lambda r, w: figures.dead_groups(r.of("group_size").runs[0], w),
    "retention": lambda r, w: figures.retention(r.of("forgetting"), w),
    "stages": lambda r, w: figures.stages(r.staged(), w),
    "recorder_cost": lambda r, w: figures.recorder_cost(r.of("recorder_cost"), w),
    "movement_and_contribution": lambda r, w: figures.movement_and_contribution(r.of("layer_dynamics"), None, w),
    "overview": lambda r, w: figures.overview(
        [r.of("reward_course")], r.of("layer_dynamics"), r.of("rank_course"), r.of("group_outcomes"), w
    ),
}


@pytest.fixture
def views() -> dict[str, Callable[[Results, str], Drawn]]:
    return VIEWS


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "view" in metafunc.fixturenames:
        metafunc.parametrize("view", list(VIEWS.values()), ids=list(VIEWS))
