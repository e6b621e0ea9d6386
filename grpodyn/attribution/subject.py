"""What is attributed: a live model that holds the base, and the two versions of its weights."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

from grpodyn import embedded
from grpodyn.attribution.adapter import AdapterWeights, is_adapter
from grpodyn.attribution.weights import FolderWeights, Overlaid, Trained, Weights, required
from grpodyn.config.leaves import leaves
from grpodyn.config.run import EMBEDDED
from grpodyn.errors import GrpodynError, MissingDataError, UnreadableError
from grpodyn.naming.inventory import take_inventory
from grpodyn.recording.checkpoint_files import CheckpointFiles, folder_of
from grpodyn.recording.reference import BASE_FOLDER, reopen
from grpodyn.trace.manifest import Manifest
from grpodyn.trace.reader import open_run
from grpodyn.training.checkpoints import FOLDER as CHECKPOINTS
from grpodyn.training.checkpoints import last_whole
from grpodyn.training.session import MODEL

_SAVED_START = "start.safetensors"
_NO_COMPUTATION = frozenset(
    (
        *("transformers_version", "_name_or_path", "architectures", "dtype", "torch_dtype", "id2label", "label2id"),
        *("vocab_size", "pad_token_id", "bos_token_id", "eos_token_id", "tie_word_embeddings", "problem_type"),
        *("use_cache", "return_dict", "output_hidden_states", "output_attentions", "output_router_logits"),
        *("initializer_range", "max_position_embeddings", "max_window_layers", "router_aux_loss_coef"),
        *("chunk_size_feed_forward", "pretraining_tp"),
    )
)
"""Entries of a config in which two versions may differ: bookkeeping, training, and what the tensors themselves show."""


@dataclass(frozen=True)
class Subject:
    """A model between two versions of its weights."""

    model: Any
    """Live, with the base weights."""
    tokenizer: Any
    base: Weights
    final: Trained
    is_lora: bool
    notes: tuple[str, ...] = ()
    checkpoint: Path | None = None
    """Folder of the checkpoint that training started from; None where the run keeps every weight itself."""


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
    unread = () if is_lora else _check_hashes(manifest, folder, run_dir)
    if is_lora and (base is not None or not manifest.model.get("revision")):
        notes = (*notes, "a LoRA run records no hash of its base; names and shapes are checked, its values are not")
    subject = of_folders(folder, trained, wanted, device)
    if unread:
        notes = (*notes, *_check_values(manifest, folder, run_dir, subject.model, unread))
    if not is_lora and "base" in (manifest.reference.get("tensors") or {}) and saved.is_file():
        start = Overlaid(FolderWeights(saved.parent, [_SAVED_START]), subject.base)
        _fill(subject.model, start)
        subject = replace(subject, base=start)
    return replace(subject, notes=(*notes, *subject.notes))


def of_folders(base: Path, final: Path, dtype: str | None, device: str) -> Subject:
    """Return the subject of two checkpoint folders, the second whole weights or an adapter.

    Raises:
        MissingDataError: a folder holds no weights.
        UnreadableError: the model cannot be built, the two compute otherwise, or one has a head of its own where the
            other shares it with the embedding.
    """
    before = FolderWeights(base)
    config = _config(base)
    if is_adapter(final):
        with torch.device("meta"):
            twin = AutoModelForCausalLM.from_config(config)
        after: Trained = AdapterWeights(before, final, twin)
    else:
        after = FolderWeights(final)
        _check_configs(config, base, final)
    wanted = dtype or _stored_dtype(before if is_adapter(final) else after)
    model = AutoModelForCausalLM.from_pretrained(str(base), dtype=getattr(torch, wanted)).to(device).eval()
    _check_ties(model, before, after)
    return Subject(model, _tokenizer([final, base]), before, after, is_adapter(final), checkpoint=base)


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


def _check_hashes(manifest: Manifest, folder: Path, run_dir: Path) -> tuple[str, ...]:
    """Return the files of a base of which no hash can be compared: of other names, or too large to be read for that."""
    recorded = {name: digest for name, digest in (manifest.reference.get("sha256") or {}).items() if digest}
    unread: list[str] = []
    for name, digest in CheckpointFiles(folder).sha256().items():
        if name not in recorded or digest is None:
            unread.append(name)
        elif digest != recorded[name]:
            raise UnreadableError(
                f"{folder / name} is not the base that {run_dir} started from: its SHA-256 begins with {digest[:12]}, "
                f"the run recorded {recorded[name][:12]}; give the right folder with --base"
            )
    return tuple(unread)


def _check_values(
    manifest: Manifest, folder: Path, run_dir: Path, model: Any, unread: Sequence[str]
) -> tuple[str, ...]:
    """Check values of every trained tensor against what the run recorded of them; return a note where it cannot be."""
    facts = manifest.reference
    sources = facts.get("tensors") or {}
    trained = _trained_names(run_dir)
    if not facts.get("fingerprint") or not trained or not sources or set(sources) - {"checkpoint", "base"}:
        return (
            f"the base was not verified: {', '.join(unread)} in {folder} has no hash that could be compared with the "
            "run's, and the run recorded none of its values",
        )
    stored = {entry.info.name: entry for entry in take_inventory(model).stored}
    known = [stored[name] for name in trained if name in stored]
    found = reopen(known, None, run_dir, {**facts, "path": str(folder)})
    if len(known) < len(trained) or found.unmeasured:
        raise UnreadableError(
            f"{folder} is not the base that {run_dir} started from: its tensors have other names, shapes or values "
            "than the run recorded; give the right folder with --base"
        )
    return ()


def _trained_names(run_dir: Path) -> tuple[str, ...]:
    try:
        return tuple(str(name) for name in open_run(run_dir).tensors["tensor"].values)
    except (GrpodynError, KeyError):
        return ()


def _check_ties(model: Any, before: Weights, after: Trained) -> None:
    """Check that what the base shares between two places, the trained weights share too."""
    places: dict[int, list[str]] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        places.setdefault(id(parameter), []).append(name)
    for shared in (names for names in places.values() if len(names) > 1):
        start = required(before, shared[0])
        if isinstance(after, AdapterWeights):
            changed = [name for name in shared if name in after.changed and not _equal(after.tensor(name), start)]
            if changed:
                raise UnreadableError(
                    f"the adapter of {after.place} changes {changed[0]}, which the base shares among "
                    f"{' and '.join(shared)}: under PEFT the change is of the one alone, here it would be of all; "
                    "untie them, merge the adapter into whole weights, and give the folders of both"
                )
            continue
        held = [name for name in shared if after.tensor(name) is not None]
        if any(not _equal(after.tensor(name), after.tensor(held[0])) for name in held[1:]):
            raise UnreadableError(
                f"{after.place} holds {' and '.join(held)} with different values, and the base shares one weight "
                "among them: one of the two changes would be lost; untie the base, save it, and give its folder with "
                "--base"
            )


def _equal(one: Tensor | None, other: Tensor | None) -> bool:
    return one is not None and other is not None and torch.equal(one.float(), other.float())


def _check_configs(config: Any, base: Path, final: Path) -> None:
    """Check that both versions compute alike: a state in between has weights of either, and one way to compute."""
    if not (final / "config.json").is_file():
        return
    declared = type(config)().to_dict().keys()
    ours, theirs = (_computes(given.to_dict(), declared) for given in (config, _config(final)))
    differing = sorted(name for name in ours.keys() | theirs.keys() if ours.get(name) != theirs.get(name))
    if differing:
        said = "; ".join(f"{name} is {theirs.get(name)} there and {ours.get(name)} in the base" for name in differing)
        raise UnreadableError(
            f"the config of {final} computes otherwise than that of {base}: {said}. States between the two would "
            "be evaluated as the base computes; give a base whose config is that of the trained model"
        )


def _computes(content: Mapping[str, Any], declared: Collection[str]) -> dict[str, Any]:
    """Return the entries of a config that decide what the model computes from its weights."""
    return {
        path: value
        for path, value in leaves(content)
        if path.split(".")[0] in declared
        and not any(segment in _NO_COMPUTATION for segment in path.split("."))
        and not path.endswith(("dropout", "pdrop"))
    }


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
    _check_ties(model, before, after)
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
