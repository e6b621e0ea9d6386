"""An attribution as the command line asks for it: finds subject, prompts and evaluator, and carries it out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from grpodyn import rewards, tasks
from grpodyn.attribution import result, subject
from grpodyn.attribution.evaluators import MIN_SAMPLES, Evaluator, ExactAnswers, SampledRewards, Scored
from grpodyn.attribution.investigate import Options
from grpodyn.attribution.prompts import (
    CONFIRM,
    HeldOutPrompts,
    Seen,
    check_split,
    divided,
    from_file,
    of_splits,
    of_task,
)
from grpodyn.attribution.run import Watcher, attribute
from grpodyn.attribution.subject import Subject
from grpodyn.config import run as run_config
from grpodyn.config.run import RunConfig
from grpodyn.errors import UsageError
from grpodyn.evaluation import held_out_accuracy
from grpodyn.tasks import Examples
from grpodyn.trace.manifest import Manifest
from grpodyn.training import data
from grpodyn.training.quiet import quiet_libraries

_EXACT = "exact_match"
_REPORT = "report"


@dataclass(frozen=True)
class Request:
    """What the caller asks for; the command's options."""

    run: Path | None = None
    base: Path | None = None
    final: Path | None = None
    task: str | None = None
    prompts_file: Path | None = None
    split: str = "choose"
    prompts: int = 500
    samples: int | None = None
    max_tokens: int | None = None
    most: int | None = None
    backend: str = "hf"
    ranks: tuple[int, ...] = (1, 2, 4, 8, 16)
    leading: int = 3
    null_draws: int = 1
    dtype: str | None = None
    batch_size: int = 256
    seed: int = 0


def carry_out(request: Request, folder: Path, watcher: Watcher) -> result.Attribution:
    """Attribute what is asked for, into `folder`.

    Raises:
        UsageError, ConfigError: the request makes no sense.
        MissingDataError, UnreadableError: weights, base or tokenizer are missing or do not fit.
    """
    with quiet_libraries():
        return _carried_out(request, folder, watcher)


def _carried_out(request: Request, folder: Path, watcher: Watcher) -> result.Attribution:
    manifest = Manifest.read(request.run) if request.run is not None else None
    config = _config(manifest)
    judged = config is not None and not (request.task or request.prompts_file) and data.needs_judge(config)
    # What makes no sense is refused before the model is loaded, where its tokenizer is not needed for that.
    prompts = None if judged else _prompts(request, config)
    found = _subject(request)
    if prompts is None:
        prompts = _judged_prompts(request, config, found.tokenizer)
    texts = [*prompts.choose.prompts, *prompts.choose.answers]
    if found.checkpoint is not None:
        subject.check_tokenizers(found.checkpoint, Path(found.final.place), texts)
    scored = _scored(config, found)
    evaluator = _evaluator(request, config, scored, found)

    def baseline() -> dict[str, float] | None:
        return _best_of_base(evaluator, found, prompts.choose, request.batch_size)

    options = Options(ranks=request.ranks, leading=request.leading, null_draws=request.null_draws, seed=request.seed)
    return attribute(
        found,
        prompts,
        evaluator,
        options,
        folder,
        most=request.most,
        watcher=watcher,
        run_id=manifest.run_id if manifest is not None else None,
        baseline=baseline,
    )


def _config(manifest: Manifest | None) -> RunConfig | None:
    if manifest is None or manifest.config is None:
        return None
    return run_config.from_dict(dict(manifest.config), "the run's config")


def _subject(request: Request) -> Subject:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    if request.run is not None:
        return subject.of_run(request.run, request.base, request.final, request.dtype, device)
    if request.base is None or request.final is None:
        raise UsageError("give a RUN, or both --base DIR and --final DIR")
    return subject.of_folders(request.base, request.final, request.dtype, device)


def _prompts(request: Request, config: RunConfig | None) -> HeldOutPrompts:
    seen = _seen(config)
    if request.prompts_file is not None:
        return divided(from_file(request.prompts_file), request.prompts, str(request.prompts_file), seen)
    if request.task is not None:
        return of_task(tasks.task(request.task), request.split, request.prompts, seen)
    if config is None:
        raise UsageError(
            f"{request.run} was recorded by a script of its own and names no task; give --task or --prompts-file"
        )
    made = data.text_task(config.task)
    if made is not None:
        return of_task(made, request.split, request.prompts, seen)
    source = _dataset_split(request, config)
    # All of the split: which half a prompt belongs to is decided by its hash, not by its place.
    return divided(
        data.held_out(config.task, request.split, 1 << 30), request.prompts, source, _but_of(request, config, seen)
    )


def _judged_prompts(request: Request, config: Any, tokenizer: Any) -> HeldOutPrompts:
    """Return prompts with all that the run's rewards read of them."""
    task, template = config.task, config.grpo.get("chat_template_kwargs")
    seen = [(name, data.as_judged(rows, tokenizer, template).prompts) for name, rows in _seen_rows(config)]
    if data.task_of(task) is None:
        source = _dataset_split(request, config)
        found = data.judged(task, request.split, 1 << 30, tokenizer, template)
        return divided(found, request.prompts, source, _but_of(request, config, seen))
    check_split(request.split)
    chosen, confirming = (data.judged(task, split, 1 << 30, tokenizer, template) for split in (request.split, CONFIRM))
    return of_splits(request.split, chosen, confirming, request.prompts, f"task {task.name or task.dataset}", seen)


def _dataset_split(request: Request, config: RunConfig) -> str:
    """Return what the split of a dataset is called that the caller names."""
    if request.split == "choose":
        raise UsageError(
            f"the dataset {config.task.dataset!r} has no split `choose`; name a held-out split with --split (it is "
            "divided by the hash of its prompts: half chooses, half confirms), or give --prompts-file"
        )
    also = ", on which the run's own accuracy was measured" if _report_split(config) == request.split else ""
    return f"{config.task.dataset}, {request.split}{also}"


def _but_of(request: Request, config: RunConfig, seen: Sequence[tuple[str, Sequence[str]]]) -> Seen:
    """Return what was seen, but for the run's own report where the caller names its split: the source says so."""
    named = _report_split(config) == request.split
    return [(name, prompts) for name, prompts in seen if not (named and name == _REPORT)]


def _report_split(config: RunConfig) -> str | None:
    """Return the split of the run's own held-out accuracy; of a task always the one that is kept for comparisons."""
    if data.task_of(config.task) is not None:
        return _REPORT
    return config.evaluate.split if config.evaluate is not None and config.evaluate.prompts else None


def _seen_rows(config: RunConfig) -> list[tuple[str, Any]]:
    """Return the rows that a run was trained on, and those of its own held-out accuracy."""
    task, report = config.task, _report_split(config)
    found: list[tuple[str, Any]] = [("train", data.train_prompts(task))]
    made = data.task_of(task)
    if report is None or report == task.split:
        return found
    # A task's own is kept for comparisons whole, and may be empty; of a dataset the run knows what it measured on.
    if made is None and config.evaluate is not None:
        found.append((_REPORT, data.held_out_rows(task, report, config.evaluate.prompts)))
    elif made is not None and len(made.to_dataset(report)):
        found.append((_REPORT, data.held_out_rows(task, report, 1 << 30)))
    return found


def _seen(config: RunConfig | None) -> list[tuple[str, Sequence[str]]]:
    rows = _seen_rows(config) if config is not None else []
    return [(name, [text for prompt in found["prompt"] for text in _texts(prompt)]) for name, found in rows]


def _texts(prompt: Any) -> list[str]:
    """Return a prompt that is text; of a conversation what its user says."""
    if isinstance(prompt, str):
        return [prompt]
    return [str(message["content"]) for message in prompt if message.get("role") == "user"]


def _scored(config: RunConfig | None, found: Subject) -> Scored:
    if config is None:
        return Scored(((rewards.reward(_EXACT), 1.0),))
    if config.evaluate is not None and config.evaluate.samples is not None:
        # What the run's own held-out accuracy was judged by, so that a gain here is one there.
        judge = next(one for one in config.rewards if config.evaluate.judge in (None, one.recorded_as))
        config = config.model_copy(update={"rewards": [judge.model_copy(update={"weight": 1.0})]})
    return Scored.of_config(config, found.model, found.tokenizer)


def _evaluator(request: Request, config: RunConfig | None, scored: Scored, found: Subject) -> Evaluator:
    grpo: dict[str, Any] = config.grpo if config is not None else {}
    temperature = float(grpo.get("temperature") or 1.0)
    length = request.max_tokens or int(grpo.get("max_completion_length") or 256)
    # With options it gives a reward to more completions than the answer alone.
    only_exact = config is None or [(reward.name, bool(reward.options)) for reward in config.rewards] == [
        (_EXACT, False)
    ]
    own = config.evaluate.samples if config is not None and config.evaluate is not None else None
    samples = request.samples if request.samples is not None else max(MIN_SAMPLES, own or 0)
    if request.backend == "vllm":
        from grpodyn.attribution.vllm_engine import VllmSamples, engine  # noqa: PLC0415  # optional

        dtype = str(found.model.dtype).removeprefix("torch.")
        llm = engine(found.base.place, dtype)
        return VllmSamples(llm, found.tokenizer, scored, samples, length, temperature, request.seed, dtype=dtype)
    if only_exact and request.samples is None:
        return ExactAnswers(found.model, found.tokenizer, temperature, request.batch_size)
    return SampledRewards(
        found.model, found.tokenizer, scored, samples, length, temperature, request.batch_size, request.seed
    )


def _best_of_base(evaluator: Evaluator, found: Subject, examples: Examples, batch_size: int) -> dict[str, float] | None:
    """Return the base's best temperature and its accuracy there; None where accuracy is not exact."""
    if not isinstance(evaluator, ExactAnswers):
        return None
    measured = held_out_accuracy(found.model, found.tokenizer, examples, batch_size=batch_size)
    return {"temperature": measured.best_temperature, "accuracy": measured.best}
