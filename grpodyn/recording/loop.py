"""The events of a training loop that no trainer runs, told from the steps of its optimizer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from torch import nn
from torch.utils.hooks import RemovableHandle

from grpodyn.recording.follower import Follower
from grpodyn.recording.scalars import numbers
from grpodyn.recording.session import Session

Recording = Session | Follower
"""What the events of training go to: the session that writes, or another rank's part in it."""

Run = Callable[[str, Callable[[Recording], None]], None]
"""Does something with the recording, inside the recorder's boundary."""


class Loop:
    """Watches one optimizer: whoever calls its `step` (the loop, an accelerator, a gradient scaler) makes an update.

    Args:
        model: what the loop trains.
        done: updates made before.
        run: see `Run`.
    """

    def __init__(self, model: nn.Module, done: int, run: Run) -> None:
        self.model = model
        self.done = done
        """Updates so far: the step that metrics belong to."""
        self._told = done
        self._run = run
        self._handles: list[RemovableHandle] = []

    def watch(self, optimizer: Any) -> None:
        """Hook an optimizer, in place of the one that was hooked before.

        Raises:
            TypeError: it has no hooks that are of use: it is no `torch.optim.Optimizer`.
        """
        self.remove()
        hooked = _hookable(optimizer)
        self._handles = [
            hooked.register_step_pre_hook(self._before),
            hooked.register_step_post_hook(self._after),
        ]

    def remove(self) -> None:
        """Leave the optimizer as it was."""
        while self._handles:
            self._handles.pop().remove()

    def step(self, metrics: Mapping[str, Any]) -> None:
        """End a step of the loop, with its scalars."""
        updated, self._told = self.done > self._told, self.done

        def end(session: Recording) -> None:
            if updated:
                session.step_ends(self.done, stopping=False, saving=False)
            else:
                session.without_update(self.done)

        def log(session: Recording) -> None:
            scalars = numbers(metrics)
            if scalars or updated:
                session.log(self.done, scalars, saving=False)

        # Each on its own: metrics that cannot be read take nothing else of the step with them.
        self._run("end of a step", end)
        self._run("metrics of a step", log)
        self._run("start of a step", lambda session: session.next_step_begins())

    def _before(self, optimizer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        hidden = _hidden_gradients(optimizer, args, kwargs)
        self._run("before the optimizer", lambda session: session.before_optimizer(self.done + 1, hidden))

    def _after(self, optimizer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.done += 1
        self._run("after the optimizer", lambda session: session.after_optimizer(self.done))


def _hookable(optimizer: Any) -> Any:
    if type(optimizer).__module__.startswith("deepspeed."):
        # Its weights change only after the optimizer inside has stepped: every update would seem to be 0.
        raise TypeError("DeepSpeed's optimizers cannot be hooked; expected one of torch: train with a Trainer")
    # accelerate's wrapper is an Optimizer by name only: the one inside is stepped, and not at every micro-batch.
    own = "_optimizer_step_pre_hooks" in getattr(optimizer, "__dict__", {})
    hooked = optimizer if own else getattr(optimizer, "optimizer", optimizer)
    if not hasattr(hooked, "register_step_pre_hook"):
        raise TypeError(
            f"the optimizer is a {type(optimizer).__name__}, expected a torch.optim.Optimizer: no step of it is seen"
        )
    return hooked


def _hidden_gradients(optimizer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str | None:
    """Return why the gradients that stand in the parameters are not those of the step; None where they are."""
    if kwargs.get("closure") is not None or any(callable(argument) for argument in args[1:]):
        return "the optimizer computes gradients itself, by the closure that its step is given"
    if getattr(optimizer, "grad_scale", None) is not None:
        return "gradients are scaled for half precision, and the fused optimizer unscales them inside its step"
    return None
