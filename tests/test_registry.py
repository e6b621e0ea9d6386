"""Probes and analyses are found by name, and two files never share one."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from grpodyn import registry
from grpodyn.errors import RegistryError, UnknownNameError

PROBES = Path(__file__).parents[1] / "probes"

PROBE = '''
from grpodyn.probe import Need, TensorProbe

class Copied(TensorProbe):
    """A copy of grad_norm."""
    name = {name!r}
    title = "A copy"
    group = "tensors"
    dims = ("row", "tensor")
    needs = frozenset({{Need.GRADIENT}})
    reference = "none"

    def measure(self, sample):
        return (sample.squared_norm(Need.GRADIENT),)

    def compute(self, *sums):
        return sums[0]
'''


class EntryPoint:
    """What `importlib.metadata` gives for a third party's declaration."""

    def __init__(self, name: str, loaded: object) -> None:
        self.name, self.value, self.loaded = name, "third_party.probes:Thing", loaded

    def load(self) -> object:
        return self.loaded


@pytest.fixture(autouse=True)
def fresh_registry() -> Iterator[None]:
    """Nothing that a test registers outlives it."""
    before = set(sys.modules)
    registry.probes.cache_clear()
    registry.analyses.cache_clear()
    yield
    for name in set(sys.modules) - before:
        if name.startswith(("grpodyn.probes.", "third_party")):
            del sys.modules[name]
    registry.probes.cache_clear()
    registry.analyses.cache_clear()


@pytest.fixture
def entry_point(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, object], None]:
    """Return a function that declares one third-party probe."""

    def declare(name: str, loaded: object) -> None:
        def entry_points(*, group: str) -> list[EntryPoint]:
            return [EntryPoint(name, loaded)] if group == "grpodyn.probes" else []

        monkeypatch.setattr(registry, "entry_points", entry_points)

    return declare


def load(path: Path, module: str = "third_party_probe") -> object:
    """Return the class that a file defines, imported under another module name."""
    spec = importlib.util.spec_from_file_location(module, path)
    loaded = importlib.util.module_from_spec(spec)
    sys.modules[module] = loaded
    spec.loader.exec_module(loaded)
    return next(cls for cls in vars(loaded).values() if getattr(cls, "__module__", None) == module)


def test_every_file_is_registered_under_its_stem():
    files = {path.stem for path in PROBES.glob("*.py")} - {"__init__"}
    assert set(registry.probes()) == files
    assert list(registry.probes()) == sorted(files)
    analyses = {path.stem for path in (PROBES.parent / "analyses").glob("*.py")} - {"__init__"}
    assert set(registry.analyses()) == analyses


def test_by_name():
    assert registry.probe("grad_norm").name == "grad_norm"
    for name in registry.analyses():
        assert registry.analysis(name).name == name


@pytest.mark.parametrize("find", [registry.probe, registry.analysis])
def test_an_unknown_name_lists_what_there_is(find: Callable[[str], object]):
    with pytest.raises(UnknownNameError, match=r"unknown (probe|analysis) 'zzz' \(known: .*_"):
        find("zzz")


def test_a_misspelt_name_suggests_the_closest():
    with pytest.raises(UnknownNameError, match="'grad_nrom'; did you mean 'grad_norm'"):
        registry.probe("grad_nrom")


def test_a_new_file_is_found_without_editing_a_list(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "brand_new.py").write_text(PROBE.format(name="brand_new"))
    extend_probes(tmp_path, monkeypatch)
    assert registry.probe("brand_new").title == "A copy"


@pytest.mark.parametrize("name", ["other_name", "grad_norm"])
def test_a_stem_that_differs_from_the_name(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "brand_new.py").write_text(PROBE.format(name=name))
    extend_probes(tmp_path, monkeypatch)
    with pytest.raises(RegistryError, match=rf"brand_new\.py must define exactly one probe named 'brand_new'.*{name}"):
        registry.probes()


def test_a_file_without_a_probe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "brand_new.py").write_text("ANSWER = 42\n")
    extend_probes(tmp_path, monkeypatch)
    with pytest.raises(RegistryError, match="it defines none"):
        registry.probes()


def test_a_third_partys_entry_point_is_registered(tmp_path: Path, entry_point: Callable[[str, object], None]):
    (tmp_path / "theirs.py").write_text(PROBE.format(name="theirs"))
    entry_point("theirs", load(tmp_path / "theirs.py"))
    assert registry.probe("theirs").title == "A copy"
    assert "grad_norm" in registry.probes()


def test_two_files_with_one_name_raise_with_both_paths(tmp_path: Path, entry_point: Callable[[str, object], None]):
    (tmp_path / "grad_norm.py").write_text(PROBE.format(name="grad_norm"))
    entry_point("grad_norm", load(tmp_path / "grad_norm.py"))
    with pytest.raises(RegistryError) as error:
        registry.probes()
    assert str(PROBES / "grad_norm.py") in str(error.value)
    assert str(tmp_path / "grad_norm.py") in str(error.value)
    assert "rename or remove one" in str(error.value)


def test_the_same_file_twice_is_accepted(entry_point: Callable[[str, object], None]):
    entry_point("grad_norm", load(PROBES / "grad_norm.py"))
    assert registry.probe("grad_norm").name == "grad_norm"


def test_the_same_file_by_a_link_is_accepted(tmp_path: Path, entry_point: Callable[[str, object], None]):
    (tmp_path / "grad_norm.py").symlink_to(PROBES / "grad_norm.py")
    entry_point("grad_norm", load(tmp_path / "grad_norm.py"))
    assert registry.probe("grad_norm").name == "grad_norm"


@pytest.mark.parametrize("loaded", [42, int, "grad_norm"])
def test_an_entry_point_that_is_no_probe(loaded: object, entry_point: Callable[[str, object], None]):
    entry_point("theirs", loaded)
    with pytest.raises(RegistryError, match=r"theirs = 'third_party\.probes:Thing'.*must load a probe class"):
        registry.probes()


def test_an_entry_point_under_another_name(tmp_path: Path, entry_point: Callable[[str, object], None]):
    (tmp_path / "theirs.py").write_text(PROBE.format(name="theirs"))
    entry_point("ours", load(tmp_path / "theirs.py"))
    with pytest.raises(RegistryError, match="named 'ours'"):
        registry.probes()


def extend_probes(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the package of probes see the files of another folder too, as if they lay in `probes/`."""
    package = importlib.import_module("grpodyn.probes")
    monkeypatch.setattr(package, "__path__", [*package.__path__, str(folder)])
    importlib.invalidate_caches()
