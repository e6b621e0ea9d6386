"""The prompts of a run: a task of this package, or a dataset from a file or the hub."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import datasets

from grpodyn import tasks
from grpodyn.config.run import RunConfig
from grpodyn.config.task import TaskConfig
from grpodyn.errors import ConfigError, did_you_mean
from grpodyn.rewards import KNOWN
from grpodyn.tasks import Examples, Task
from grpodyn.tasks.plain import PlainRows
from grpodyn.tasks.presented import PLACE, Presented, present
from grpodyn.tasks.source import Source
from grpodyn.training.conversations import written


def train_prompts(task: TaskConfig) -> datasets.Dataset:
    """Return the prompts to train on, with the columns `prompt` and, if there is one, `answer`.

    Raises:
        ConfigError: the dataset, its split or a column is missing, or it is empty.
        UnknownNameError: no task, or no split of the task, has that name.
    """
    made = task_of(task)
    data = _columns(_source(task).load(task.split), task) if made is None else made.to_dataset(task.split)
    if task.limit is not None:
        data = data.select(range(min(task.limit, len(data))))
    if len(data) == 0:
        raise ConfigError(f"the split {task.split!r} of {_name(task)!r} holds no prompts")
    return data.map(_conversation(task)) if task.chat else data


def held_out_rows(task: TaskConfig, split: str, prompts: int) -> datasets.Dataset:
    """Return the first `prompts` rows of another split as they would be trained on, with all that rewards read.

    Raises:
        ConfigError: the split is the one trained on, is missing, or it is empty.
        UnknownNameError: the task has no such split.
    """
    if split == task.split:
        raise ConfigError(f"evaluate.split is {split!r}, which is trained on; name a split that is held out")
    return train_prompts(task.model_copy(update={"split": split, "limit": prompts}))


def held_out(task: TaskConfig, split: str, prompts: int) -> Examples:
    """Return the first `prompts` examples of another split.

    Raises:
        ConfigError: the split is the one trained on, is missing or empty, or its prompts or answers are no text.
        UnknownNameError: the task has no such split.
    """
    if split == task.split:
        raise ConfigError(f"evaluate.split is {split!r}, which is trained on; name a split that is held out")
    found = _examples(task, split, prompts)
    if not found.prompts:
        raise ConfigError(
            f"the split {split!r} of {task.name or task.dataset} holds no prompts; name another, or with `task.splits: "
            "hash` give more rows"
        )
    return found


def judged(
    task: TaskConfig, split: str, prompts: int, tokenizer: Any, template: Mapping[str, Any] | None = None
) -> Examples:
    """Return the first `prompts` examples of another split with all that rewards read, for completions that are judged.

    A right answer as text is not needed, and prompts may be conversations.

    Args:
        task: what the run trains on.
        split: another one.
        prompts: at most so many.
        tokenizer: its chat template writes conversations.
        template: more arguments of the chat template, as `grpo.chat_template_kwargs`.

    Raises:
        ConfigError: the split is the one trained on, is missing, or it is empty.
        UnknownNameError: the task has no such split.
    """
    return as_judged(held_out_rows(task, split, prompts), tokenizer, template)


def as_judged(rows: datasets.Dataset, tokenizer: Any, template: Mapping[str, Any] | None = None) -> Examples:
    """Return rows as examples with all their columns; see `judged`."""
    columns = {name: tuple(rows[name]) for name in rows.column_names}
    given = columns.pop("prompt")
    known = columns.get("answer", ())
    answers = tuple(one if isinstance(one, str) else "" for one in known) or ("",) * len(given)
    if all(isinstance(one, str) for one in given):
        return Examples(given, answers, columns)
    texts = tuple(written(one, tokenizer, template) for one in given)
    return Examples(texts, answers, {**columns, "prompt": given})


def measured_on(config: RunConfig, split: str, prompts: int, tokenizer: Callable[[], Any]) -> Examples:
    """Return the first `prompts` examples of another split, with what else they are judged by where a run needs that.

    Args:
        config: of the run.
        split: another one than is trained on.
        prompts: at most so many.
        tokenizer: returns the model's; called only where completions are judged.

    Raises:
        ConfigError, UnknownNameError: as `held_out` and `judged`.
    """
    if not needs_judge(config):
        return held_out(config.task, split, prompts)
    return judged(config.task, split, prompts, tokenizer(), config.grpo.get("chat_template_kwargs"))


def needs_judge(config: RunConfig) -> bool:
    """Return whether a run's held-out completions can only be judged with more than prompts and answers that are text.

    So it is where prompts are conversations, or a reward reads another column than the answer, such as tests.
    """
    if config.task.chat or (config.task.dataset is not None and config.task.answer is None):
        return True
    known = [KNOWN[reward.name] for reward in config.rewards if reward.name in KNOWN]
    return any({*one.columns, *one.one_of} - {"answer"} for one in known)


def _examples(task: TaskConfig, split: str, prompts: int) -> Examples:
    made = text_task(task)
    if made is not None:
        return made.split(split).head(prompts)
    data = _columns(_source(task).load(split), task)
    data = data.select(range(min(prompts, len(data))))
    if task.answer is None:
        raise ConfigError("evaluate needs the right answers: set task.answer to their column, or evaluate to null")
    texts = {column: list(data[column]) for column in ("prompt", "answer")}
    for column, values in texts.items():
        wrong = next((value for value in values if not isinstance(value, str)), None)
        if wrong is not None:
            raise ConfigError(
                f"the exact held-out accuracy needs text in `task.{column}`, found {type(wrong).__name__}; "
                "set evaluate to null"
            )
    return Examples(tuple(texts["prompt"]), tuple(texts["answer"]))


def task_of(task: TaskConfig) -> Task | None:
    """Return the task of a config, its prompts in their template; None for a dataset with splits of its own.

    Raises:
        ConfigError: a dataset or a column is missing, or an option is wrong.
        UnknownNameError: there is no such task.
    """
    source = _source(task) if task.dataset is not None else None
    if task.name is not None:
        made: Any = tasks.task(task.name, task.options, source)
    elif task.splits == "hash":
        made = PlainRows({"prompt": task.prompt, "answer": task.answer, "columns": dict(task.columns)}, source)
    else:
        return None
    # A system's message says how to answer; the task's own instruction would contradict it.
    own = PLACE if task.system is not None else str(getattr(made, "template", PLACE))
    template = task.template or own
    return made if template == PLACE else Presented(made, template)


def text_task(task: TaskConfig) -> Task | None:
    """Return `task_of`, for what needs prompts that are text.

    Raises:
        ConfigError, UnknownNameError: as `task_of`; or prompts are conversations.
    """
    if task.chat:
        raise ConfigError(
            "the exact held-out accuracy needs text in `task.prompt`, and task.chat makes conversations of it; "
            "set evaluate to null"
        )
    return task_of(task)


def describe(task: TaskConfig) -> dict[str, Any]:
    """Return what the manifest says of where the prompts come from; the recorder adds size and fingerprint."""
    return {"name": _name(task), "subset": task.subset, "revision": task.revision, "split": task.split}


def _name(task: TaskConfig) -> str:
    return task.name or task.dataset or ""


def _source(task: TaskConfig) -> Source:
    return Source(str(task.dataset), task.subset, task.revision)


def _conversation(task: TaskConfig) -> Any:
    before = [] if task.system is None else [{"role": "system", "content": task.system}]

    def wrapped(row: dict[str, Any]) -> dict[str, Any]:
        if not isinstance(row["prompt"], str):
            raise ConfigError("task.chat makes messages of text, and the prompts are messages already; set it to false")
        return {"prompt": [*before, {"role": "user", "content": row["prompt"]}]}

    return wrapped


def _columns(data: datasets.Dataset, task: TaskConfig) -> datasets.Dataset:
    """Return the data with the columns that the task names as `prompt` and `answer`; the others keep their names."""
    keys = {"prompt": task.prompt, "answer": task.answer, **task.columns}
    wanted = {column: name for name, column in keys.items() if column is not None}
    for column, name in wanted.items():
        if column not in data.column_names:
            key = f"columns.{name}" if name in task.columns else name
            raise ConfigError(
                f"task.{key} is {column!r}, but the dataset {_name(task)!r} has no such column"
                f"{did_you_mean(column, data.column_names)} (it has: {', '.join(data.column_names)})"
            )
    shadowed = [name for name in wanted.values() if name in data.column_names and name not in wanted]
    data = data.remove_columns(shadowed).rename_columns({old: new for old, new in wanted.items() if old != new})
    for place, prompt in enumerate(data["prompt"][:]):
        if not isinstance(prompt, str | list):
            raise ConfigError(
                f"row {place} of {_name(task)!r} has {prompt!r} as its prompt, in the column {task.prompt!r}; expected "
                "text or a list of messages: set task.prompt to another column, or take such rows out"
            )
    if task.template is None:
        return data
    template = task.template
    return data.map(lambda row: {"prompt": present(row["prompt"], template)})
