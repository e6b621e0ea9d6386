"""Turns pydantic's validation errors into sentences: the key, its value, what was expected, the closest known key."""

from __future__ import annotations

from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_core import ErrorDetails

from grpodyn.errors import ConfigError, did_you_mean

SHOWN_CHARACTERS = 80


class StrictModel(BaseModel):
    """Base of config sections: unknown keys are errors, nothing is coerced from text, instances do not change."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


Model = TypeVar("Model", bound=BaseModel)


def validate(model: type[Model], value: Any, source: str) -> Model:
    """Return `value` as an instance of `model`.

    Args:
        model: the pydantic model that `value` must satisfy.
        value: a mapping, as it came from YAML.
        source: where it comes from, for the message.

    Raises:
        ConfigError: one line per problem, each with the key, the value and what was expected.
    """
    try:
        return model.model_validate(value)
    except ValidationError as error:
        problems = [_sentence(model, details) for details in error.errors(include_url=False)]
        raise ConfigError(f"{source}: " + "; ".join(problems)) from error


def _sentence(model: type[BaseModel], details: ErrorDetails) -> str:
    path = ".".join(str(part) for part in details["loc"])
    if details["type"] == "extra_forbidden":
        known = _known_keys(model, details["loc"][:-1])
        hint = did_you_mean(str(details["loc"][-1]), known) or f" (known: {', '.join(known)})"
        return f"unknown key `{path}`{hint}"
    if details["type"] == "missing":
        return f"`{path}` is missing"
    if details["type"] == "value_error":
        # Raised by our own validators, whose words already say what was expected.
        reason = str(details["ctx"]["error"])
        return f"`{path}`: {reason}" if path else reason
    shown = repr(details["input"])
    if len(shown) > SHOWN_CHARACTERS:
        shown = shown[:SHOWN_CHARACTERS] + "…"
    expectation = details["msg"][0].lower() + details["msg"][1:]
    return f"`{path}` is {shown}: {expectation}"


def _known_keys(model: type[BaseModel], path: tuple[int | str, ...]) -> list[str]:
    section: type[BaseModel] = model
    for part in path:
        field = section.model_fields.get(str(part))
        inner = _model_in(field.annotation) if field is not None else None
        if inner is not None:
            section = inner
    return list(section.model_fields)


def _model_in(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for part in get_args(annotation) if (found := _model_in(part)) is not None), None)
