"""Notebooks are stored bare, explain what they show, use the public interface alone, and run on any run."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path
from typing import Any

import nbformat
import pytest

from grpodyn.reporting.choosing import KINDS, choose
from grpodyn.reporting.execution import execute, read
from grpodyn.reporting.gathering import gather
from tests.simulation.staged_run import write_staged_run
from tests.simulation.whole_run import write_whole_run

FOLDER = Path(__file__).parents[2] / "notebooks"
PUBLIC = {"grpodyn", "grpodyn.reporting"}


def source(cell: Any) -> str:
    return "".join(cell["source"])


def test_every_notebook_is_a_kind_of_report() -> None:
    assert {path.stem for path in FOLDER.glob("*.ipynb")} == set(KINDS)


@pytest.mark.parametrize("kind", KINDS)
def test_stored_without_outputs(kind: str) -> None:
    notebook = json.loads((FOLDER / f"{kind}.ipynb").read_text(encoding="utf-8"))
    for cell in notebook["cells"]:
        assert not cell.get("outputs")
        assert cell.get("execution_count") is None
    nbformat.validate(notebook)


@pytest.mark.parametrize("kind", KINDS)
def test_takes_runs_as_a_parameter_and_uses_the_public_interface(kind: str) -> None:
    cells = [cell for cell in read(kind).cells if cell.cell_type == "code"]
    (tagged,) = [cell for cell in cells if "parameters" in cell.metadata.get("tags", ())]
    assert source(tagged).startswith("run_dirs = [")
    for cell in cells:
        for node in ast.walk(ast.parse(source(cell))):
            assert not isinstance(node, ast.Import), "a notebook imports from the public modules"
            if isinstance(node, ast.ImportFrom):
                assert node.module in PUBLIC
            if isinstance(node, ast.Attribute):
                assert not node.attr.startswith("_")


@pytest.mark.parametrize("kind", KINDS)
def test_explains_what_is_shown_and_what_is_not(kind: str) -> None:
    prose = [source(cell) for cell in read(kind).cells if cell.cell_type == "markdown"]
    assert prose[0].startswith("# ")
    shown = [text for text in prose if "**Shown:**" in text]
    assert shown
    for text in shown:
        assert "**What it does not show:**" in text
    assert any("**How to read it:**" in text for text in prose)


def blocks(executed: Any) -> list[dict[str, Any]]:
    section = gather(executed, "run")
    return [*section.summary, *section.parts]


def streams(executed: Any) -> list[str]:
    return [
        output.text
        for cell in executed.notebook.cells
        for output in cell.get("outputs", ())
        if output.output_type == "stream"
    ]


@pytest.mark.slow
def test_all_run_on_one_whole_run(tmp_path: Path) -> None:
    run = write_whole_run(tmp_path / "a whole run", layers=4, steps=24)
    told: list[str] = []
    # Advice builds the model's twin, which this run's made-up model has not.
    found = execute(KINDS, {"run_dirs": [str(run.path)]}, lambda one: told.append(one.kind))
    assert told == list(KINDS)
    assert [one.failed for one in found] == [None] * len(KINDS)
    assert not [text for one in found for text in streams(one)], "a warning or a print"
    names = {block["name"] for one in found for block in blocks(one) if block["kind"] == "picture"}
    assert names == {
        "overview", "reward", "recorder_cost", "group_outcomes", "dead_groups", "relative_update", "displacement",
        "path_and_displacement", "ranks", "spectra", "movement_and_contribution", "retention",
    }  # fmt: skip
    missing = [block["text"] for one in found for block in blocks(one) if block.get("missing")]
    assert any("nothing to compare" in text for text in missing)
    assert any("grpodyn attribute" in text for text in missing)


def test_stages_have_a_notebook_where_there_are_any(tmp_path: Path) -> None:
    plain, staged = write_whole_run(tmp_path / "a", layers=1, steps=2), write_staged_run(tmp_path / "b", layers=1)
    kinds, left_out = choose([plain])
    assert "stages" not in kinds
    assert "stages" not in left_out, "a run that has no stages lacks nothing"
    assert "stages" in choose([plain, staged])[0]


@pytest.mark.slow
def test_stages_are_shown_in_one_picture(tmp_path: Path) -> None:
    (found,) = execute(["stages"], {"run_dirs": [str(write_staged_run(tmp_path / "run", layers=2).path)]})
    assert found.failed is None
    assert [block["kind"] for block in blocks(found)][-3:] == ["table", "sentence", "picture"]


@pytest.mark.slow
def test_papermill_runs_one_as_it_is_stored(tmp_path: Path) -> None:
    import papermill  # noqa: PLC0415  # slow to import

    run = write_whole_run(tmp_path / "run", layers=2, steps=16)
    out = tmp_path / "out.ipynb"
    papermill.execute_notebook(
        FOLDER / "group_size.ipynb", out, parameters={"run_dirs": [str(run.path)]}, progress_bar=False
    )
    text = out.read_text(encoding="utf-8")
    assert "image/svg+xml" in text
    assert re.search(r"Is the group size right", text)
