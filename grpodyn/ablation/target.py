"""What `grpodyn ablate` is pointed at: a recorded run, a run config, or a study of several tasks. No torch."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from grpodyn.ablation.protocol import Study, is_study, load_study, restricted, without
from grpodyn.config import run as run_config
from grpodyn.config import yaml_text
from grpodyn.config.run import RunConfig
from grpodyn.config.validation import validate
from grpodyn.errors import ConfigError, UsageError
from grpodyn.trace import strict_json
from grpodyn.trace.manifest import Manifest
from grpodyn.trace.schema import MANIFEST

FOLDER = "ablation"
"""Where an ablation of a run keeps its results, inside the run directory."""
SOURCES = "sources"
"""Where a study keeps the run that each task's advice comes from, in its folder."""
RUNS = Path("runs")


@dataclass(frozen=True)
class Target:
    """What is ablated, and where results go."""

    study: Study
    configs: Mapping[str, RunConfig]
    """By task."""
    folder: Path
    beside: Path
    """The folder that the protocol's paths are relative to."""
    protocol_sha256: str
    """Of the protocol's file and of the run configs that it names."""
    run: Path | None = None
    """The recorded run under test; None for a study, which trains its own."""
    say: Callable[[str], None] = field(default=lambda text: None)


@dataclass(frozen=True)
class Wishes:
    """What the command line changes of the protocol."""

    arms: list[str] | None = None
    seeds: int | None = None
    steps: int | None = None
    settings: tuple[str, ...] = ()
    adapters: Mapping[str, str] | None = None
    """Arms of one's own: name → file, relative to the working directory."""
    advice: Path | None = None
    """An adapter to put to the test instead of what the run's advice is at `max_fraction`."""
    max_fraction: float | None = None
    rank: int | None = None
    tune: bool = True
    output: Path | None = None


def find(path: Path, wishes: Wishes, say: Callable[[str], None]) -> tuple[Target, Path]:
    """Return the target that a path names, and the folder of its `ablation.json`.

    Raises:
        ConfigError, UnknownNameError: the config or the protocol does not validate.
        UsageError: the run holds no config to train with.
    """
    if path.is_dir():
        return _of_run(path, wishes, say)
    raw = yaml_text.read(path)
    if is_study(raw):
        study, configs = load_study(path)
        if wishes.settings:
            raise UsageError("--set changes one run config, and a study has several; change them in their files")
    else:
        config = run_config.from_dict(raw, str(path), wishes.settings)
        study, configs = _single(path.stem), {path.stem: config}
    study = _as_wished(study, wishes, path.parent)
    folder = wishes.output or RUNS / f"{study.name}-ablation"
    digest = _sha256(path, *(path.parent / task.config for task in study.tasks if task.config))
    target = Target(study, _with_steps(configs, wishes.steps), folder, path.parent, digest, say=say)
    return target, folder


def _of_run(path: Path, wishes: Wishes, say: Callable[[str], None]) -> tuple[Target, Path]:
    if not (path / MANIFEST).is_file():
        raise UsageError(f"{path} is a folder without a {MANIFEST}; give a run directory or a YAML file")
    recorded = Manifest.read(path).config
    if recorded is None:
        raise UsageError(
            f"{path} was recorded by a script of its own and holds no run config to train with; write one (see "
            "docs/run-config.md) and ablate that"
        )
    name = path.resolve().name
    config = run_config.from_dict(dict(recorded), f"the config of {path}", wishes.settings)
    study = _as_wished(_single(name, config.seed), wishes, Path.cwd())
    folder = wishes.output or path / FOLDER
    digest = hashlib.sha256(strict_json.dumps(study.model_dump(mode="json")).encode()).hexdigest()
    target = Target(study, _with_steps({name: config}, wishes.steps), folder, Path.cwd(), digest, run=path, say=say)
    return target, wishes.output or path


def _single(name: str, source_seed: int | None = None) -> Study:
    """The default protocol around one task; what a run was trained on decides nothing else."""
    section: dict[str, Any] = {"name": name, "tasks": [{"name": name, "config": ""}]}
    if source_seed is not None:
        plain = validate(Study, section, "the default study")
        tuned = plain.tuning.seeds if plain.tuning else []
        section["source"] = {"seed": source_seed}
        section["seeds"] = section["other_seeds"] = without(source_seed, plain.seeds)
        section["tuning"] = {"seeds": without(source_seed, tuned)}
    return validate(Study, section, "the default study")


def _as_wished(study: Study, wishes: Wishes, beside: Path) -> Study:
    changes: dict[str, Any] = {}
    if wishes.adapters:
        # Absolute, as a study's own paths are relative to its file.
        own = {name: str(Path(file).resolve()) for name, file in wishes.adapters.items()}
        changes["adapters"] = {**study.adapters, **own}
        changes["arms"] = list(dict.fromkeys([*study.arms, *own]))
    if wishes.advice is not None:
        if len(study.tasks) != 1:
            raise UsageError(f"--advice {wishes.advice} is for one task, and the study has {len(study.tasks)}")
        if not wishes.advice.is_file():
            raise ConfigError(f"there is no adapter file {wishes.advice}")
        task = study.tasks[0].model_dump()
        changes["tasks"] = [{**task, "advice": str(wishes.advice.resolve())}]
    if wishes.max_fraction is not None:
        changes["max_fraction"] = wishes.max_fraction
    if wishes.rank is not None:
        changes["rank"] = wishes.rank
    if not wishes.tune:
        changes["tuning"] = None
    if changes:
        study = validate(Study, {**study.model_dump(), **changes}, "the study with the options given")
    missing = [path for path in study.adapters.values() if not (beside / path).is_file()]
    if missing:
        raise ConfigError(f"there is no adapter file {beside / missing[0]}")
    return restricted(study, arms=wishes.arms, seeds=wishes.seeds)


def _with_steps(configs: Mapping[str, RunConfig], steps: int | None) -> dict[str, RunConfig]:
    if steps is None:
        return dict(configs)
    if steps < 1:
        raise UsageError(f"--steps {steps}: expected at least 1")
    return {name: c.model_copy(update={"grpo": {**c.grpo, "max_steps": steps}}) for name, c in configs.items()}


def _sha256(*paths: Path) -> str:
    """Return the hash of files, one after the other: of a study, its own and the run configs that it names."""
    return hashlib.sha256(b"".join(path.read_bytes() for path in paths)).hexdigest()
