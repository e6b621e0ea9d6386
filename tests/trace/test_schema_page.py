"""The page about the schema names what the schema has, and its example runs."""

import re
from pathlib import Path

import pytest

from grpodyn import open_run
from grpodyn.trace.manifest import Manifest
from grpodyn.trace.schema import AXIS_COORDS, FIXED_ARRAYS, GROUPS, SCHEMA_VERSION

PAGE = (Path(__file__).parents[2] / "docs" / "trace-schema.md").read_text()


def test_every_name_of_the_schema_is_on_the_page() -> None:
    names = {*GROUPS, *AXIS_COORDS, *(name for arrays in FIXED_ARRAYS.values() for name in arrays)}
    names |= {coord for coords in AXIS_COORDS.values() for coord in coords} | set(Manifest.model_fields)
    # An array stands there with its dimensions: `values(row, metric)`.
    missing = {name for name in names if f"`{name}`" not in PAGE and f"`{name}(" not in PAGE}
    assert missing == set()
    assert f"schema version {SCHEMA_VERSION}" in PAGE


def test_the_example_on_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    example = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)[-1]
    exec(compile(example, "trace-schema.md", "exec"), {})
    run = open_run("runs/mine")
    assert run.tensors["update_norm"].values.tolist() == [[0.5]]
    assert run.metric("reward").values.tolist() == [0.25]
