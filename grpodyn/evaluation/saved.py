"""Texts that were chosen after a run: its base and its saved weights, measured now."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from grpodyn.evaluation.kept_losses import Kept
from grpodyn.evaluation.perplexity import window_losses
from grpodyn.evaluation.text import read_text, windows

if TYPE_CHECKING:
    from grpodyn.trace.reader import Run


def measure_texts(
    run: Run,
    sources: Sequence[str],
    *,
    window: int,
    most_windows: int,
    base: Path | None = None,
    final: Path | None = None,
    device: str = "cpu",
    say: Callable[[str], None] = lambda _: None,
) -> list[Kept]:
    """Return each text's losses under the base (step 0) and under the trained weights (the run's last step).

    Args:
        run: the run; its base and trained weights or adapter must be on this machine.
        sources: files, or names of shipped texts.
        window: tokens of a window.
        most_windows: windows of each text at most.
        base: folder of the base, if the manifest's is gone.
        final: folder of the trained weights or adapter, if the run holds none.
        device: where to measure.
        say: gets a line as each model is measured.

    Raises:
        ConfigError: a text is missing, or the tokenizer does not know it.
        MissingDataError, UnreadableError: weights are missing, or the base is not the run's.
    """
    import torch

    from grpodyn.attribution.subject import of_run

    texts = [read_text(source) for source in sources]
    subject = of_run(run.path, base, final, None, device)
    cut = [(text, windows(text, subject.tokenizer, window, most_windows)) for text in texts]
    found = []
    for step, weights in ((0, None), (max(run.last_step, 1), subject.final)):
        if weights is not None:
            with torch.no_grad():
                for name, parameter in subject.model.named_parameters():
                    value = weights.tensor(name)
                    if value is not None:
                        parameter.copy_(value)
        say(f"step {step}: {', '.join(text.name for text in texts)}")
        found += [Kept.of_text(step, text, window_losses(subject.model, windows_)) for text, windows_ in cut]
    return found
