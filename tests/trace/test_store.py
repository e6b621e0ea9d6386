"""What is written without zarr is held to what zarr writes and reads."""

import json
from pathlib import Path

import numpy as np
import pytest
import zarr
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst
from zarr.codecs import ZstdCodec

from grpodyn.trace.schema import CHUNK_ROWS, ArraySpec, axis_capacity
from grpodyn.trace.store import StoredArray, array_document, read_labels, write_group, write_labels


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "int32", "bool", "string"])
def test_document_is_the_one_zarr_writes(tmp_path: Path, dtype: str) -> None:
    fill = {"bool": False, "string": ""}.get(dtype, float("nan") if dtype.startswith("float") else -1)
    zarr.create_array(
        str(tmp_path),
        name="x",
        shape=(1024, 64),
        chunks=(512, 64),
        dtype=str if dtype == "string" else dtype,
        fill_value=fill,
        compressors=ZstdCodec(level=1, checksum=True),
        dimension_names=("row", "tensor"),
        attributes={"unit": "1"},
    )
    theirs = json.loads((tmp_path / "x" / "zarr.json").read_text())
    assert array_document(ArraySpec(("row", "tensor"), dtype), (1024, 64), (512, 64)) == theirs


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rows=st.integers(1, CHUNK_ROWS),
    sizes=st.lists(st.integers(1, 5), max_size=3),
    dtype=st.sampled_from(["float32", "float64", "int64"]),
    data=st.data(),
)
def test_zarr_reads_back_every_chunk(
    tmp_path_factory: pytest.TempPathFactory, rows: int, sizes: list[int], dtype: str, data: st.DataObject
) -> None:
    directory = tmp_path_factory.mktemp("store")
    write_group(directory)
    dims = ("row", "a", "b", "c")[: 1 + len(sizes)]
    array = StoredArray.create(directory / "x", ArraySpec(dims, dtype), (CHUNK_ROWS, *sizes))
    written = data.draw(npst.arrays(np.dtype(dtype), (rows, *sizes), fill=st.just(np.dtype(dtype).type(3))))
    array.write_rows(0, written)
    stored = zarr.open_array(str(directory), path="x", mode="r")[:]
    np.testing.assert_array_equal(stored[:rows], written)
    missing = stored[rows:]
    assert np.isnan(missing).all() if dtype.startswith("float") else (missing == -1).all()
    np.testing.assert_array_equal(StoredArray.open(directory / "x").read_rows(0)[:rows], written)


def test_large_trailing_dimensions_are_split_into_chunks(tmp_path: Path) -> None:
    # 3,000 tensors × 16 values × 512 rows would be one chunk of 98 MB.
    write_group(tmp_path)
    array = StoredArray.create(tmp_path / "x", ArraySpec(("row", "tensor", "k")), (CHUNK_ROWS, 1100, 16))
    assert array.chunks == (512, 512, 16)
    rows = np.arange(3 * 1100 * 16, dtype=np.float32).reshape(3, 1100, 16)
    array.write_rows(0, rows)
    np.testing.assert_array_equal(zarr.open_array(str(tmp_path), path="x", mode="r")[:3], rows)
    np.testing.assert_array_equal(array.read_rows(0)[:3], rows)


def test_shrinking_deletes_chunks_that_lie_outside(tmp_path: Path) -> None:
    write_group(tmp_path)
    array = StoredArray.create(tmp_path / "x", ArraySpec(("row",), "int64"), (2 * CHUNK_ROWS,))
    array.write_rows(0, np.arange(CHUNK_ROWS))
    array.write_rows(1, np.arange(CHUNK_ROWS))
    array.resize((CHUNK_ROWS,))
    array.resize((2 * CHUNK_ROWS,))
    assert (zarr.open_array(str(tmp_path), path="x", mode="r")[CHUNK_ROWS:] == -1).all()


def test_labels_survive_growth_and_trim(tmp_path: Path) -> None:
    write_group(tmp_path)
    names = [f"tensor {i} Σ" for i in range(5000)]
    for count, capacity in ((3, 64), (5000, axis_capacity("tensor", 5000)), (5000, 5000)):
        write_labels(tmp_path / "tensor", "tensor", "string", names[:count], capacity)
        stored = zarr.open_array(str(tmp_path), path="tensor", mode="r")
        assert stored.shape == (capacity,)
        assert stored[:count].tolist() == names[:count] == read_labels(tmp_path / "tensor", "string", count)
        assert set(stored[count:].tolist()) <= {""}
