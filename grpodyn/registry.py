"""Finds probes and analyses by name: a walk of the mapped packages, and entry points of third parties.

Nothing in `grpodyn` imports a probe or an analysis by its module name. Adding one is one file in `probes/` or
`analyses/` and one test file; there is no list to edit.
"""

from __future__ import annotations

import importlib
import inspect
import os
import pkgutil
from functools import cache
from importlib.metadata import entry_points
from typing import Any, cast

from grpodyn.analysis import Analysis
from grpodyn.errors import RegistryError, UnknownNameError
from grpodyn.probe import Probe


def _classes_in(module: Any, base: type) -> list[type]:
    return [
        member
        for member in vars(module).values()
        if inspect.isclass(member)
        and issubclass(member, base)
        and not inspect.isabstract(member)
        and member.__module__ == module.__name__
    ]


def _file_of(cls: type) -> str:
    # Resolved, because one file can be reached by two paths: a checkout and an editable install's link to it.
    return os.path.realpath(inspect.getsourcefile(cls) or cls.__module__)


def _register(found: dict[str, type], cls: type, kind: str) -> None:
    name = getattr(cls, "name", None)
    if not isinstance(name, str):
        raise RegistryError(f'{_file_of(cls)}: {cls.__name__} declares no name; give the {kind} `name = "…"`')
    other = found.get(name)
    if other is not None and _file_of(other) != _file_of(cls):
        raise RegistryError(
            f"two files register the {kind} {name!r}: {_file_of(other)} and {_file_of(cls)}; rename or remove one"
        )
    found[name] = cls


def _walk(package_name: str, base: type, kind: str) -> dict[str, type]:
    found: dict[str, type] = {}
    package = importlib.import_module(package_name)
    for info in pkgutil.iter_modules(package.__path__):
        module = importlib.import_module(f"{package_name}.{info.name}")
        classes = _classes_in(module, base)
        if len(classes) != 1 or getattr(classes[0], "name", None) != info.name:
            names = [getattr(c, "name", c.__name__) for c in classes]
            raise RegistryError(
                f"{module.__file__} must define exactly one {kind} named {info.name!r} (the file's stem); it defines "
                f"{names or 'none'}"
            )
        _register(found, classes[0], kind)
    for entry in entry_points(group=package_name):
        cls = entry.load()
        if not (inspect.isclass(cls) and issubclass(cls, base)) or getattr(cls, "name", None) != entry.name:
            raise RegistryError(
                f"the entry point {entry.name} = {entry.value!r} of group {package_name} must load a {kind} class "
                f"named {entry.name!r}; it loads {cls!r}. Mend or uninstall the package that declares it"
            )
        _register(found, cls, kind)
    return dict(sorted(found.items()))


@cache
def probes() -> dict[str, Probe]:
    """Return every registered probe by name."""
    return {name: cast(Probe, cls()) for name, cls in _walk("grpodyn.probes", Probe, "probe").items()}


@cache
def analyses() -> dict[str, Analysis]:
    """Return every registered analysis by name."""
    return {name: cast(Analysis, cls()) for name, cls in _walk("grpodyn.analyses", Analysis, "analysis").items()}


def probe(name: str) -> Probe:
    """Return the probe of that name.

    Raises:
        UnknownNameError: with the closest known name.
    """
    if name not in probes():
        raise UnknownNameError.among("probe", name, probes())
    return probes()[name]


def analysis(name: str) -> Analysis:
    """Return the analysis of that name.

    Raises:
        UnknownNameError: with the closest known name.
    """
    if name not in analyses():
        raise UnknownNameError.among("analysis", name, analyses())
    return analyses()[name]
