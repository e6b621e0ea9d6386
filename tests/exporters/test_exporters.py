import json

import h5py
import numpy as np
import pandas as pd
import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from grpodyn import exporters
from grpodyn.errors import DirectoryInUseError, UnknownNameError
from grpodyn.exporters import frames
from grpodyn.exporters.tensorboard import scalars
from grpodyn.trace.manifest import Manifest
from grpodyn.trace.reader import open_run
from grpodyn.trace.schema import GROUPS
from grpodyn.trace.writer import TraceWriter


def test_hdf5_holds_every_array_bit_for_bit(run, tmp_path):
    exporters.to_hdf5(run, tmp_path / "out.h5")
    with h5py.File(tmp_path / "out.h5") as file:
        for group in frames.group_names(run):
            dataset = getattr(run, group)
            for name in (*dataset.coords, *dataset.data_vars):
                stored, given = file[group][name], dataset[name].values
                if given.dtype == object:
                    assert stored.asstr()[:].tolist() == given.tolist()
                else:
                    assert stored.dtype == given.dtype
                    assert stored[:].tobytes() == given.tobytes()


def test_hdf5_describes_itself(run, tmp_path):
    exporters.to_hdf5(run, tmp_path / "out.h5")
    with h5py.File(tmp_path / "out.h5") as file:
        assert json.loads(file["manifest"].asstr()[()])["run_id"] == str(run.manifest.run_id) == file.attrs["run_id"]
        norms = file["tensors/update_norm"]
        assert [dim.label for dim in norms.dims] == ["row", "tensor"]
        assert norms.dims[1]["tensor"].asstr()[1] == "model.layers.0.grün_proj.weight"
        assert norms.attrs["unit"] == "1"


def test_a_table_has_a_row_a_measurement(run):
    tensors = exporters.to_pandas(run, "tensors")
    assert len(tensors) == 3 * 4
    assert list(tensors.columns[:4]) == ["step", "segment", "tensor", "layer"]
    row = tensors[(tensors.step == 2) & (tensors.tensor == "model.layers.1.grün_proj.weight")].iloc[0]
    assert row.update_norm == np.float32(0.1)
    assert row.module == "grün_proj"
    assert row.layer == 1


def test_what_was_measured_becomes_columns(run):
    metrics = exporters.to_pandas(run, "metrics")
    assert metrics.loss.tolist() == [1.0, 0.5, 1 / 3]
    assert np.isnan(metrics.kl[0])
    assert metrics.kl[1] == 0.1
    spectra = exporters.to_pandas(run, "spectra")
    assert spectra[["singular_values_1", "singular_values_2", "singular_values_3"]].iloc[1].tolist() == [3.0, 4.0, 5.0]
    rollouts = exporters.to_pandas(run, "rollouts")
    assert len(rollouts) == 3 * 2 * 3
    # prompt 0, generation 1, step 1: rewards 2 + 1 and 3 + 1
    row = rollouts[(rollouts.step == 1) & (rollouts.prompt == 0) & (rollouts.generation == 1)].iloc[0]
    assert (row["rewards/exact"], row["rewards/format"], row.reward) == (3.0, 4.0, 7.0)
    assert row.prompt_id == 2**53 + 1


def test_pieces_make_the_same_table(run, monkeypatch):
    whole = {group: exporters.to_pandas(run, group) for group in frames.group_names(run)}
    monkeypatch.setattr(frames, "BLOCK_CELLS", 1)
    for group, table in whole.items():
        assert len(list(frames.blocks_of(run, group))) == run.rows[group]
        pd.testing.assert_frame_equal(exporters.to_pandas(run, group), table)


@pytest.mark.parametrize("blocks", [frames.BLOCK_CELLS, 1])
def test_parquet_and_csv_round_trip(run, tmp_path, monkeypatch, blocks):
    monkeypatch.setattr(frames, "BLOCK_CELLS", blocks)
    exporters.to_parquet(run, tmp_path / "parquet")
    exporters.to_csv(run, tmp_path / "csv")
    for group in frames.group_names(run):
        table = exporters.to_pandas(run, group)
        pd.testing.assert_frame_equal(
            pd.read_parquet(tmp_path / "parquet" / f"{group}.parquet"), table, check_dtype=False
        )
        read = pd.read_csv(tmp_path / "csv" / f"{group}.csv")
        for column in table.select_dtypes("number"):
            # In the shortest digits that give the number back in its own type.
            np.testing.assert_array_equal(read[column].astype(table[column].dtype), table[column])


def test_tensorboard_shows_means_by_module_and_layer(run, tmp_path):
    exporters.to_tensorboard(run, tmp_path / "tb")
    log = EventAccumulator(str(tmp_path / "tb"), size_guidance={"scalars": 0})
    log.Reload()
    assert [(event.step, event.value) for event in log.Scalars("metrics/kl")] == [(2, np.float32(0.1))]
    assert log.Scalars("metrics/loss")[0].wall_time == 1e9 + 1
    # q_proj: the mean of the step and inf; the first layer: the step alone, its other tensor was not measured
    assert np.isinf(log.Scalars("tensors/update_norm/by module/q_proj")[0].value)
    assert [event.value for event in log.Scalars("tensors/update_norm/by layer/0")] == [1.0, 2.0, 3.0]
    assert not any("layers.0" in tag for tag in log.Tags()["scalars"])


def test_tensorboard_takes_every_tensor_on_request(run):
    tags = {tag for tag, *_ in scalars(run, per_tensor=True)}
    assert "tensors/update_norm/model.layers.0.q_proj.weight" in tags


@pytest.mark.parametrize("write", [exporters.to_hdf5, exporters.to_csv, exporters.to_parquet, exporters.to_tensorboard])
def test_nothing_is_overwritten_and_nothing_half_made_stays(run, tmp_path, write, monkeypatch):
    taken = tmp_path / "taken"
    taken.mkdir()
    (taken / "mine").write_text("keep")
    with pytest.raises(DirectoryInUseError, match=r"taken exists; give `-o`"):
        write(run, taken)
    assert (taken / "mine").read_text() == "keep"

    def fail(*_):
        raise OSError("no space left")

    monkeypatch.setattr("grpodyn.exporters.hdf5._write_array", fail)
    monkeypatch.setattr("grpodyn.exporters.tables.blocks_of", fail)
    monkeypatch.setattr("grpodyn.exporters.tensorboard._series", fail)
    with pytest.raises(OSError, match="no space left"):
        write(run, tmp_path / "new")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a run", "taken"]


def test_an_unknown_group_is_named(run):
    with pytest.raises(UnknownNameError, match=r"tensor.*did you mean"):
        exporters.to_pandas(run, "tensor")


def test_a_run_hands_out_its_tables(run):
    assert list(run.to_pandas()) == [group for group in GROUPS if run.rows[group]]
    pd.testing.assert_frame_equal(run.to_pandas("metrics"), exporters.to_pandas(run, "metrics"))


def test_an_empty_run_exports_as_what_it_is(tmp_path):
    TraceWriter.create(tmp_path / "empty", Manifest()).close("failed")
    run = open_run(tmp_path / "empty")
    exporters.to_hdf5(run, tmp_path / "out.h5")
    with h5py.File(tmp_path / "out.h5") as file:
        assert file.attrs["status"] == "empty"
    assert exporters.to_csv(run, tmp_path / "csv") == []
    assert run.to_pandas() == {}
