"""A base model, its task and its measurements, loaded once; trains one arm after the other from it."""

from __future__ import annotations

import copy
import gc
import importlib.metadata
import json
import math
import resource
import tempfile
import time
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from datasets import Dataset

from grpodyn.ablation.cooling import CooledBase
from grpodyn.ablation.measuring import SAMPLED_TEMPERATURES, Curve, Measured, Sampling, measure, measure_sampled
from grpodyn.ablation.protocol import Measure
from grpodyn.ablation.records import Job, Phase, Record, digest
from grpodyn.ablation.temperature import learn_temperature
from grpodyn.attribution.evaluators import MIN_SAMPLES, Scored
from grpodyn.config import run as run_config
from grpodyn.config.batching import TRL_DEFAULTS
from grpodyn.config.run import ModelConfig, RunConfig
from grpodyn.errors import ConfigError
from grpodyn.evaluation import exact_accuracy
from grpodyn.evaluation.drift import StartSamples, forward_drift, sample_start
from grpodyn.evaluation.perplexity import window_losses
from grpodyn.evaluation.text import read_text, windows
from grpodyn.recording.checkpoint_files import CheckpointFiles
from grpodyn.tasks import Examples
from grpodyn.trace.manifest import utc_now
from grpodyn.training import checks, data, loading
from grpodyn.training.arguments import grpo_arguments, lora_arguments
from grpodyn.training.build import assemble
from grpodyn.training.quiet import quiet_libraries

_PACKAGES = ("grpodyn", "torch", "transformers", "trl", "peft")
_DRIFT_PROMPTS = 256
_EXACT = "exact_match"
_WINDOW, _WINDOWS = 256, 200
_SMALL = 20_000_000


def setup_of(config: RunConfig, measurement: Measure) -> dict[str, Any]:
    """Return what the trainings of one task have in common, as plain values: their results compare if it is equal.

    Raises:
        ConfigError: the model, the prompts or a split cannot be found.
        UnknownNameError: there is no such task or split.
    """
    # Without what is at its default: a key that a later version adds must not make every result a stranger.
    plain = config.model_dump(mode="json", include={"model", "task", "rewards", "grpo"}, exclude_defaults=True)
    left_out = {"learning_rate", *run_config.SECRET_GRPO_KEYS}
    plain["grpo"] = {key: value for key, value in plain["grpo"].items() if key not in left_out}
    tokenizer = cache(lambda: loading.load_tokenizer(config.model))
    prompts = _trained_on(config, tokenizer())
    splits = {
        config.task.split: _hash(prompts["prompt"], prompts["answer"] if "answer" in prompts.column_names else [])
    }
    # Conversations are compared as the model reads them.
    trained_on = data.as_judged(prompts, tokenizer()).prompts if config.task.chat else map(str, prompts["prompt"])
    seen = dict.fromkeys(trained_on, config.task.split)
    for split in (measurement.tuning_split, measurement.split):
        examples = data.measured_on(config, split, measurement.prompts, tokenizer)
        beside = [json.dumps(values, default=str) for values in examples.columns.values()]
        splits[split] = _hash(examples.prompts, [*examples.answers, *beside])
        shared = seen.keys() & set(examples.prompts)
        if shared:
            raise ConfigError(
                f"{len(shared)} prompts of the split {split!r} are also in {seen[min(shared)]!r} (the first: "
                f"{min(shared)!r}); what was trained or tuned on is no test"
            )
        seen |= dict.fromkeys(examples.prompts, split)
    found = {
        "config": plain,
        "measure": measurement.model_dump(mode="json", exclude={"level"}),
        "model_sha256": fingerprint(config.model),
        "splits": splits,
    }
    texts = config.evaluate.texts if config.evaluate is not None else []
    if texts:
        found["texts"] = {source: read_text(source).digest for source in texts}
    return found


def _trained_on(config: RunConfig, tokenizer: Any) -> Dataset:
    """Return the prompts of a task as `record` trains on them: those that are too long dropped, if asked for."""
    return checks.fitting(config, data.train_prompts(config.task), tokenizer)


def fingerprint(model: ModelConfig) -> str:
    """Return a hash of a local model's weights, or a hub model's name and revision.

    Raises:
        ConfigError: the path can only be a folder, and there is no model in it.
    """
    folder = Path(loading.model_location(model))
    if folder.is_dir():
        return digest(CheckpointFiles(folder).sha256())
    return f"{model.path}@{model.revision or 'main'}"


class Bench:
    """Trains and measures the jobs of one setup."""

    def __init__(self, setup: Mapping[str, Any]) -> None:
        """Load the base and the prompts.

        Raises:
            ConfigError: as `setup_of`.
        """
        self._setup = setup
        self.config = run_config.from_dict({**setup["config"], "evaluate": None}, "the study's run config")
        self._measure = Measure.model_validate(setup["measure"])
        with quiet_libraries():
            self.tokenizer = loading.load_tokenizer(self.config.model)
            self.base = loading.load_model(self.config.model)
            self.base.to(grpo_arguments(self.config, Path(tempfile.gettempdir())).device)
            self.prompts = _trained_on(self.config, self.tokenizer)
            self._splits = {
                split: data.measured_on(self.config, split, self._measure.prompts, lambda: self.tokenizer)
                for split in (self._measure.tuning_split, self._measure.split)
            }
        self._curve_examples = self._splits[self._measure.tuning_split].head(self._measure.curve_prompts)
        texts = [read_text(source) for source in setup.get("texts", ())]
        self._texts = {text.name: windows(text, self.tokenizer, _WINDOW, _WINDOWS) for text in texts}
        self._sampling = self._sampled()
        self._cooled: CooledBase | None = None
        self._completions: StartSamples | None = None

    @property
    def is_small(self) -> bool:
        """Whether threads of one training would mostly wait for each other (measured: ten times slower, busy cores)."""
        return bool(self.base.device.type == "cpu" and self.base.num_parameters() < _SMALL)

    def examples(self, phase: Phase) -> tuple[str, Examples]:
        """Return the split that a job is measured on: only what is tested sees the one that arms are compared on."""
        split = self._measure.tuning_split if phase in ("tune", "base_choose") else self._measure.split
        return split, self._splits[split]

    def run(self, job: Job) -> Record:
        """Train and measure one job. The base stays as it is.

        Raises:
            ConfigError: TRL or PEFT refuses the job.
        """
        started, cpu = time.perf_counter(), _cpu_seconds()
        with quiet_libraries():
            model, curve = self._trained(job) if job.trains else (self.base, self._start())
            split, examples = self.examples(job.phase)
            measured = self._measured(model, examples, job.phase)
            kl, skill = self._beside_base(model, measured, examples) if job.phase == "test" else (math.nan, math.nan)
            perplexity = self._perplexity(model) if job.phase in ("test", "base") else {}
        record = Record(
            key=job.key,
            setup=job.setup_key,
            task=job.task,
            arm=job.arm,
            phase=job.phase,
            seed=job.seed,
            power=job.power,
            learning_rate=job.learning_rate,
            parameters=job.parameters,
            split=split,
            split_sha256=str(self._setup["splits"][split]),
            prompts=len(examples),
            accuracy=measured.accuracy,
            greedy=measured.by_temperature[0.0],
            best_temperature=measured.best_temperature,
            best=measured.by_temperature[measured.best_temperature],
            by_temperature={f"{t:g}": value for t, value in measured.by_temperature.items()},
            pass_at=measured.pass_at,
            kl=kl,
            skill_gain=skill,
            perplexity=perplexity,
            curve=tuple(curve),
            seconds=time.perf_counter() - started,
            cpu_seconds=_cpu_seconds() - cpu,
            error=None,
            created_at=utc_now(),
            versions={name: importlib.metadata.version(name) for name in _PACKAGES},
        )
        del model
        if not self.is_small:
            # A trainer and its model hold each other; of small ones the collector may take its time.
            gc.collect()
        return record

    def _trained(self, job: Job) -> tuple[Any, list[tuple[int, float]]]:
        grpo = {**self.config.grpo, "learning_rate": job.learning_rate, "save_strategy": "no"}
        config = self.config.model_copy(update={"grpo": grpo, "seed": job.seed, "lora": job.trains.get("lora")})
        model = copy.deepcopy(self.base)
        if job.trains.get("temperature"):
            learn_temperature(model)
        curve = Curve(self._measure.curve_every, self._curve_accuracy)
        callbacks = [curve] if self._sampling is None else []
        with tempfile.TemporaryDirectory() as folder:
            arguments = grpo_arguments(config, Path(folder))
            lora = lora_arguments(config)
            trainer = assemble(config, arguments, model, self.tokenizer, self.prompts, lora, callbacks)
            count = sum(p.numel() for p in trainer.model.parameters() if p.requires_grad)
            if count != job.parameters:
                raise ConfigError(f"{job.arm} trains {count} parameters where {job.parameters} were planned")
            trainer.train()
        if not all(bool(p.isfinite().all()) for p in trainer.model.parameters() if p.requires_grad):
            raise ConfigError(f"{job.arm} at learning rate {job.learning_rate:g} has diverged: weights are not finite")
        return trainer.model, curve.points

    def _measured(self, model: Any, examples: Examples, phase: Phase) -> Measured:
        if self._sampling is None:
            return measure(model, self.tokenizer, examples)
        temperatures = SAMPLED_TEMPERATURES if phase in ("base", "base_choose") else (1.0,)
        return measure_sampled(model, self.tokenizer, examples, self._sampling, temperatures)

    def _start(self) -> list[tuple[int, float]]:
        if self._sampling is not None:
            return []
        return [(0, self._curve_accuracy(self.base))]

    def _curve_accuracy(self, model: Any) -> float:
        examples = self._curve_examples
        return exact_accuracy(model, self.tokenizer, examples.prompts, examples.answers)

    def _beside_base(self, model: Any, measured: Measured, examples: Examples) -> tuple[float, float]:
        """Return the drift from the base, and the gain over the base made as sure as the model."""
        if examples.templated:
            # Drift takes prompts as text and would write the template's special tokens a second time.
            return math.nan, math.nan
        prompts = examples.head(_DRIFT_PROMPTS).prompts
        tokens = self._completion_length()
        if self._completions is None:
            self._completions = sample_start(self.base, self.tokenizer, prompts, max_new_tokens=tokens)
        kl = forward_drift(model, self._completions).per_token
        if self._sampling is not None:
            return kl, math.nan
        if self._cooled is None:
            self._cooled = CooledBase(self.base, self.tokenizer, prompts, tokens)
        return kl, self._cooled.skill_gain(model, measured.accuracy, examples)

    def _completion_length(self) -> int:
        return int(self.config.grpo.get("max_completion_length") or TRL_DEFAULTS["max_completion_length"])

    def _sampled(self) -> Sampling | None:
        """How completions are sampled; None where the right answer has one spelling and its probability is exact."""
        rewarded = self.config.rewards
        if self._measure.samples is None and [reward.name for reward in rewarded] == [_EXACT]:
            return None
        scored = Scored.of_config(self.config, self.base, self.tokenizer)
        return Sampling(scored, self._measure.samples or MIN_SAMPLES, self._completion_length())

    def _perplexity(self, model: Any) -> dict[str, float]:
        return {name: window_losses(model, cut).perplexity for name, cut in self._texts.items()}


def _cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _hash(prompts: Iterable[str], answers: Iterable[str]) -> str:
    return digest([list(map(str, prompts)), list(map(str, answers))])
