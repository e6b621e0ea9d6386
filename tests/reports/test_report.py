"""The command, from run directories to a page in a real browser."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from grpodyn.cli.app import build
from grpodyn.errors import NotARunError, UsageError
from grpodyn.reporting.report import MOST_RUNS, PAGE, write_report
from grpodyn.trace.manifest import Manifest
from grpodyn.trace.writer import TraceWriter
from tests.schema import must_fit
from tests.simulation.whole_run import write_whole_run

HOSTILE = "<script>alert(1)</script>"
LIGHT = ["convergence", "group_size", "layer_dynamics"]


@pytest.fixture(scope="session")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report on a hostile run and a plain one, in a folder with spaces and letters beyond ASCII."""
    folder = tmp_path_factory.mktemp("läufe mit abstand")
    hostile = "a <img src=x onerror=alert(1)> $x$ 長い"
    runs = [
        write_whole_run(folder / hostile, steps=30, planned=50, model={"name": HOSTILE}, dataset={"name": HOSTILE}),
        write_whole_run(folder / "plain", steps=30, seed=1),
    ]
    found = write_report([run.path for run in runs], folder / "der bericht", LIGHT, ("png",))
    assert not found.failed
    assert len(found.figures) >= 12
    return found.page


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_in_a_real_browser(report: Path, browser: Any, scheme: str, width: int) -> None:
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    page = context.new_page()
    said: list[str] = []
    asked: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("dialog", lambda dialog: said.append(dialog.message))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(report.as_uri())
    assert not said
    assert [url for url in asked if not url.startswith("data:")] == [report.as_uri()]
    images = page.locator("figure img")
    assert images.count() >= 6
    assert page.evaluate("[...document.images].every(image => image.complete && image.naturalWidth > 0)")
    overflow = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    assert overflow <= 0, "the page scrolls sideways"
    shown = page.evaluate("document.images[0].currentSrc") == page.locator("figure img").first.get_attribute("src")
    assert shown == (width > 640), "a narrow page shows the narrow drawing"
    assert "<script>alert(1)</script>" in page.inner_text("#summary")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("Enter")
    assert page.url.endswith("#summary")
    context.close()


@pytest.mark.slow
def test_the_page_stays_small_and_the_notebooks_are_beside_it(report: Path) -> None:
    assert report.stat().st_size < 5e6
    assert {path.stem for path in (report.parent / "notebooks").iterdir()} == set(LIGHT)


def empty(path: Path) -> None:
    TraceWriter.create(path, Manifest()).close("failed")


def interrupted(path: Path) -> None:
    write_whole_run(path, layers=2, steps=20, planned=40, status=None)


def with_nan(path: Path) -> None:
    write_whole_run(path, layers=2, steps=30, bad_from=15)


def adapters(path: Path) -> None:
    write_whole_run(path, layers=2, steps=20, lora=True)


def imported(path: Path) -> None:
    log = path.with_suffix(".json")
    rows = [{"step": step, "reward": 0.5 + step / 100, "loss": 0.1} for step in range(1, 30)]
    log.write_text(json.dumps({"log_history": rows, "global_step": 29, "max_steps": 29}))
    done = CliRunner().invoke(build(), ["import", str(log), "-o", str(path)])
    assert done.exit_code == 0, done.output


@pytest.mark.slow
@pytest.mark.parametrize(
    ("write", "says", "shows"),
    [
        (empty, "the record is empty, so nothing can be said", 0),
        (interrupted, "the run was interrupted", 6),
        (with_nan, "look here", 5),
        (adapters, "LoRA, rank 4", 6),
        (imported, "no run holds rollouts", 1),
    ],
)
def test_runs_that_are_not_whole(tmp_path: Path, write: Callable[[Path], None], says: str, shows: int) -> None:
    write(tmp_path / "run")
    found = write_report([tmp_path / "run"], tmp_path / "out")
    assert not found.failed
    text = found.page.read_text(encoding="utf-8")
    assert says in text
    assert text.count("<figure>") >= shows


@pytest.mark.slow
def test_a52_without_display_home_or_a_friendly_backend(tmp_path: Path) -> None:
    run = write_whole_run(tmp_path / "ein lauf ä", layers=2, steps=12)
    environment = {key: value for key, value in os.environ.items() if key not in ("DISPLAY", "WAYLAND_DISPLAY")}
    # Nothing can be made under /proc, not even by root: a home that cannot be written.
    environment |= {"MPLBACKEND": "TkAgg", "HOME": "/proc/none", "XDG_CONFIG_HOME": "/proc/none/config"}
    command = [sys.executable, "-m", "grpodyn", "report", str(run.path), "--kind", "layer_dynamics", "--json"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    written = json.loads(done.stdout)
    must_fit("report", written)
    assert Path(written["page"]).name == PAGE
    assert (tmp_path / "ein lauf ä-report" / PAGE).is_file()


def test_refuses_what_makes_no_sense(tmp_path: Path) -> None:
    run = write_whole_run(tmp_path / "r", layers=1, steps=4)
    with pytest.raises(UsageError, match="unknown figure format 'jpeg'"):
        write_report([run.path], tmp_path / "o", formats=["jpeg"])
    with pytest.raises(UsageError, match=f"1 to {MOST_RUNS}"):
        write_report([run.path] * (MOST_RUNS + 1), tmp_path / "o")
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="cannot be a folder"):
        write_report([run.path], tmp_path / "file")
    with pytest.raises(UsageError, match="did you mean 'convergence'"):
        write_report([run.path], tmp_path / "o", kinds=["convergance"])


def test_no_run_is_exit_3(tmp_path: Path) -> None:
    result = CliRunner().invoke(build(), ["report", str(tmp_path), "-o", str(tmp_path / "out")])
    assert isinstance(result.exception, NotARunError)
    assert result.exception.exit_code == 3
    assert not (tmp_path / "out").exists(), "nothing is written where nothing can be read"
