"""Simulated runs as the diagnosis sees recorded ones."""

from __future__ import annotations

from typing import Any

import numpy as np

from grpodyn.diagnosis.groups import groups_of
from grpodyn.diagnosis.observations import Observations, Record, Tensors
from grpodyn.diagnosis.series import Series


def observe(run: Any) -> Observations:
    """Return a `SimulatedRun` as observations."""
    groups = None
    if run.rewards is not None:
        steps = np.arange(1, len(run.rewards) + 1, dtype=np.int64)
        groups = groups_of(steps, run.rewards.sum(axis=-1), run.rewards, run.lengths, tuple(run.weights))
    marks = np.array(list(run.evaluations), dtype=np.int64)
    names = sorted({name for found in run.evaluations.values() for name in found})
    return Observations(
        source=run.scenario,
        steps=run.steps,
        columns=run.columns,
        settings=run.settings,
        lora=run.lora,
        dtype=run.dtype,
        parameters=run.parameters,
        layers=4,
        weights=run.weights,
        evaluations={n: Series(marks, np.array([found[n] for found in run.evaluations.values()])) for n in names},
        groups=groups,
        tensors=_tensors(run.tensors),
        spectra=_tensors(run.spectra),
        truncation=run.truncation or {},
        record=Record(run.status),
    )


def _tensors(found: Any) -> Tensors | None:
    if found is None:
        return None
    return Tensors(
        steps=found.steps,
        names=found.names,
        modules=tuple(name.split(".")[-2] for name in found.names),
        layers=np.array([int(name.split(".")[2]) for name in found.names], dtype=np.int64),
        kinds=found.kinds,
        sources=found.sources,
        dtypes=(found.dtype,) * len(found.names),
        probes=found.probes,
    )
