"""Whatever happens to a run's directory while it is written or afterwards: training goes on, the reader returns what is
readable and names the rest."""

from __future__ import annotations

import contextlib
import itertools
import random
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
import xarray as xr
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import nn

from grpodyn import Recorder, open_run
from grpodyn.config.record import RecordConfig
from grpodyn.errors import UnreadableError
from grpodyn.trace import strict_json

FULL = RecordConfig(preset="full")
GROUPS = ("tensors", "layers", "spectra", "rollouts", "metrics", "evaluations")


def train(run_dir: Path, disturb: Callable[[Path], None], steps: int = 8, at: int = 4) -> tuple[Recorder, nn.Module]:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 2))
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.01)
    with Recorder(run_dir, FULL).attach(net, optimizer) as recorder:
        for step in range(1, steps + 1):
            if step == at:
                assert recorder.writer is not None
                recorder.writer.flush()
                disturb(run_dir)
            optimizer.zero_grad()
            net(torch.randn(3, 4, generator=torch.Generator().manual_seed(step))).square().mean().backward()
            optimizer.step()
            recorder.step({"loss": 1.0})
    return recorder, net


def same_as_undisturbed(net: nn.Module, folder: Path) -> bool:
    _, undisturbed = train(folder / "undisturbed", lambda _: None)
    pairs = zip(net.parameters(), undisturbed.parameters(), strict=True)
    return all(torch.equal(a, b) for a, b in pairs)


def empty_file(name: str) -> Callable[[Path], None]:
    return lambda run_dir: (run_dir / name).write_bytes(b"")


def remove_file(name: str) -> Callable[[Path], None]:
    return lambda run_dir: (run_dir / name).unlink()


@pytest.mark.parametrize(
    ("disturb", "readable"),
    [
        (shutil.rmtree, True),
        (lambda run_dir: shutil.rmtree(run_dir / "trace.zarr"), True),
        (lambda run_dir: (shutil.rmtree(run_dir), run_dir.write_text("a file")), False),
        (lambda run_dir: run_dir.rename(run_dir.with_name("moved")), True),
        (empty_file("run.json"), True),
        (empty_file("commit.json"), True),
        (remove_file("commit.json"), True),
        (empty_file("trace.zarr/zarr.json"), True),
        (empty_file("trace.zarr/tensors/grad_norm/zarr.json"), True),
        (lambda run_dir: (run_dir / "events.jsonl").write_bytes(b'{"step": 1, "wh'), True),
    ],
    ids=["removed", "no-store", "file", "moved", "manifest", "commit", "no-commit", "store", "array", "events"],
)
def test_a27_training_goes_on_whatever_becomes_of_the_directory(tmp_path: Path, disturb, readable: bool) -> None:
    """A27: a fault of the disk, or of somebody who tidies up, is no fault of training."""
    _, net = train(tmp_path / "run", disturb)
    assert same_as_undisturbed(net, tmp_path)
    if readable:
        run = open_run(tmp_path / "run")
        for group in GROUPS:
            getattr(run, group).load()
        assert run.last_step == 8 or run.problems
    else:
        with pytest.raises(UnreadableError):
            open_run(tmp_path / "run")


def test_a27_a_disk_that_turns_read_only_stops_recording_and_says_so(tmp_path: Path, monkeypatch, caplog) -> None:
    real = strict_json.replace_file

    def turn_read_only(_: Path) -> None:
        def refuse(path: Path, content: bytes) -> None:
            raise OSError(30, "Read-only file system", str(path))

        monkeypatch.setattr(strict_json, "replace_file", refuse)

    recorder, net = train(tmp_path / "run", turn_read_only)
    monkeypatch.setattr(strict_json, "replace_file", real)
    assert same_as_undisturbed(net, tmp_path)
    assert any("Read-only file system" in record.getMessage() for record in caplog.records)
    run = open_run(tmp_path / "run")
    assert run.tensors.step.values.tolist() == [1, 2, 3], "what was there before the disk turned"
    assert run.status in ("interrupted", "failed")
    assert recorder.run_dir.name == "run"


def test_a_clock_that_goes_back_loses_no_row(tmp_path: Path, monkeypatch) -> None:
    """Wall time may jump (a time server, a laptop that wakes up): rows keep their order and the run is closed."""
    jumps = itertools.count()
    real = time.time

    def backwards(_: Path) -> None:
        monkeypatch.setattr(time, "time", lambda: real() - 86_400 - 10 * next(jumps))

    train(tmp_path / "run", backwards)
    monkeypatch.setattr(time, "time", real)
    run = open_run(tmp_path / "run")
    assert run.status == "finished"
    assert run.tensors.step.values.tolist() == list(range(1, 9))
    stamps = run.metrics["time"].values
    assert stamps.shape == (8,)
    assert stamps[-1] < stamps[0], "what the clock said is kept as it was said"


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whole") / "run"
    train(folder, lambda _: None)
    # A writer that a slow disk outlasted still writes: a copy made meanwhile would lack what no problem names.
    assert open_run(folder).status == "finished"
    return folder


@pytest.fixture(scope="module")
def true(whole: Path) -> dict[str, xr.Dataset]:
    """What that run holds, by group."""
    run = open_run(whole)
    return {group: getattr(run, group).load() for group in GROUPS}


def files_of(run_dir: Path) -> list[str]:
    return sorted(str(path.relative_to(run_dir)) for path in run_dir.rglob("*") if path.is_file())


def flip(path: Path, place: int) -> None:
    content = bytearray(path.read_bytes())
    if content:
        content[place % len(content)] ^= 0xFF
        path.write_bytes(bytes(content))


HARMS: dict[str, Callable[[Path, int], None]] = {
    "emptied": lambda path, _: path.write_bytes(b""),
    "removed": lambda path, _: path.unlink(),
    "truncated": lambda path, place: path.write_bytes(path.read_bytes()[: place % max(1, path.stat().st_size)]),
    "flipped": flip,
    "garbled": lambda path, place: path.write_bytes(random.Random(place).randbytes(64)),
}


@settings(max_examples=4, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)
@given(data=st.data())
def test_a27_a_damaged_run_is_read_as_far_as_it_goes(
    whole: Path, true: dict[str, xr.Dataset], data: st.DataObject
) -> None:
    """A27: any file of a finished run emptied, removed, cut, flipped or garbled."""
    check_damage(whole, true, data)


@pytest.mark.slow
@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)
@given(data=st.data())
def test_a27_many_damaged_runs(whole: Path, true: dict[str, xr.Dataset], data: st.DataObject) -> None:
    """A27: the same, many times."""
    check_damage(whole, true, data)


def garbled(content: bytes, seed: int) -> bytes:
    """Return a chunk as noise, as noise behind the mark of a frame, with bits turned, or with another end."""
    noise = random.Random(seed)
    if seed % 4 == 0:
        return noise.randbytes(64)
    if seed % 4 == 1:
        return content[:4] + noise.randbytes(60)
    if seed % 4 == 2:
        turned = bytearray(content)
        for _ in range(noise.randint(1, 4)):
            turned[noise.randrange(len(turned))] ^= noise.randrange(1, 256)
        return bytes(turned)
    return content[: noise.randrange(len(content))] + noise.randbytes(noise.randrange(8))


def check_garbled(whole: Path, true: xr.Dataset, folder: Path, group: str, seeds: int, array: str = "") -> None:
    damaged = folder / "run"
    shutil.copytree(whole, damaged)
    chunks = [name for name in files_of(damaged) if name.startswith(f"trace.zarr/{group}/{array}") and "/c/" in name]
    assert chunks, "nothing would be garbled"
    for name in chunks:
        content = (damaged / name).read_bytes()
        for seed in range(seeds):
            (damaged / name).write_bytes(garbled(content, seed))
            run = open_run(damaged)
            read = getattr(run, group).load()
            same = read.sizes == true.sizes and read.identical(true)
            assert run.problems or same, (name, seed)
        (damaged / name).write_bytes(content)


def test_a27_a_garbled_chunk_is_always_named(whole: Path, true: dict[str, xr.Dataset], tmp_path: Path) -> None:
    """A27: missing values of a chunk that cannot be read are never taken for values that were never there."""
    check_garbled(whole, true["spectra"], tmp_path, "spectra", seeds=8, array="singular_values/")


@pytest.mark.slow
@pytest.mark.parametrize("group", ["metrics", "tensors", "spectra"])
def test_a27_every_garbled_chunk_of_a_run_is_always_named(
    whole: Path, true: dict[str, xr.Dataset], tmp_path: Path, group: str
) -> None:
    """A27: the same of every group, under more noise."""
    check_garbled(whole, true[group], tmp_path, group, seeds=4)


def check_damage(whole: Path, true: dict[str, xr.Dataset], data: st.DataObject) -> None:
    names = data.draw(st.lists(st.sampled_from(files_of(whole)), min_size=1, max_size=2, unique=True))
    harm = data.draw(st.sampled_from(sorted(HARMS)))
    place = data.draw(st.integers(0, 10_000))
    with tempfile.TemporaryDirectory() as folder:
        damaged = Path(folder) / "run"
        shutil.copytree(whole, damaged)
        for name in names:
            HARMS[harm](damaged / name, place)
        before = files_of(damaged)
        if "run.json" in names:
            with contextlib.suppress(UnreadableError):
                open_run(damaged)
            return
        run = open_run(damaged)
        # To Zarr a chunk that is not there holds missing values: nothing tells it from one that was never written.
        silent = harm == "removed" and any("/c/" in name for name in names)
        for group in GROUPS:
            read = getattr(run, group).load()
            for name in read.data_vars:
                if not run.problems and not silent:
                    np.testing.assert_array_equal(read[name].values, true[group][name].values)
        assert files_of(damaged) == before, "reading changes nothing"
