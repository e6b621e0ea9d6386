"""The prompts of a run: a task of this package, or a dataset from a file or the hub."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import datasets

from grpodyn import tasks
from grpodyn.config.run import TaskConfig
from grpodyn.errors import ConfigError, did_you_mean
from grpodyn.tasks import Examples

# File endings that `datasets` reads without code from the dataset, by the name of its builder.
_BUILDERS = {".jsonl": "json", ".json": "json", ".parquet": "parquet", ".csv": "csv"}


def train_prompts(task: TaskConfig) -> datasets.Dataset:
    """Return the prompts to train on, with the columns `prompt` and, if there is one, `answer`.

    Raises:
        ConfigError: the dataset, its split or a column is missing, or it is empty.
        UnknownNameError: no task, or no split of the task, has that name.
    """
    if task.name is not None:
        data = tasks.task(task.name).to_dataset(task.split)
    else:
        data = _columns(_load(task, task.split), task)
    if task.limit is not None:
        data = data.select(range(min(task.limit, len(data))))
    if len(data) == 0:
        raise ConfigError(f"the split {task.split!r} of {_name(task)!r} holds no prompts")
    return data


def held_out(task: TaskConfig, split: str, prompts: int) -> Examples:
    """Return the first `prompts` examples of another split.

    Raises:
        ConfigError: the split is the one trained on, is missing, or its prompts or answers are no text.
        UnknownNameError: the task has no such split.
    """
    if split == task.split:
        raise ConfigError(f"evaluate.split is {split!r}, which is trained on; name a split that is held out")
    if task.name is not None:
        return tasks.task(task.name).split(split).head(prompts)
    data = _columns(_load(task, split), task)
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


def describe(task: TaskConfig) -> dict[str, Any]:
    """Return what the manifest says of where the prompts come from; the recorder adds size and fingerprint."""
    return {"name": _name(task), "subset": task.subset, "revision": task.revision, "split": task.split}


def _name(task: TaskConfig) -> str:
    return task.name or task.dataset or ""


def _load(task: TaskConfig, split: str) -> datasets.Dataset:
    source = str(task.dataset)
    file = Path(source).expanduser()
    builder = _BUILDERS.get(file.suffix.lower())
    if builder is not None and not file.is_file():
        raise ConfigError(f"task.dataset {source!r}: there is no such file")
    try:
        if builder is not None:
            # A file has one split; which part of it is asked for is said as in `train[:90%]`.
            return datasets.load_dataset(builder, data_files={"train": str(file)}, split=split)
        return datasets.load_dataset(source, task.subset, revision=task.revision, split=split)
    except (OSError, ValueError, datasets.exceptions.DatasetsError) as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise ConfigError(
            f"task.dataset {source!r} (split {split!r}) cannot be loaded: {reason}; give a hub name, or a "
            f"{', '.join(_BUILDERS)} file"
        ) from error


def _columns(data: datasets.Dataset, task: TaskConfig) -> datasets.Dataset:
    """Return the data with the columns that the task names as `prompt` and `answer`; the others keep their names."""
    wanted = {column: name for name, column in (("prompt", task.prompt), ("answer", task.answer)) if column is not None}
    for column, name in wanted.items():
        if column not in data.column_names:
            raise ConfigError(
                f"task.{name} is {column!r}, but the dataset {_name(task)!r} has no such column"
                f"{did_you_mean(column, data.column_names)} (it has: {', '.join(data.column_names)})"
            )
    shadowed = [name for name in wanted.values() if name in data.column_names and name not in wanted]
    data = data.remove_columns(shadowed).rename_columns({old: new for old, new in wanted.items() if old != new})
    if task.chat:
        data = data.map(lambda row: {"prompt": [{"role": "user", "content": row["prompt"]}]})
    return data
