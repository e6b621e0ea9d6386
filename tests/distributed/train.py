"""A plain training loop on one or several ranks, recorded: what the tests of this folder run under torchrun.

Arguments: a folder, and ways of training. A way begins with how the model is spread and goes on with what else is the
case, such as `fsdp2-lora-saved`. Each records into `<folder>/<way>`, and saves every rank's weights beside it.
"""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from peft import LoraConfig, get_peft_model
from torch import Tensor
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
from torch.distributed.tensor import DTensor
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel
from transformers import GPT2Config, GPT2LMHeadModel

from grpodyn import Recorder, registry
from grpodyn.config.record import RecordConfig
from grpodyn.recording import ranks
from grpodyn.recording.measurement import Measurement
from grpodyn.recording.shard_parts import Parts
from grpodyn.recording.sweeps import Sweeps
from tests.distributed import stand_in

STEPS = 3
# Decay alone stays under the share from which an element counts as changed: 10⁻³ at any step.
OPTIMIZER = {"lr": 1e-2, "weight_decay": 0.03}
SENTENCES = 12
"""Divisible by every number of ranks, so that the mean over ranks is the mean over sentences."""


class Tokenizer:
    """One token to a letter."""

    def __call__(self, text: str) -> dict[str, list[int]]:
        return {"input_ids": [ord(letter) % 22 for letter in text]}

    def save_pretrained(self, folder: Path) -> None:
        (folder / "tokenizer.txt").write_text("one token to a letter")


def build(way: str, folder: Path) -> Any:
    torch.manual_seed(0)
    config = GPT2Config(
        vocab_size=22,
        n_positions=8,
        n_embd=16,
        # Two ranks and three divide few sides evenly: shards are padded. No tensor is so large that it is sampled,
        # but one is so large that the gradient's noise is.
        n_inner=71,
        n_layer=2,
        n_head=2,
        # Dropout in training, so that a forward beside it would show.
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
    )
    # Float64 all through, loss and norms too: how the ranks' gradients are added makes no difference that matters.
    model = GPT2LMHeadModel(config).double()
    for parameter in model.parameters():
        # The bias of a key has no gradient but rounding: at 0, whether it changes would be a matter of chance.
        if parameter.dim() == 1:
            torch.nn.init.normal_(parameter, std=0.1)
    if way.endswith("-mapped"):
        if dist.get_rank() == 0:
            model.save_pretrained(folder / "base")
        dist.barrier()
        model = GPT2LMHeadModel.from_pretrained(folder / "base", dtype=torch.float64).train()
    if "lora" in way.split("-"):
        adapter = LoraConfig(r=2, target_modules=["c_attn", "c_fc"], fan_in_fan_out=True)
        model = get_peft_model(model, adapter)
        assert {p.dtype for p in model.parameters()} == {torch.float64}
    return model


def spread(model: Any, way: str) -> Any:
    """Return the model as a way of training spreads it, having made sure that it does."""
    world = dist.get_world_size() if dist.is_initialized() else 1
    if way.startswith("one"):
        assert world == 1
        return model
    assert world == int(os.environ["WORLD_SIZE"]) > 1
    if way.startswith("ddp"):
        return DistributedDataParallel(model)
    if way.startswith("fsdp1"):
        wrapped = FullyShardedDataParallel(model, use_orig_params=True, device_id=torch.device("cpu"))
        assert all(p.dim() == 1 for p in wrapped.parameters())
        return wrapped
    shape, names = ((2, world // 2), ("repeated", "split")) if way.startswith("hybrid") else ((world,), ("split",))
    mesh = init_device_mesh("cpu", shape, mesh_dim_names=names)
    for block in model.get_submodule("base_model.model.transformer.h" if "lora" in way else "transformer.h"):
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)
    assert all(isinstance(p, DTensor) for p in model.parameters())
    return model


@contextmanager
def failing(kind: type, method: str, step: int) -> Iterator[None]:
    """Make a method raise the `step`-th time that it is called, and see that it is called at all."""
    original, calls = getattr(kind, method), itertools.count(1)

    def fail(*arguments: Any) -> Any:
        if next(calls) == step:
            raise RuntimeError("this rank fails on purpose")
        return original(*arguments)

    setattr(kind, method, fail)
    try:
        yield
    finally:
        setattr(kind, method, original)
    assert next(calls) > step


FAILURES = {
    # What a rank that follows does; what the first rank does; and what only the first rank does: computing.
    "before": (1, Measurement, "_gradients", 2),
    "after": (1, Measurement, "_deltas", 2),
    "part": (1, Parts, "values", 4),
    "first": (0, Parts, "values", 4),
    "probe": (0, type(registry.probe("grad_norm")), "compute", 2),
    # The first 84 parts are of the first step.
    "factors": (1, Parts, "values", 90),
    "spectrum": (0, type(registry.probe("effective_rank")), "compute", 2),
}


def failure(way: str, rank: int) -> AbstractContextManager[None]:
    """Return what goes wrong on a rank, by the end of the way's name."""
    where = FAILURES.get(way.rsplit("-", 1)[-1])
    if where is None or where[0] != rank:
        return nullcontext()
    return failing(*where[1:])


def loss_of(model: Any, sentences: Tensor) -> Tensor:
    logits = model(input_ids=sentences).logits
    return cross_entropy(logits[:, :-1].flatten(0, 1), sentences[:, 1:].flatten())


def recorder_of(folder: Path, way: str, rank: int) -> Recorder:
    # A matrix at a time: the others of a sweep are taken at later steps.
    limit = {"snapshot_limit": 1} if way.endswith("-slowly") else {}
    # Not one byte of W_0 in memory.
    limit |= {"base_limit": 0} if way.endswith("-mapped") else {}
    config = RecordConfig(preset="full", activation_prompts=["one", "three"], **limit)
    return Recorder(folder / way / f"rank{rank}", config, save_model=way.endswith("-saved"))


def train_partitions(folder: Path, way: str, sentences: Tensor) -> None:
    """Train what a stand-in of DeepSpeed has partitioned, with or without a package to gather it."""
    there = nullcontext() if way.endswith("-absent") else stand_in.installed(is_wrong=way.endswith("-wrong"))
    with there:
        recorder = recorder_of(folder, way, dist.get_rank())
        stand_in.train(
            build(way, folder), recorder, Tokenizer(), lambda model: loss_of(model, sentences), STEPS, OPTIMIZER
        )


def train(folder: Path, way: str) -> None:
    """Train, and record unless the way is `…-plain`."""
    rank, world = (dist.get_rank(), dist.get_world_size()) if dist.is_initialized() else (0, 1)
    sentences = torch.randint(22, (SENTENCES, 8), generator=torch.Generator().manual_seed(1))
    if way.startswith("zero3"):
        train_partitions(folder, way, sentences.chunk(world)[rank])
        return
    model = spread(build(way, folder), way)
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], **OPTIMIZER)
    recorder = None
    if way.endswith("-alone"):
        ranks.PATIENCE = timedelta(seconds=2)
    if not way.endswith("-plain") and not (way.endswith("-alone") and rank > 0):
        recorder = recorder_of(folder, way, rank)
        recorder.attach(model, optimizer, max_steps=STEPS, tokenizer=Tokenizer())
    with failure(way, rank):
        for _ in range(STEPS):
            loss = loss_of(model, sentences.chunk(world)[rank])
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            if recorder is not None:
                recorder.step({"loss": loss})
        if recorder is not None:
            recorder.close()
    held = [p.to_local() if isinstance(p, DTensor) else p for p in model.parameters()]
    torch.save([p.detach() for p in held], folder / f"{way}-rank{rank}.pt")


def never_late() -> None:
    """Let a sweep that has taken all its matrices be done before the next is due, however busy the machine is."""
    advance = Sweeps.advance

    def patient(self: Sweeps, step: int, *, due: Any) -> bool:
        if not self.pending():
            self._worker.wait()
        return advance(self, step, due=due)

    Sweeps.advance = patient  # type: ignore[method-assign]


def main() -> None:
    never_late()
    folder, ways = Path(sys.argv[1]), sys.argv[2:]
    torch.set_num_threads(1)
    if "WORLD_SIZE" in os.environ:
        dist.init_process_group("gloo", timeout=timedelta(seconds=60))
    for way in ways:
        train(folder, way)
    if dist.is_initialized():
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
