"""The manifest of a run: `run.json`."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from grpodyn.errors import NotARunError, SchemaError, UnknownNameError
from grpodyn.trace import strict_json
from grpodyn.trace.schema import MANIFEST, SCHEMA_VERSION

Json = dict[str, Any]
RunStatus = Literal["running", "finished", "stopped_early", "failed"]


def utc_now() -> str:
    """Return the time as ISO 8601 in UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def _numbered(segments: list[Json]) -> list[Json]:
    """Check what readers count on: which rows hold is decided by these two numbers."""
    for segment in segments:
        for key in ("index", "start_step"):
            if type(segment.get(key)) is not int or segment[key] < 0:
                raise ValueError(f"{key} is {segment.get(key)!r}, expected a whole number from 0")
    return segments


def _mapping(value: Any) -> Mapping[str, Any]:
    # A manifest may be anybody's: what is of another type says nothing, and is no reason to refuse the run's arrays.
    return value if isinstance(value, Mapping) else {}


class Manifest(BaseModel):
    """What a run is: written once at the start, replaced whole when something about the run changes."""

    # A later minor version may add fields; a run that has them is still readable.
    model_config = ConfigDict(extra="allow")

    schema_version: int = SCHEMA_VERSION
    run_id: str = Field(default_factory=lambda: f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{uuid.uuid4().hex[:6]}")
    created_at: str = Field(default_factory=utc_now)
    status: RunStatus = "running"
    model: Json = Field(default_factory=dict)
    """name, revision, class, config"""
    reference: Json = Field(default_factory=dict)
    """Where W_0 comes from: source, path, revision, sha256, dtype"""
    trainer: Json = Field(default_factory=dict)
    """class, arguments"""
    lora: Json | None = None
    """The PEFT config, or None"""
    rewards: list[Any] | Json = Field(default_factory=list)
    dataset: Json = Field(default_factory=dict)
    """name, split, fingerprint"""
    recorder: Json = Field(default_factory=dict)
    """preset, probes, cadence, method per probe, skipped [{what, why}]"""
    world: Json = Field(default_factory=dict)
    """ranks, backend, sharding"""
    environment: Json = Field(default_factory=dict)
    """versions, python, device, git commit"""
    segments: Annotated[list[Json], AfterValidator(_numbered)] = Field(default_factory=list)
    """One per start of the recorder: index, start_step, started_at"""
    config: Json | None = None
    """The resolved run config, or None"""

    @property
    def arguments(self) -> Mapping[str, Any]:
        """What the trainer was given; empty where the run does not say."""
        return _mapping(self.trainer.get("arguments"))

    def section(self, name: str) -> Mapping[str, Any]:
        """Return a section of the run config, such as `grpo`; empty where the run does not say."""
        return _mapping((self.config or {}).get(name))

    def updated(self, **fields: Any) -> Self:
        """Return a copy with `fields` replaced; a mapping is merged into the mapping that is there, key by key.

        Raises:
            UnknownNameError: a field that a manifest does not have.
            SchemaError: a value of the wrong type.
        """
        known = type(self).model_fields
        for name in fields:
            if name not in known:
                raise UnknownNameError.among("manifest field", name, known)
        merged = self.model_dump()
        for name, value in strict_json.jsonable(fields).items():
            merges = isinstance(value, dict) and isinstance(merged[name], dict)
            merged[name] = {**merged[name], **value} if merges else value
        return self._validated(merged, "the manifest fields given")

    def write(self, run_dir: Path) -> None:
        """Replace `run.json` with this manifest, as strict JSON (NaN becomes null)."""
        strict_json.replace_file(run_dir / MANIFEST, strict_json.dumps(self.model_dump(), indent=1).encode())

    @classmethod
    def read(cls, run_dir: Path) -> Self:
        """Read `run.json`.

        Raises:
            NotARunError: there is none.
            SchemaError: it is not readable, or of another schema version.
        """
        path = run_dir / MANIFEST
        try:
            content = strict_json.read(path)
        except FileNotFoundError:
            raise NotARunError(
                f"{run_dir} holds no run: it has no {MANIFEST}; give the folder a recorder wrote"
            ) from None
        except ValueError as error:
            raise SchemaError(
                f"{path} is not JSON ({error}); restore it from a copy, the arrays beside it may still be whole"
            ) from error
        version = content.get("schema_version") if isinstance(content, dict) else None
        if version != SCHEMA_VERSION:
            advice = "upgrade grpodyn" if isinstance(version, int) and version > SCHEMA_VERSION else "is it a run.json?"
            raise SchemaError(
                f"{path} has schema version {version!r}; this grpodyn reads version {SCHEMA_VERSION}: {advice}"
            )
        return cls._validated(content, str(path))

    @classmethod
    def _validated(cls, content: Any, origin: str) -> Self:
        try:
            return cls.model_validate(content)
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(str(part) for part in first["loc"])
            raise SchemaError(f"{origin}: {where}: {first['msg']} (got {first['input']!r})") from error
