"""The contract of a rule, and how rules are found: a walk of the package, by name."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from abc import ABC, abstractmethod
from functools import cache
from typing import Any, ClassVar

from grpodyn.diagnosis import rules as rules_package
from grpodyn.diagnosis.finding import Finding, Severity
from grpodyn.diagnosis.observations import Observations
from grpodyn.errors import RegistryError


class Rule(ABC):
    """One kind of finding. Instances hold no state; the file's stem is the rule's id."""

    id: ClassVar[str]
    title: ClassVar[str]
    """One line for tables."""
    meaning: ClassVar[str]
    """What it means, for the docs."""
    change: ClassVar[str]
    """What to change, for the docs."""
    may_be: ClassVar[tuple[str, ...]]
    """What it may be confused with."""
    config_key: ClassVar[str | None]
    reference: ClassVar[str]
    """Where the rule and its numbers come from."""
    follows_from: ClassVar[tuple[str, ...]] = ()
    """Rules whose finding explains this one: it is then told as what follows from them, not as a fault of its own."""

    @abstractmethod
    def missing(self, seen: Observations) -> str | None:
        """Return what is not there to check this rule, None if it can be checked."""

    @abstractmethod
    def check(self, seen: Observations) -> Finding | None:
        """Return the finding, or None if there is nothing to find. Only called if nothing is missing."""

    def found(
        self,
        severity: Severity,
        onset: int | None,
        *evidence: str,
        patch: dict[str, Any] | None = None,
        may_be: tuple[str, ...] | None = None,
        config_key: str | None = None,
        figures: dict[str, float] | None = None,
    ) -> Finding:
        """Return a finding of this rule."""
        return Finding(
            self.id,
            severity,
            onset,
            evidence,
            self.may_be if may_be is None else may_be,
            self.config_key if config_key is None else config_key,
            patch,
            figures=figures or {},
        )


@cache
def rules() -> dict[str, Rule]:
    """Return every rule by its id.

    Raises:
        RegistryError: a file does not define exactly one rule that is named as the file is.
    """
    found: dict[str, Rule] = {}
    for info in pkgutil.iter_modules(rules_package.__path__):
        module = importlib.import_module(f"{rules_package.__name__}.{info.name}")
        own = [
            member
            for member in vars(module).values()
            if inspect.isclass(member)
            and issubclass(member, Rule)
            and not inspect.isabstract(member)
            and member.__module__ == module.__name__
        ]
        if len(own) != 1 or own[0].id != info.name:
            raise RegistryError(f"{module.__file__} must define exactly one rule with id {info.name!r}")
        found[info.name] = own[0]()
    return found
