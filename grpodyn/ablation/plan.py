"""What one task of a study trains: its arms, its base and its setup, written down once so that every start agrees."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from grpodyn.ablation.arms import Arm, Variant
from grpodyn.ablation.protocol import RANDOM, Study
from grpodyn.ablation.records import Job, Phase, digest
from grpodyn.errors import SchemaError
from grpodyn.trace import strict_json

FOLDER = "arms"
BASE_ARM = "base"
_POWER_OF = 3.0


@dataclass(frozen=True)
class TaskPlan:
    """One task, ready to be trained."""

    name: str
    setup: Mapping[str, Any]
    arms: Mapping[str, Arm]
    impossible: Mapping[str, str]
    """Arms that this task cannot have, and why."""
    candidate: str
    """The arm that is put to the test."""
    all_linear_parameters: int
    budget: int
    notes: tuple[str, ...]

    def job(self, arm: str, phase: Phase, seed: int, power: int) -> Job:
        """Return one training of an arm."""
        variant = self.arms[arm].at(seed)
        # Rounded, so that the rate in a table is the rate that was used.
        rate = float(f"{variant.learning_rate * _POWER_OF**power:.4g}")
        return Job(self.name, arm, phase, seed, power, rate, variant.parameters, self.setup, variant.trains)

    def base_jobs(self) -> list[Job]:
        """Return the measurements of the base on both splits."""
        return [Job(self.name, BASE_ARM, phase, 0, 0, 0.0, 0, self.setup, {}) for phase in ("base_choose", "base")]

    def lacks(self, study: Study) -> list[str]:
        """Return the arms of a protocol, or draws of theirs, that this plan does not hold."""
        drawn = self.arms.get(RANDOM)
        seeds = {str(seed) for seed in study.all_seeds}
        missing = [arm for arm in study.arms if arm not in self.arms and arm not in self.impossible]
        return missing + ([RANDOM] if drawn is not None and not seeds <= set(drawn.variants) else [])

    def write(self, folder: Path, decided_by: str) -> None:
        """Keep the plan.

        Raises:
            OSError: it cannot be written.
        """
        path = folder / FOLDER / f"{self.name}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        content = {"decided_by": decided_by, **asdict(self)}
        strict_json.replace_file(path, (strict_json.dumps(content, indent=1) + "\n").encode())


def decision(study: Study, setup: Mapping[str, Any], origin: str) -> str:
    """Return a hash of what decides the arms: the setup, where advice comes from, and what size it may have."""
    relevant = study.model_dump(mode="json", include={"name", "source", "rank", "max_fraction", "adapters"})
    return digest([relevant, setup, origin])


def read(folder: Path, name: str, setup: Mapping[str, Any], decided_by: str) -> TaskPlan | None:
    """Return the plan that an earlier start has kept; None if there is none, or what decides it has changed.

    Raises:
        SchemaError: the file is damaged.
    """
    path = folder / FOLDER / f"{name}.json"
    try:
        content = strict_json.read(path)
        if content["decided_by"] != decided_by:
            return None
        arms = {
            arm: Arm(arm, kept["what"], {seed: Variant(**variant) for seed, variant in kept["variants"].items()})
            for arm, kept in content["arms"].items()
        }
        return TaskPlan(
            name=name,
            setup=setup,
            arms=arms,
            impossible=content["impossible"],
            candidate=content["candidate"],
            all_linear_parameters=content["all_linear_parameters"],
            budget=content["budget"],
            notes=tuple(content["notes"]),
        )
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError) as error:
        raise SchemaError(f"{path} holds no arms ({type(error).__name__}: {error}); delete it to plan again") from error
