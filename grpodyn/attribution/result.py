"""What an attribution found, as `attribution.json` keeps it; read without torch."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError

from grpodyn.attribution.investigate import LAYERS, Findings, ShapleyValues
from grpodyn.attribution.shares import Partition, PartShare
from grpodyn.attribution.verdict import Verdict
from grpodyn.errors import SchemaError
from grpodyn.statistics import Interval
from grpodyn.trace import strict_json
from grpodyn.trace.manifest import utc_now

FILE = "attribution.json"
VERSION = 1

_Number = Annotated[float, BeforeValidator(lambda value: math.nan if value is None else value)]
"""JSON has no nan; null stands for it."""


class _Model(BaseModel):
    model_config = ConfigDict(extra="allow", frozen=True)


class Range(_Model):
    """An estimate with its interval."""

    value: _Number
    low: _Number
    high: _Number
    level: _Number

    @classmethod
    def of(cls, interval: Interval) -> Self:
        """Return an interval as the file keeps it."""
        return cls(value=interval.value, low=interval.low, high=interval.high, level=interval.level)

    @property
    def excludes_zero(self) -> bool:
        """Whether the whole interval lies on one side of 0."""
        return self.low > 0 or self.high < 0


class PartResult(_Model):
    """One part of one partition: accuracies, and shares of the whole gain."""

    partition: str
    part: str
    kind: str
    keep_only: Range
    put_back: Range
    kept: Range
    lost: Range
    share: Range
    is_target: bool
    """Whether LoRA on linear modules reaches it."""
    layers: tuple[int, ...] = ()
    stack: str = ""
    tensors: int

    @classmethod
    def of(cls, partition: str, found: PartShare) -> Self:
        """Return a part's figures."""
        ranges = {name: Range.of(getattr(found, name)) for name in ("keep_only", "put_back", "kept", "lost", "share")}
        part = found.part
        return cls(
            partition=partition,
            part=part.name,
            kind=part.kind,
            is_target=part.is_target,
            layers=part.layers,
            stack=part.stack,
            tensors=len(part.tensors),
            **ranges,
        )


class VerdictResult(_Model):
    """A verdict on a partition."""

    word: Literal["localised", "distributed", "redundant", "joint", "harmful", "flat", "too noisy"]
    parts: tuple[str, ...]
    text: str
    beside: str = ""
    confirmed: bool | None = None
    """Whether fresh prompts showed the named parts again; None where no part is named, and in files from before."""

    @classmethod
    def of(cls, verdict: Verdict) -> Self:
        """Return a verdict as the file keeps it."""
        return cls(**{name: getattr(verdict, name) for name in ("word", "parts", "text", "beside", "confirmed")})


class TruncationResult(_Model):
    """All changes cut to one rank."""

    rank: int
    accuracy: Range
    kept: Range


class PartitionSums(_Model):
    """How the effects of a partition's parts add up, in shares of the gain."""

    name: str
    kept_sum: Range
    lost_sum: Range


class Attribution(_Model):
    """The whole file."""

    schema_version: int = VERSION
    created_at: str
    run_id: str | None = None
    sources: dict[str, Any]
    """Places and digests of base and final, the evaluator, the prompts of each split."""
    base: Range
    final: Range
    gain: Range
    greedy: dict[str, _Number]
    baseline: dict[str, _Number] | None = None
    """The base at its best temperature: what confidence alone gives."""
    parts: tuple[PartResult, ...]
    partitions: tuple[PartitionSums, ...]
    truncation: tuple[TruncationResult, ...]
    shapley: dict[str, Any] | None
    null: tuple[dict[str, Any], ...]
    confirm: tuple[PartResult, ...]
    verdict: str
    reading: VerdictResult
    verdicts: dict[str, VerdictResult]
    leading: str
    """The partition that the verdict is about."""
    resolution: _Number
    """Smallest share of the gain that could have been told apart."""
    evaluations: int
    tokens: int
    seconds: _Number
    notes: tuple[str, ...]

    def of_partition(self, name: str) -> tuple[PartResult, ...]:
        """Return the parts of one partition."""
        return tuple(part for part in self.parts if part.partition == name)

    @property
    def layers(self) -> tuple[PartResult, ...]:
        """The parts of the partition by layers."""
        return self.of_partition(LAYERS)


def of(findings: Findings, sources: dict[str, Any], **fields: Any) -> Attribution:
    """Return what was found as the file keeps it.

    Args:
        findings: what was found.
        sources: where base, final, prompts and evaluator come from.
        fields: `run_id, baseline, tokens, seconds`, and `notes` to be put before those of the findings.
    """
    notes = (*fields.pop("notes", ()), *findings.notes)
    return Attribution(
        created_at=utc_now(),
        sources=sources,
        base=Range.of(findings.base),
        final=Range.of(findings.final),
        gain=Range.of(findings.gain),
        greedy=dict(zip(("base", "final"), findings.greedy, strict=True)),
        parts=tuple(PartResult.of(p.name, s) for p in findings.partitions for s in p.shares),
        partitions=tuple(_sums(p) for p in findings.partitions),
        truncation=tuple(
            TruncationResult(rank=t.rank, accuracy=Range.of(t.accuracy), kept=Range.of(t.kept))
            for t in findings.truncation
        ),
        shapley=_shapley(findings.shapley),
        null=tuple(
            {"what": n.what, "accuracy": Range.of(n.accuracy), "kept": Range.of(n.kept)} for n in findings.nulls
        ),
        confirm=tuple(PartResult.of("confirm", s) for s in findings.confirmed.shares) if findings.confirmed else (),
        verdict=findings.verdict.word,
        reading=VerdictResult.of(findings.verdict),
        verdicts={name: VerdictResult.of(v) for name, v in findings.verdicts.items()},
        leading=findings.leading,
        resolution=findings.resolution,
        evaluations=findings.evaluations,
        notes=notes,
        **fields,
    )


def write(path: Path, found: Attribution) -> None:
    """Replace the file.

    Raises:
        OSError: it cannot be written.
    """
    strict_json.replace_file(path, dumps(found).encode())


def dumps(found: Attribution) -> str:
    """Return the file's text."""
    return strict_json.dumps(found.model_dump(), indent=1) + "\n"


def read(path: Path) -> Attribution:
    """Read an attribution.

    Raises:
        SchemaError: it is not readable, or of another version.
    """
    try:
        content = strict_json.read(path)
        version = content.get("schema_version") if isinstance(content, dict) else None
        if version != VERSION:
            raise SchemaError(
                f"{path} has version {version!r}; this grpodyn reads {VERSION}: run `grpodyn attribute` again"
            )
        return Attribution.model_validate(content)
    except (ValueError, ValidationError) as error:
        raise SchemaError(f"{path} is no attribution ({error}); run `grpodyn attribute` again") from error


def _sums(partition: Partition) -> PartitionSums:
    return PartitionSums(
        name=partition.name, kept_sum=Range.of(partition.kept_sum), lost_sum=Range.of(partition.lost_sum)
    )


def _shapley(values: ShapleyValues | None) -> dict[str, Any] | None:
    if values is None:
        return None
    players = [{"part": player.part, "share": Range.of(player.share)} for player in values.players]
    return {"players": players, "exact": values.exact, "orders": values.orders}
