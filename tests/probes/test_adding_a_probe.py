"""The example of docs/adding-a-probe.md is a probe: its two files, put where the page says, work."""

from __future__ import annotations

import importlib
import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from grpodyn import registry
from grpodyn.cli.catalogue import markdown, probe_entries

PAGE = Path(__file__).parents[2] / "docs" / "adding-a-probe.md"
NAME = "step_per_gradient"


def example(path: str) -> str:
    """Return the code block of the page whose first line is a comment with this path."""
    blocks = re.findall(r"^```python\n# (\S+)\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    return dict(blocks)[path]


def page_tests() -> dict[str, Any]:
    namespace: dict[str, Any] = {"__name__": "example"}
    exec(compile(example(f"tests/probes/test_{NAME}.py"), str(PAGE), "exec"), namespace)
    return {name: value for name, value in namespace.items() if name.startswith("test_")}


def cases(test: Any) -> list[dict[str, Any]]:
    """Return the arguments of each case of a test with at most one `parametrize`."""
    marks = [mark for mark in getattr(test, "pytestmark", []) if mark.name == "parametrize"]
    return [{marks[0].args[0]: value} for value in marks[0].args[1]] if marks else [{}]


@pytest.fixture
def added(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Put the page's probe into a folder that counts as `probes/`, and nothing else anywhere."""
    (tmp_path / f"{NAME}.py").write_text(example(f"probes/{NAME}.py"), encoding="utf-8")
    package = importlib.import_module("grpodyn.probes")
    monkeypatch.setattr(package, "__path__", [*package.__path__, str(tmp_path)])
    importlib.invalidate_caches()
    registry.probes.cache_clear()
    yield
    sys.modules.pop(f"grpodyn.probes.{NAME}", None)
    registry.probes.cache_clear()


@pytest.mark.usefixtures("added")
def test_the_probe_is_registered_and_its_tests_pass(request: pytest.FixtureRequest):
    assert registry.probe(NAME).title == "Norm of the stored step over the norm of the gradient"
    tests = page_tests()
    assert set(tests) == {"test_golden", "test_oracle", "test_scale_and_shards", "test_degenerate"}
    for test in tests.values():
        for case in cases(test):
            fixtures = set(inspect.signature(test).parameters) - set(case)
            test(**{name: request.getfixturevalue(name) for name in fixtures}, **case)


@pytest.mark.usefixtures("added")
def test_the_pages_tests_would_catch_a_wrong_probe(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(type(registry.probe(NAME)), "compute", lambda self, moved, pulled: moved / pulled)
    with pytest.raises(AssertionError):
        page_tests()["test_golden"](request.getfixturevalue("measure"))


@pytest.mark.usefixtures("added")
def test_the_catalogue_lists_it_without_an_edit():
    (entry,) = [entry for entry in probe_entries() if entry.name == NAME]
    assert entry.cadence == {"light": 5, "standard": 1, "full": 1}
    assert f"### {NAME}\n" in markdown()


def test_without_the_file_it_does_not_exist():
    assert NAME not in registry.probes()
