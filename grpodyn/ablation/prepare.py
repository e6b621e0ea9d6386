"""From a protocol to what each task trains: the source run, its advice, and the arms."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from grpodyn.ablation import activations, plan
from grpodyn.ablation.arms import Advised, ArmBuilder, Base
from grpodyn.ablation.bench import setup_of
from grpodyn.ablation.plan import TaskPlan
from grpodyn.ablation.protocol import NEEDS_SOURCE, TaskEntry
from grpodyn.ablation.signals import Signals
from grpodyn.ablation.source import Source, patch_test, read_advice, read_source, train_source
from grpodyn.ablation.target import SOURCES, Target
from grpodyn.attribution.result import FILE as ATTRIBUTION
from grpodyn.config.lora_file import LoraFile, read_lora
from grpodyn.config.run import RunConfig
from grpodyn.errors import ConfigError
from grpodyn.lora import twin
from grpodyn.trace.reader import open_run
from grpodyn.training import data, loading
from grpodyn.training.display import Display
from grpodyn.training.quiet import quiet_libraries

_INPUT_EXAMPLES = 256


class Stopped(Exception):  # noqa: N818 - not an error
    """The source run was stopped before its end."""


def prepare(target: Target, task: TaskEntry, display: Display) -> TaskPlan:
    """Return what a task trains, from what an earlier start has kept or anew.

    Raises:
        Stopped: its source run was stopped by the user.
        ConfigError, UnknownNameError: the protocol cannot be carried out.
    """
    config = target.configs[task.name]
    with quiet_libraries():
        setup = setup_of(config, target.study.measure)
    builder = _Origin(target, task, config, display)
    decided_by = plan.decision(target.study, setup, builder.identity())
    kept = plan.read(target.folder, task.name, setup, decided_by)
    lacking = list(target.study.arms) if kept is None else kept.lacks(target.study)
    if kept is not None and not lacking:
        return kept
    with quiet_libraries():
        made = builder.build()
        arms, impossible = made.build(lacking)
    result = TaskPlan(
        name=task.name,
        setup=setup,
        arms={**(kept.arms if kept else {}), **arms},
        impossible={**(kept.impossible if kept else {}), **impossible},
        candidate=made.candidate,
        all_linear_parameters=made.all_linear_parameters,
        budget=made.budget,
        notes=builder.notes,
    )
    result.write(target.folder, decided_by)
    return result


class _Origin:
    """Where the advice of one task comes from."""

    def __init__(self, target: Target, task: TaskEntry, config: RunConfig, display: Display) -> None:
        self._target = target
        self._task = task
        self._config = config
        self._display = display

    @property
    def _file(self) -> Path | None:
        return None if self._task.advice is None else self._target.beside / self._task.advice

    @cached_property
    def _directory(self) -> Path | None:
        """The source run; trained if the protocol says so."""
        if self._target.run is not None:
            return self._target.run
        if self._file is not None or not NEEDS_SOURCE & set(self._target.study.arms):
            return None
        directory = self._target.folder / SOURCES / self._task.name
        if not train_source(self._config, self._target.study, directory, self._display):
            raise Stopped
        patch_test(directory, self._target.study, self._target.say)
        return directory

    @cached_property
    def _source(self) -> Source | None:
        return None if self._directory is None else read_source(self._directory, self._target.study)

    def identity(self) -> str:
        """Return what the advice depends on: a file's content, a run and its patch test, or both."""
        return " ".join(part for part in (self._file_identity(), self._run_identity()) if part)

    def _file_identity(self) -> str:
        if self._file is None:
            return ""
        try:
            return hashlib.sha256(self._file.read_bytes()).hexdigest()
        except OSError as error:
            raise ConfigError(f"{self._file} cannot be read: {error.strerror or error}") from error

    def _run_identity(self) -> str:
        directory = self._directory
        if directory is None:
            return ""
        run = open_run(directory)
        patched = directory / ATTRIBUTION
        tested = hashlib.sha256(patched.read_bytes()).hexdigest() if patched.is_file() else "not patch-tested"
        return f"{run.manifest.run_id} {run.last_step} {tested}"

    @property
    def notes(self) -> tuple[str, ...]:
        """What did not go as planned."""
        return () if self._source is None or self._file is not None else self._source.notes

    def build(self) -> ArmBuilder:
        """Return the builder of this task's arms."""
        advised: Advised | None = None
        signals: Signals | None = None
        if self._source is not None:
            advised, signals = self._source.advised, self._source.signals
        if self._file is not None:
            advised = read_advice(self._file)
        architecture = loading.load_architecture(self._config.model)
        named = (architecture.architectures or [""])[0]
        model_twin = twin.build({"class": named, "config": architecture.to_dict()})
        return ArmBuilder(
            self._target.study,
            self._config,
            model_twin,
            advised=advised,
            signals=signals,
            base=self._base(model_twin),
            adapters=self._adapters(),
        )

    def _adapters(self) -> dict[str, LoraFile]:
        return {name: read_lora(self._target.beside / path) for name, path in self._target.study.adapters.items()}

    def _base(self, model_twin: twin.Twin) -> Base:
        linear = model_twin.linear

        def inputs() -> tuple[Any, Any]:
            model = loading.load_model(self._config.model)
            tokenizer = loading.load_tokenizer(self._config.model)
            split = self._target.study.measure.tuning_split
            examples = data.measured_on(self._config, split, _INPUT_EXAMPLES, lambda: tokenizer)
            return model, activations.batches(tokenizer, examples, model.device)

        def eva(rank: int) -> Mapping[str, int]:
            model, batches = inputs()
            return activations.eva_ranks(model, linear, batches, rank)

        def norms() -> Mapping[str, float]:
            model, batches = inputs()
            return activations.feature_norms(model, linear, batches)

        return Base(eva, norms)
