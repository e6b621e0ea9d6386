"""`Recorder.attach`: a torch loop of one's own, with one line a step."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from grpodyn import Recorder, open_run
from grpodyn.config.record import RecordConfig
from grpodyn.recording.reference import equal_bits

FULL = RecordConfig(preset="full")
NAMES = ["0.weight", "0.bias", "2.weight", "2.bias"]


def loss_of(net: nn.Module, seed: int) -> torch.Tensor:
    inputs = torch.randn(5, 6, generator=torch.Generator().manual_seed(seed))
    return net(inputs).square().mean()


def hooks_of(optimizer: torch.optim.Optimizer) -> int:
    return len(optimizer._optimizer_step_pre_hooks) + len(optimizer._optimizer_step_post_hooks)


def events(run, what: str) -> list[dict]:
    return [event for event in run.events if event["what"].startswith(what)]


@pytest.mark.parametrize("accumulate", [1, 4])
@pytest.mark.parametrize("kind", ["AdamW", "SGD"])
def test_the_record_is_what_brute_force_sees(recorder, make_net, read, accumulate: int, kind: str) -> None:
    net = make_net()
    optimizer = getattr(torch.optim, kind)(net.parameters(), lr=1e-2)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.1, 6)
    gradients, steps = [], []
    with recorder.attach(net, optimizer) as same:
        assert same is recorder
        for step in range(6):
            for k in range(accumulate):
                (loss_of(net, 10 * step + k) / accumulate).backward()
            before = [p.detach().clone() for p in net.parameters()]
            gradients.append([float(p.grad.double().norm()) for p in net.parameters()])
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
            after = net.parameters()
            steps.append([float((w.detach().double() - b.double()).norm()) for w, b in zip(after, before, strict=True)])
            recorder.step({"loss": 0.5})
    run = read()
    assert run.status == "finished"
    assert run.tensors.tensor.values.tolist() == NAMES
    assert run.tensors.step.values.tolist() == [1, 2, 3, 4, 5, 6]
    np.testing.assert_allclose(run.tensors["grad_norm"].values, gradients, rtol=1e-5)
    np.testing.assert_allclose(run.tensors["update_norm"].values, steps, rtol=1e-5)
    np.testing.assert_allclose(run.tensors["update_norm_intended"].values, steps, rtol=1e-4)
    assert run.metric("loss").step.values.tolist() == [1, 2, 3, 4, 5, 6]
    assert run.manifest.recorder["faults"] == {}
    assert hooks_of(optimizer) == 0


def test_training_is_untouched_and_the_spectra_of_the_last_step_are_there(tmp_path: Path, make_net, read) -> None:
    def train(recorder: Recorder | None) -> tuple[list[torch.Tensor], torch.Tensor]:
        torch.manual_seed(3)
        net = make_net()
        optimizer = torch.optim.AdamW(net.parameters(), lr=1e-2)
        if recorder is not None:
            recorder.attach(net, optimizer)
        for step in range(7):
            optimizer.zero_grad()
            (loss_of(net, step) + 0 * torch.rand(())).backward()
            optimizer.step()
            if recorder is not None:
                recorder.step()
        if recorder is not None:
            recorder.close()
        return [p.detach() for p in net.parameters()], torch.random.get_rng_state()

    plain, state = train(None)
    recorded, same_state = train(Recorder(tmp_path / "run"))
    assert all(equal_bits(a, b) for a, b in zip(plain, recorded, strict=True))
    assert torch.equal(state, same_state)
    run = read()
    assert run.spectra.step.values.tolist() == [1, 7], "nobody knew the last step beforehand"
    assert np.isfinite(run.tensors["delta_norm"].values[-1]).all()
    assert run.rows["metrics"] == 7, "what recording costs is recorded without any scalar of the loop's own"


def test_what_is_not_recorded_is_said(recorder, make_net, read) -> None:
    net = make_net()
    with recorder.attach(net, torch.optim.SGD(net.parameters(), lr=0.1), max_steps=1):
        pass
    run = read()
    (skipped,) = [entry for entry in run.manifest.recorder["skipped"] if entry["what"] == "rollouts"]
    assert "GRPOTrainer" in skipped["why"]
    assert run.manifest.trainer["class"] is None
    assert run.status == "empty"


def test_scalars_of_torch_and_numpy(recorder, make_net, read) -> None:
    net = make_net()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    with recorder.attach(net, optimizer):
        loss = loss_of(net, 0)
        loss.backward()
        optimizer.step()
        recorder.step({"loss": loss, "rate": np.float32(0.25), "one": np.ones(1), "text": "x", "many": torch.ones(3)})
    run = read()
    assert float(run.metric("loss")[0]) == pytest.approx(loss.item())
    assert float(run.metric("rate")[0]) == 0.25
    assert float(run.metric("one")[0]) == 1.0
    assert not {"text", "many"} & set(run.metrics.metric.values)


def test_a_step_without_an_update_is_named_and_its_scalars_kept(recorder, make_net, read) -> None:
    net = make_net()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    with recorder.attach(net, optimizer):
        for step in range(4):
            loss_of(net, step).backward()
            if step % 2:
                optimizer.step()
                optimizer.zero_grad()
            recorder.step({"micro_batch": step})
    run = read()
    assert run.tensors.step.values.tolist() == [1, 2]
    assert run.metric("micro_batch").values.tolist() == [0, 1, 2, 3]
    assert run.metric("micro_batch").step.values.tolist() == [0, 1, 1, 2]
    assert len(events(run, "step without an update")) == 1


def test_updates_without_the_line_are_recorded_all_the_same(recorder, make_net, read) -> None:
    net = make_net()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    with recorder.attach(net, optimizer):
        for step in range(3):
            loss_of(net, step).backward()
            optimizer.step()
    assert read().tensors.step.values.tolist() == [1, 2, 3]


def test_another_optimizer_in_the_middle(recorder, make_net, read) -> None:
    """The optimizer is swapped mid-run: attached again, the run goes on, and the old one keeps no hook."""
    net = make_net()
    first = torch.optim.SGD(net.parameters(), lr=0.1)
    recorder.attach(net, first)
    second = torch.optim.AdamW(net.parameters(), lr=0.01)
    for step in range(4):
        if step == 2:
            recorder.attach(net, second)
        optimizer = first if step < 2 else second
        optimizer.zero_grad()
        loss_of(net, step).backward()
        optimizer.step()
        recorder.step()
    recorder.close()
    run = read()
    assert run.tensors.step.values.tolist() == [1, 2, 3, 4]
    np.testing.assert_allclose(run.tensors["update_norm_intended"], run.tensors["update_norm"], rtol=1e-4)
    assert len(events(run, "optimizer changed")) == 1
    assert hooks_of(first) == hooks_of(second) == 0


def test_an_optimizer_that_nobody_attached_is_noticed(recorder, make_net, read) -> None:
    net = make_net()
    first, second = (torch.optim.AdamW(net.parameters(), lr=0.01) for _ in range(2))
    with recorder.attach(net, first):
        loss_of(net, 0).backward()
        second.step()
        recorder.step()
    assert events(read(), "step without an update")


def test_a_closure_hides_the_gradients_and_nothing_else(recorder, make_net, read) -> None:
    net = make_net()
    optimizer = torch.optim.LBFGS(net.parameters(), lr=0.1)

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = loss_of(net, 0)
        loss.backward()
        return loss

    with recorder.attach(net, optimizer):
        for _ in range(2):
            optimizer.step(closure)
            recorder.step()
    run = read()
    assert np.isnan(run.tensors["grad_norm"].values).all()
    assert (run.tensors["update_norm"].values > 0).all()
    assert "closure" in events(run, "gradients hidden")[0]["why"]


def test_a11_reasons_why_a_tensor_does_not_move_are_told_apart(recorder, make_net, read) -> None:
    """A11: a rate of zero, a gradient of zero, no gradient, and a frozen tensor all leave a weight where it was."""
    net = make_net()
    warm, still, without, moving = net.parameters()
    optimizer = torch.optim.AdamW(
        [{"params": [warm], "lr": 0.0}, {"params": [still, without, moving]}], lr=0.01, weight_decay=0.0
    )
    with recorder.attach(net, optimizer):
        for step in range(3):
            optimizer.zero_grad()
            loss_of(net, step).backward()
            still.grad, without.grad = torch.zeros_like(still), None
            optimizer.step()
            recorder.step()
    run = read()
    gradients, updates = run.tensors["grad_norm"].values, run.tensors["update_norm"].values
    assert (updates[:, :3] == 0).all()
    assert (updates[:, 3] > 0).all()
    assert (gradients[:, 0] > 0).all()
    assert (gradients[:, 1] == 0).all()
    assert np.isnan(gradients[:, 2]).all()
    (event,) = events(run, "no gradient")
    assert event["tensors"] == ["2.weight"]


@pytest.mark.parametrize("fused", [False, True])
def test_a_gradient_scaler_is_seen_through(recorder, make_net, read, fused: bool) -> None:
    """Gradients count unscaled; a step that the scaler skips is none; where the optimizer unscales, they are hidden."""
    net = make_net()
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.01, fused=fused)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    true = []
    with recorder.attach(net, optimizer):
        for step in range(3):
            optimizer.zero_grad()
            scaler.scale(loss_of(net, step)).backward()
            true.append([float(p.grad.double().norm()) / scaler.get_scale() for p in net.parameters()])
            if step == 1:
                next(net.parameters()).grad[0, 0] = torch.inf
            scaler.step(optimizer)
            scaler.update()
            recorder.step()
    run = read()
    if fused:
        assert np.isnan(run.tensors["grad_norm"].values).all()
        assert "fused" in events(run, "gradients hidden")[0]["why"]
        return
    assert run.tensors.step.values.tolist() == [1, 2]
    np.testing.assert_allclose(run.tensors["grad_norm"].values, [true[0], true[2]], rtol=1e-5)
    assert events(run, "step without an update")


def test_accelerate_steps_once_per_accumulated_batch(recorder, make_net, read) -> None:
    """The wrapper's `step` is called for every micro-batch; only the optimizer's own is an update."""
    from accelerate import Accelerator  # noqa: PLC0415

    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
    net = make_net()
    net, optimizer = accelerator.prepare(net, torch.optim.AdamW(net.parameters(), lr=0.01))
    with recorder.attach(net, optimizer):
        for step in range(4):
            with accelerator.accumulate(net):
                accelerator.backward(loss_of(net, step))
                optimizer.step()
                optimizer.zero_grad()
            recorder.step()
    run = read()
    assert run.tensors.step.values.tolist() == [1, 2]
    np.testing.assert_allclose(run.tensors["update_norm_intended"], run.tensors["update_norm"], rtol=1e-4)


def test_a_resumed_loop_goes_on_with_its_run(tmp_path: Path, make_net, read) -> None:
    net = make_net()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    start = [p.detach().clone() for p in net.parameters()]
    for first in (0, 2):
        with Recorder(tmp_path / "run", FULL).attach(net, optimizer, start_step=first) as recorder:
            for step in range(2):
                optimizer.zero_grad()
                loss_of(net, first + step).backward()
                optimizer.step()
                recorder.step()
    run = read()
    assert run.tensors.step.values.tolist() == [1, 2, 3, 4]
    assert run.tensors.segment.values.tolist() == [0, 0, 1, 1]
    true = [float((p.detach().double() - s.double()).norm()) for p, s in zip(net.parameters(), start, strict=True)]
    np.testing.assert_allclose(run.tensors["delta_norm"].values[-1], true, rtol=1e-5)


def test_another_model_begins_another_run(tmp_path: Path, recorder, make_net) -> None:
    for seed in (0, 1):
        net = make_net(seed)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        recorder.attach(net, optimizer)
        loss_of(net, 0).backward()
        optimizer.step()
        recorder.step()
    recorder.close()
    assert {open_run(tmp_path / name).status for name in ("run", "run-2")} == {"finished"}


@pytest.mark.parametrize(("error", "status"), [(RuntimeError, "failed"), (KeyboardInterrupt, "stopped_early")])
def test_an_early_exception_leaves_a_whole_run(recorder, make_net, read, error, status: str) -> None:
    net = make_net()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)

    def train() -> None:
        with recorder.attach(net, optimizer):
            for step in range(5):
                if step == 3:
                    raise error
                loss_of(net, step).backward()
                optimizer.step()
                recorder.step({"loss": 1.0})

    with pytest.raises(error):
        train()
    run = read()
    assert run.status == status
    assert run.tensors.step.values.tolist() == [1, 2, 3]
    assert run.spectra.step.values[-1] == 3
    assert hooks_of(optimizer) == 0


@pytest.mark.parametrize("wrong", [None, object(), {"lr": 1}])
def test_what_is_no_optimizer_raises_nothing_and_is_said(recorder, make_net, caplog, wrong) -> None:
    with recorder.attach(make_net(), wrong):
        recorder.step({"loss": 1.0})
    said = [record.getMessage() for record in caplog.records if "hooks of the optimizer" in record.getMessage()]
    assert f"the optimizer is a {type(wrong).__name__}, expected a torch.optim.Optimizer" in said[0]


def test_a_script_may_turn_it_off_from_outside(tmp_path: Path, recorder, make_net, monkeypatch) -> None:
    monkeypatch.setenv("GRPODYN_DISABLE", "1")
    net = make_net()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    with recorder.attach(net, optimizer):
        recorder.step()
    assert hooks_of(optimizer) == 0
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("metrics", [[1.0], "loss", 3])
def test_metrics_that_cannot_be_read_take_nothing_else_of_the_step_with_them(
    recorder, make_net, read, metrics: object
) -> None:
    net = make_net()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    with recorder.attach(net, optimizer):
        for given in (metrics, {"loss": 10**400}):
            loss_of(net, 0).backward()
            optimizer.step()
            recorder.step(given)
    run = read()
    assert run.metrics.step.values.tolist() == [2]
    assert np.isinf(float(run.metric("loss")[0]))
    assert run.layers.step.values[-1] == 2
    assert any("expected a mapping" in event["why"] for event in run.events)


@pytest.mark.parametrize(
    ("steps", "error", "said"),
    [
        ({"start_step": -3}, ValueError, "start_step is -3, expected the number of updates made before"),
        ({"start_step": 1.5}, TypeError, "start_step is 1.5, expected a whole number"),
        ({"start_step": True}, TypeError, "start_step is True"),
        ({"start_step": 4, "max_steps": 3}, ValueError, "max_steps is 3, expected the last step"),
        ({"max_steps": "10"}, TypeError, "max_steps is '10'"),
    ],
)
def test_steps_that_cannot_be_are_refused_before_training(recorder, make_net, steps, error, said) -> None:
    net = make_net()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    with pytest.raises(error, match=said):
        recorder.attach(net, optimizer, **steps)
    assert hooks_of(optimizer) == 0
    with pytest.raises(TypeError, match=r"model is a SGD, expected a torch\.nn\.Module"):
        recorder.attach(optimizer, net)


def test_whole_numbers_of_other_libraries_are_steps(recorder, make_net, read) -> None:
    net = make_net()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    with recorder.attach(net, optimizer, start_step=np.int64(0), max_steps=torch.tensor(1)):
        loss_of(net, 0).backward()
        optimizer.step()
        recorder.step()
    assert read().last_step == 1


@pytest.mark.parametrize("wrong", ["full", {"preset": "full"}, 5])
def test_a_config_that_is_none_is_refused_at_once(tmp_path: Path, wrong: object) -> None:
    with pytest.raises(TypeError, match="expected a RecordConfig or None: RecordConfig\\(preset="):
        Recorder(tmp_path / "run", wrong)
    with pytest.raises(TypeError, match=r"manifest is .*expected a mapping"):
        Recorder(tmp_path / "run", manifest=["config"])


def test_a_step_without_a_loop_is_refused_before_training_and_warned_of_once_after_it(
    recorder, make_net, caplog
) -> None:
    with pytest.raises(ValueError, match="before attach"):
        recorder.step({"loss": 1.0})
    net = make_net()
    with recorder.attach(net, torch.optim.SGD(net.parameters(), lr=0.1)):
        pass
    for _ in range(3):
        recorder.step({"loss": 1.0})
    said = [record.getMessage() for record in caplog.records if "step() records nothing" in record.getMessage()]
    assert said == ["step() records nothing: recording has ended"]
