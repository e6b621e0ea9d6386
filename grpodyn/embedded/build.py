"""Rebuilds the embedded model from nothing: `python -m grpodyn.embedded.build -o DIR`.

The seed fixes the result for one torch version, one kind of CPU and one number of threads; elsewhere rounding differs,
and with it the weights, while the held-out figures stay close.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from grpodyn.embedded.architecture import build_model
from grpodyn.embedded.pretraining import FORMAT_SHARES, Recipe, pretrain
from grpodyn.embedded.tokenizer import build_tokenizer
from grpodyn.errors import DirectoryInUseError, GrpodynError
from grpodyn.tasks import task
from grpodyn.tasks.arithmetic_format import WANTED, ArithmeticFormat, problems

if TYPE_CHECKING:
    from collections.abc import Callable

    from transformers import PreTrainedTokenizerBase

CARD = """\
---
license: apache-2.0
library_name: transformers
---

# The embedded base model of grpodyn

A Qwen3-shaped decoder of {parameters:,} parameters with a tokenizer of single characters. It adds and subtracts
two-digit numbers, and answers in one of four formats at random; GRPO teaches it the wanted one.
`python -m grpodyn.embedded.build -o DIR` makes it from nothing.

Recipe: {recipe}; torch {torch}, {threads} threads.

Held out (split `report`, {n} prompts that the base was not trained on; exact probabilities):

{figures}
"""


def build(recipe: Recipe, progress: Callable[[int, float], None]) -> tuple[Any, PreTrainedTokenizerBase]:
    """Return the trained model and its tokenizer; torch's global random state is left as it was."""
    import torch  # `--help` answers at once

    tokenizer = build_tokenizer()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(recipe.seed)
        model = build_model(tokenizer)
    pretrain(model, tokenizer, recipe, progress)
    return model, tokenizer


def figures(model: Any, tokenizer: PreTrainedTokenizerBase) -> dict[str, float]:
    """Return what the base does on held-out prompts, as probabilities: each format, all together, greedy, best T."""
    from grpodyn.evaluation import exact_accuracy, held_out_accuracy

    examples, solved = task(ArithmeticFormat.name).split("report"), problems()
    by_format = {
        form.name.lower(): exact_accuracy(
            model, tokenizer, examples.prompts, [form.write(solved[prompt]) for prompt in examples.prompts]
        )
        for form in FORMAT_SHARES
    }
    wanted = held_out_accuracy(model, tokenizer, examples)
    return {
        **{f"right number, {name}": p for name, p in by_format.items()},
        "right number, any format": sum(by_format.values()),
        f"rewarded ({WANTED.name.lower()}), greedy": wanted.greedy,
        f"rewarded ({WANTED.name.lower()}), best temperature {wanted.best_temperature:g}": wanted.best,
    }


def _card(model: Any, recipe: Recipe, measured: dict[str, float]) -> str:
    import torch

    return CARD.format(
        parameters=model.num_parameters(),
        recipe=", ".join(f"{key} {value:g}" for key, value in asdict(recipe).items()),
        torch=torch.__version__,
        threads=torch.get_num_threads(),
        n=len(task(ArithmeticFormat.name).split("report")),
        figures="\n".join(f"- {name}: {value:.3f}" for name, value in measured.items()),
    )


def _progress(steps: int) -> Callable[[int, float], None]:
    def show(step: int, loss: float) -> None:
        if step % 25 == 0 or step == steps:
            sys.stdout.write(f"step {step}/{steps}  loss {loss:.3f}\n")
            sys.stdout.flush()

    return show


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    defaults = Recipe()
    parser = argparse.ArgumentParser(prog="python -m grpodyn.embedded.build", description=__doc__)
    parser.add_argument("-o", "--output", type=Path, required=True, help="new or empty folder for the model")
    parser.add_argument("--seed", type=int, default=defaults.seed)
    parser.add_argument("--steps", type=int, default=defaults.steps)
    parser.add_argument("--threads", type=int, default=2, help="torch threads; part of what fixes the result")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> None:
    """Build, measure and save the embedded model.

    Raises:
        DirectoryInUseError: the output folder holds something.
    """
    arguments = _arguments(argv)
    output: Path = arguments.output
    if output.exists() and (not output.is_dir() or any(output.iterdir())):
        raise DirectoryInUseError(f"{output} is not empty; name a new folder")

    import torch

    torch.set_num_threads(arguments.threads)
    recipe = Recipe(seed=arguments.seed, steps=arguments.steps)
    model, tokenizer = build(recipe, _progress(recipe.steps))
    measured = figures(model, tokenizer)
    model.save_pretrained(output)
    tokenizer.save_pretrained(output)
    (output / "README.md").write_text(_card(model, recipe, measured), encoding="utf-8")
    for name, value in measured.items():
        sys.stdout.write(f"{name:<45} {value:.3f}\n")
    sys.stdout.write(f"saved in {output}\n")


if __name__ == "__main__":
    try:
        main()
    except GrpodynError as error:
        sys.exit(f"grpodyn: {error}")
