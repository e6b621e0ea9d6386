"""One contract, held by every probe in the registry."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import numpy as np
import pytest
import torch

from grpodyn import registry
from grpodyn.probe import COUNTS, Need, Probe, SpectralChangeProbe, SpectralProbe, TensorProbe
from grpodyn.spectra.norms import squared_norm
from grpodyn.spectra.subspaces import compare
from grpodyn.trace.manifest import Manifest
from grpodyn.trace.reader import open_run
from grpodyn.trace.schema import ArraySpec, TensorInfo
from grpodyn.trace.writer import TraceWriter

ROOT = Path(__file__).parents[2]
PROBES = registry.probes()
TENSOR_PROBES = {name: probe for name, probe in PROBES.items() if isinstance(probe, TensorProbe)}
SPECTRAL_PROBES = {name: probe for name, probe in PROBES.items() if isinstance(probe, SpectralProbe)}

every_probe = pytest.mark.parametrize("probe", [pytest.param(p, id=name) for name, p in PROBES.items()])
every_tensor_probe = pytest.mark.parametrize("probe", [pytest.param(p, id=n) for n, p in TENSOR_PROBES.items()])
every_spectral_probe = pytest.mark.parametrize("probe", [pytest.param(p, id=n) for n, p in SPECTRAL_PROBES.items()])

AXIS = {"tensors": "tensor", "layers": "layer", "spectra": "tensor"}


class StrictSample:
    """Random tensors for the declared needs; refuses any other, and remembers which were asked for."""

    def __init__(self, needs: frozenset[Need], rows: slice = slice(None)) -> None:
        self.tensors = {
            need: torch.randn(20, 30, generator=torch.Generator().manual_seed(i))[rows]
            for i, need in enumerate(sorted(needs))
        }
        self.asked: set[Need] = set()

    def squared_norm(self, need: Need) -> torch.Tensor:
        assert need not in COUNTS
        self.asked.add(need)
        return squared_norm(self.tensors[need])

    def count(self, need: Need) -> torch.Tensor:
        assert need in COUNTS
        self.asked.add(need)
        tensor = self.tensors[need]
        return torch.count_nonzero(tensor > 0 if need != Need.ELEMENTS else torch.ones_like(tensor)).double()


def test_the_first_catalogue_is_there():
    assert set(PROBES) >= {
        "grad_norm", "update_norm", "update_norm_intended", "update_ratio", "delta_norm",
        "effective_rank", "stable_rank", "energy_rank_90", "singular_values", "layer_delta",
    }  # fmt: skip


@every_probe
def test_declarations_are_complete(probe: Probe):
    assert re.fullmatch(r"[a-z][a-z0-9]*(_[a-z0-9]+)*", probe.name)
    assert (ROOT / "probes" / f"{probe.name}.py").is_file()
    assert (ROOT / "tests" / "probes" / f"test_{probe.name}.py").is_file()
    for text in (probe.title, probe.reference, probe.unit, type(probe).__doc__):
        assert isinstance(text, str)
        assert text.strip()
    assert not probe.title.endswith(".")
    assert probe.dims[:2] == ("row", AXIS[probe.group])
    assert set(probe.dims[2:]) <= {"k"}
    assert np.issubdtype(np.dtype(probe.dtype), np.floating), "missing is nan, which only floats hold"
    assert probe.cost in ("norm", "spectrum", "decomposition", "forward")
    if isinstance(probe, SpectralProbe):
        assert probe.needs in ({Need.DELTA}, {Need.STEP}), "one matrix"
    assert probe.when in ("point", "ends")
    assert probe.reduction in ("sum", "whole")
    assert probe.needs
    assert probe.needs <= set(Need)
    assert vars(probe) == {}, "a probe holds no state"


@every_tensor_probe
def test_measures_sums_of_what_it_declares_and_of_nothing_else(probe: TensorProbe):
    sample = StrictSample(probe.needs)
    sums = probe.measure(sample)
    assert sample.asked == probe.needs
    for value in sums:
        assert (value.shape, value.dtype) == ((), torch.float64)


@every_tensor_probe
def test_two_ranks_equal_one(probe: TensorProbe):
    whole = probe.measure(StrictSample(probe.needs))
    ranks = [probe.measure(StrictSample(probe.needs, rows)) for rows in (slice(0, 3), slice(3, None))]
    reduced = [np.array([float(a + b)]) for a, b in zip(*ranks, strict=True)]
    expected = probe.compute(*(np.array([float(value)]) for value in whole))
    np.testing.assert_allclose(probe.compute(*reduced), expected, rtol=1e-6)


@every_tensor_probe
def test_computes_a_whole_axis_at_once(probe: TensorProbe):
    n = len(probe.measure(StrictSample(probe.needs)))
    sums = np.random.default_rng(0).uniform(0.1, 10.0, (n, 7))
    values = probe.compute(*sums)
    assert values.shape == (7,)
    assert np.isfinite(values).all()
    one_by_one = [probe.compute(*sums[:, i : i + 1])[0] for i in range(7)]
    np.testing.assert_array_equal(values, one_by_one)
    assert probe.compute(*np.empty((n, 0))).shape == (0,)


@every_tensor_probe
def test_nan_in_nan_out(probe: TensorProbe):
    n = len(probe.measure(StrictSample(probe.needs)))
    for i in range(n):
        for bad in (np.nan, np.inf):
            sums = np.ones((n, 3))
            sums[i, 1] = bad
            values = probe.compute(*sums)
            assert np.isfinite(values).tolist() == [True, False, True]
            assert np.isnan(values[1])


@every_spectral_probe
def test_spectral_degenerate_values(probe: SpectralProbe):
    many = "k" in probe.dims
    values = np.array([4.0, 2.0, 1.0, 0.0])
    before = values.copy()
    result = np.asarray(probe.compute(values))
    assert np.isfinite(result).all()
    assert (result.ndim == 1) == many
    assert np.array_equal(values, before), "the values are shared with other probes"
    assert (np.asarray(probe.compute(np.zeros(4))) == 0.0).all(), "zero means measured zero"
    assert np.isnan(probe.compute(np.full(4, np.nan))).all()


@pytest.mark.parametrize("name", [name for name, p in PROBES.items() if isinstance(p, SpectralChangeProbe)])
def test_spectral_changes_are_numbers_or_nan(name: str):
    probe = PROBES[name]
    assert isinstance(probe, SpectralChangeProbe)
    start = torch.randn(30, 20, generator=torch.Generator().manual_seed(0))
    assert np.isfinite(probe.compute(compare(start, start + 0.1)))
    assert np.isnan(probe.compute(compare(start * torch.nan, start)))
    assert np.isnan(probe.compute(compare(start, start * torch.inf)))


def test_every_array_survives_the_store(tmp_path: Path):
    # Two tensors and two layers; the value of the first is 0.1 in the storage dtype, the second is missing.
    infos = [
        TensorInfo(f"model.layers.{i}.mlp.up_proj.weight", i, "up_proj", "model.layers", "linear", 4, 3, "float32",
                   trainable=True, source="full")
        for i in range(2)
    ]  # fmt: skip
    writer = TraceWriter.create(tmp_path / "run", Manifest())
    writer.declare_tensors(infos)
    writer.declare_layers([0, 1], ["model.layers"] * 2)
    written: dict[str, dict[str, np.ndarray]] = {}
    for name, probe in PROBES.items():
        writer.declare_arrays(probe.group, {name: ArraySpec(probe.dims, probe.dtype, probe.unit)})
        value = np.array([0.1, np.nan], probe.dtype)
        written.setdefault(probe.group, {})[name] = np.stack([value] * 3, axis=-1) if "k" in probe.dims else value
    for group, values in written.items():
        writer.add_row(group, 7, values)
    writer.close("finished")
    assert writer.failed is None
    run = open_run(tmp_path / "run")
    run.require(*PROBES)
    for group, values in written.items():
        for name, value in values.items():
            array = getattr(run, group)[name]
            assert array.dims == PROBES[name].dims
            assert array.dtype == PROBES[name].dtype
            assert array.attrs["unit"] == PROBES[name].unit
            assert array["step"].values.tolist() == [7]
            np.testing.assert_array_equal(array.values[0], value)


def forbidden(source: str) -> list[str]:
    """Return what in a probe's source would bring a tensor's value to the host, or torch into the core."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call):
            if isinstance(node.func, ast.Attribute) and node.func.attr in ("item", "tolist", "cpu", "numpy"):
                found.append(f"line {node.lineno}: .{node.func.attr}()")
            if isinstance(node.func, ast.Name) and node.func.id in ("float", "int", "bool", "print"):
                found.append(f"line {node.lineno}: {node.func.id}()")
    for node in ast.parse(source).body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or ""]
            found += [f"line {node.lineno}: import {name}" for name in names if name.split(".")[0] == "torch"]
    return found


@every_probe
def test_no_value_waits_for_the_device(probe: Probe):
    assert forbidden((ROOT / "probes" / f"{probe.name}.py").read_text()) == []


@pytest.mark.parametrize("line", ["x.item()", "float(x)", "x.sum().tolist()", "import torch", "from torch import nn"])
def test_the_check_above_finds(line: str):
    assert len(forbidden(line)) == 1


def test_the_check_above_allows_types():
    assert forbidden("if TYPE_CHECKING:\n    import torch\n") == []
