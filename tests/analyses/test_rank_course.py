"""Ranks over a run by module type, with their caps, and spectra."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from grpodyn import registry
from grpodyn.errors import MissingDataError
from grpodyn.trace.reader import Run
from tests.simulation.whole_run import write_whole_run


def test_ranks_caps_and_spectra_of_a_run(tmp_path: Path) -> None:
    course = registry.analysis("rank_course").run(write_whole_run(tmp_path / "r", layers=2, steps=20))
    assert course.steps == (1, 10, 20)
    by_module = {one.module: one for one in course.ranks["effective_rank"]}
    assert by_module["q_proj"].median == pytest.approx((1.1, 2.0, 3.0))
    assert {name: one.cap for name, one in by_module.items()} == {"q_proj": 16, "v_proj": 8, "down_proj": 16}
    assert by_module["q_proj"].matrices == 2
    assert course.spectra[0].step == 20
    assert np.allclose(course.spectra[0].values, 0.5 ** np.arange(6))


def test_the_rank_of_an_adapter_caps_it(tmp_path: Path) -> None:
    course = registry.analysis("rank_course").run(write_whole_run(tmp_path / "r", layers=1, steps=4, lora=True))
    assert course.lora
    assert {one.cap for one in course.ranks["stable_rank"]} == {4}


def test_matrices_that_a_sweep_left_out_do_not_count(
    write_run: Callable[..., Run], tensor_info: Callable[..., Any]
) -> None:
    infos = [tensor_info(f"model.layers.{i}.q_proj.weight", i, 8, 4) for i in range(3)]
    spectra = {1: {"effective_rank": [1.0, 3.0, np.nan]}, 2: {"effective_rank": [np.nan] * 3}}
    course = registry.analysis("rank_course").run(write_run(tensors=infos, spectra=spectra))
    (one,) = course.ranks["effective_rank"]
    assert (one.median[0], one.low[0], one.high[0]) == (2.0, 1.0, 3.0)
    assert np.isnan(one.median[1])
    assert course.spectra == ()


def test_bf16_is_named_as_what_adds_directions(write_run: Callable[..., Run], tensor_info: Callable[..., Any]) -> None:
    infos = [tensor_info("model.layers.0.q_proj.weight", 0, 8, 4, dtype="bfloat16")]
    course = registry.analysis("rank_course").run(write_run(tensors=infos, spectra={1: {"effective_rank": [3.0]}}))
    assert "bf16" in course.notes[0]


def test_without_ranks_it_says_which_probe_to_record(write_run: Callable[..., Run]) -> None:
    with pytest.raises(MissingDataError, match="effective_rank"):
        registry.analysis("rank_course").run(write_run(metrics={1: {"reward": 1.0}}))
