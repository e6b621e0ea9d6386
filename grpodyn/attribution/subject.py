"""What is attributed: a live model that holds the base, and the two versions of its weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

from grpodyn import embedded
from grpodyn.attribution.adapter import AdapterWeights, is_adapter
from grpodyn.attribution.weights import FolderWeights, Overlaid, Weights
from grpodyn.config.run import EMBEDDED
from grpodyn.errors import MissingDataError, UnreadableError
from grpodyn.recording.checkpoint_files import CheckpointFiles, folder_of
from grpodyn.recording.reference import BASE_FOLDER
from grpodyn.trace.manifest import Manifest
from grpodyn.training.checkpoints import FOLDER as CHECKPOINTS
from grpodyn.training.checkpoints import last_whole
from grpodyn.training.session import MODEL

_SAVED_START = "start.safetensors"


@dataclass(frozen=True)
class Subject:
    """A model between two versions of its weights."""

    model: Any
    """Live, with the base weights."""
    tokenizer: Any
    base: Weights
    final: Weights
    is_lora: bool
    notes: tuple[str, ...] = ()


def of_run(run_dir: Path, base: Path | None, final: Path | None, dtype: str | None, device: str) -> Subject:
    """Return the subject that a run directory holds.

    Args:
        run_dir: the run.
        base: folder of the base, if the manifest's is gone.
        final: folder of the trained weights or adapter, if the run holds none.
        dtype: of the live model; the run's own if None.
        device: where the model is evaluated.

    Raises:
        MissingDataError: weights are missing.
        UnreadableError: the base is not the one that the run started from.
    """
    manifest = Manifest.read(run_dir)
    trained, notes = _trained(run_dir, final)
    folder = base if base is not None else _base_folder(manifest)
    saved = run_dir / BASE_FOLDER / _SAVED_START
    is_lora = is_adapter(trained)
    if folder is None and (is_lora or not saved.is_file()):
        raise MissingDataError(
            f"the base of {run_dir} ({manifest.model.get('name')}) is not on this machine; give its folder with --base"
        )
    wanted = dtype or _recorded_dtype(manifest)
    if folder is None:
        subject = _from_saved_start(manifest, trained, saved, wanted, device)
        return replace(subject, notes=(*notes, *subject.notes))
    if not is_lora:
        _check_hashes(manifest, folder, run_dir)
    elif base is not None or not manifest.model.get("revision"):
        notes = (*notes, "a LoRA run records no hash of its base; names and shapes are checked, its values are not")
    subject = of_folders(folder, trained, wanted, device)
    if not is_lora and "base" in (manifest.reference.get("tensors") or {}) and saved.is_file():
        start = Overlaid(FolderWeights(saved.parent, [_SAVED_START]), subject.base)
        _fill(subject.model, start)
        subject = replace(subject, base=start)
    return replace(subject, notes=(*notes, *subject.notes))


def of_folders(base: Path, final: Path, dtype: str | None, device: str) -> Subject:
    """Return the subject of two checkpoint folders, the second whole weights or an adapter.

    Raises:
        MissingDataError: a folder holds no weights.
        UnreadableError: the model cannot be built, or the tokenizers differ.
    """
    before = FolderWeights(base)
    config = _config(base)
    if is_adapter(final):
        with torch.device("meta"):
            twin = AutoModelForCausalLM.from_config(config)
        after: Weights = AdapterWeights(before, final, twin)
    else:
        after = FolderWeights(final)
    wanted = dtype or _stored_dtype(before if is_adapter(final) else after)
    model = AutoModelForCausalLM.from_pretrained(str(base), dtype=getattr(torch, wanted)).to(device).eval()
    return Subject(model, _tokenizer([final, base]), before, after, is_adapter(final))


def check_tokenizers(base: Path, final: Path, texts: Sequence[str]) -> None:
    """Check that both folders' tokenizers read the prompts alike; one of them may have none.

    Raises:
        UnreadableError: naming a text that they read differently.
    """
    folders = [folder for folder in (base, final) if _has_tokenizer(folder)]
    if len(folders) < 2:
        return
    one, other = (AutoTokenizer.from_pretrained(str(folder))(list(texts))["input_ids"] for folder in folders)
    differing = next((i for i, (a, b) in enumerate(zip(one, other, strict=True)) if a != b), None)
    if differing is not None:
        raise UnreadableError(
            f"the tokenizers of {base} and {final} read {texts[differing][:60]!r} differently ({one[differing][:8]} "
            "and "
            f"{other[differing][:8]} …): the two models do not see the same prompts, so no part can be compared"
        )


def _trained(run_dir: Path, final: Path | None) -> tuple[Path, tuple[str, ...]]:
    if final is not None:
        return final, ()
    folder = run_dir / MODEL
    if folder.is_dir():
        return folder, ()
    checkpoint = last_whole(run_dir / CHECKPOINTS) if (run_dir / CHECKPOINTS).is_dir() else None
    if checkpoint is not None:
        return checkpoint[1], (f"the run saved no final model; its checkpoint of step {checkpoint[0]} stands for it",)
    raise MissingDataError(
        f"{run_dir} holds no trained weights (no {MODEL}/, no checkpoint); a callback saves them with "
        "Recorder(…, save_model=True), or give their folder with --final"
    )


def _base_folder(manifest: Manifest) -> Path | None:
    path = manifest.reference.get("path")
    if path and Path(path).is_dir():
        return Path(path)
    if ((manifest.config or {}).get("model") or {}).get("path") == EMBEDDED:
        return embedded.MODEL_DIR

    class _Named:
        _name_or_path = manifest.model.get("name")
        _commit_hash = manifest.model.get("revision")

    found = folder_of(_Named())
    return found[0] if found is not None else None


def _check_hashes(manifest: Manifest, folder: Path, run_dir: Path) -> None:
    recorded = {name: digest for name, digest in (manifest.reference.get("sha256") or {}).items() if digest}
    for name, digest in CheckpointFiles(folder).sha256().items():
        if name in recorded and digest is not None and digest != recorded[name]:
            raise UnreadableError(
                f"{folder / name} is not the base that {run_dir} started from: its SHA-256 begins with {digest[:12]}, "
                "the "
                f"run recorded {recorded[name][:12]}; give the right folder with --base"
            )


def _recorded_dtype(manifest: Manifest) -> str | None:
    configured = ((manifest.config or {}).get("model") or {}).get("dtype")
    for dtype in (configured, (manifest.model.get("config") or {}).get("dtype"), manifest.reference.get("dtype")):
        if dtype in ("float32", "bfloat16", "float16"):
            return str(dtype)
    return None


def _stored_dtype(weights: Weights) -> str:
    if isinstance(weights, FolderWeights):
        names = weights.files.names
        return str(weights.files.tensor(names[0]).dtype).removeprefix("torch.")
    return "float32"


def _config(folder: Path) -> Any:
    try:
        return AutoConfig.from_pretrained(str(folder))
    except (OSError, ValueError) as error:
        raise UnreadableError(f"{folder} holds no model config that transformers reads: {error}") from error


def _from_saved_start(manifest: Manifest, trained: Path, saved: Path, dtype: str | None, device: str) -> Subject:
    """Build a model of which the run itself keeps every weight."""
    after, before = FolderWeights(trained), FolderWeights(saved.parent, [saved.name])
    wanted = getattr(torch, dtype or _stored_dtype(after))
    model = AutoModelForCausalLM.from_config(_config(trained), dtype=wanted).to(device).eval()
    _fill(model, before)
    return Subject(model, _tokenizer([trained]), before, after, False)


@torch.no_grad()
def _fill(model: Any, weights: Weights) -> None:
    for name, parameter in model.named_parameters():
        value = weights.tensor(name)
        if value is None or value.shape != parameter.shape:
            raise MissingDataError(f"{weights.place} does not hold the starting weight of {name}; give --base")
        parameter.copy_(value)


def _has_tokenizer(folder: Path) -> bool:
    return any((folder / name).is_file() for name in ("tokenizer.json", "tokenizer_config.json", "tokenizer.model"))


def _tokenizer(folders: Sequence[Path]) -> Any:
    folder = next((folder for folder in folders if _has_tokenizer(folder)), None)
    if folder is None:
        raise MissingDataError(f"no tokenizer in {' or '.join(str(f) for f in folders)}; save it beside the weights")
    tokenizer = AutoTokenizer.from_pretrained(str(folder), padding_side="left")
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token
    return tokenizer
