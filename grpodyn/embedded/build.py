"""Builds an embedded model from nothing: `python -m grpodyn.embedded.build -o DIR [--model NAME]`.

The seed fixes the result for one torch version, one kind of CPU and one number of threads; elsewhere rounding differs,
and with it the weights, while the held-out figures stay close.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from grpodyn.embedded import SHIPPED
from grpodyn.embedded.architecture import build_model
from grpodyn.embedded.bases import BASES, Base, base
from grpodyn.embedded.pretraining import pretrain
from grpodyn.embedded.tokenizer import build_tokenizer
from grpodyn.errors import DirectoryInUseError, GrpodynError
from grpodyn.tasks import task

if TYPE_CHECKING:
    from collections.abc import Callable

    from transformers import PreTrainedTokenizerBase

CARD = """\
---
license: apache-2.0
library_name: transformers
---

# {name}, a base model of grpodyn

A Qwen3-shaped decoder of {layers} layers and {parameters:,} parameters with a tokenizer of single characters, for the
task `{task}`. {about} `python -m grpodyn.embedded.build --model {name} -o DIR` makes it from nothing.

Recipe: {recipe}; torch {torch}, {threads} threads.

Held out (split `report`, {n} prompts that the base was not trained on; exact probabilities):

{figures}
"""


def build(base: Base, progress: Callable[[int, float], None]) -> tuple[Any, PreTrainedTokenizerBase]:
    """Return the trained model and its tokenizer; torch's global random state is left as it was."""
    import torch  # `--help` answers at once

    tokenizer = build_tokenizer(base.characters)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(base.recipe.seed)
        model = build_model(tokenizer, base.layers, base.local_layers)
    if base.start is not None:
        _go_on_from(base.start, model, tokenizer)
    pretrain(model, tokenizer, base.mixture(), base.recipe, progress)
    return model, tokenizer


def _go_on_from(start: str, model: Any, tokenizer: PreTrainedTokenizerBase) -> None:
    """Give a model the weights of another base; tokens that only one of them knows are left as they are."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from grpodyn.embedded.cache import model_dir

    folder = model_dir(start)
    known = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    old, new = AutoTokenizer.from_pretrained(folder).get_vocab(), tokenizer.get_vocab()
    shared = [token for token in new if token in old]
    rows = model.get_input_embeddings().weight.detach().clone()
    rows[[new[token] for token in shared]] = known.get_input_embeddings().weight.detach()[
        [old[token] for token in shared]
    ]
    weights = {
        name: value for name, value in known.state_dict().items() if value.shape == model.state_dict()[name].shape
    }
    model.load_state_dict(weights, strict=False)
    with torch.no_grad():
        model.get_input_embeddings().weight.copy_(rows)


def figures(base: Base, model: Any, tokenizer: PreTrainedTokenizerBase) -> dict[str, float]:
    """Return what the base does on held-out prompts, as probabilities: each way, all together, greedy, best T."""
    from grpodyn.evaluation import exact_accuracy, held_out_accuracy

    examples = task(base.task).split("report")
    by_way = {
        way: exact_accuracy(model, tokenizer, examples.prompts, [answer(prompt) for prompt in examples.prompts])
        for way, answer in base.ways.items()
    }
    wanted = held_out_accuracy(model, tokenizer, examples)
    rewarded = list(base.ways)[-1]
    return {
        **{f"right, {way}": p for way, p in by_way.items()},
        "right in any way": sum(by_way.values()),
        f"rewarded ({rewarded}), greedy": wanted.greedy,
        f"rewarded ({rewarded}), best temperature {wanted.best_temperature:g}": wanted.best,
    }


def save(base: Base, model: Any, tokenizer: PreTrainedTokenizerBase, folder: Path) -> dict[str, float]:
    """Write the model, its tokenizer and a card with its measured figures into a folder, and return the figures."""
    measured = figures(base, model, tokenizer)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    (folder / "README.md").write_text(_card(base, model, measured), encoding="utf-8")
    return measured


def _card(base: Base, model: Any, measured: dict[str, float]) -> str:
    import torch

    return CARD.format(
        name=base.name,
        task=base.task,
        about=base.about,
        layers=base.layers,
        parameters=model.num_parameters(),
        recipe=", ".join(f"{key} {value:g}" for key, value in asdict(base.recipe).items()),
        torch=torch.__version__,
        threads=torch.get_num_threads(),
        n=len(task(base.task).split("report")),
        figures="\n".join(f"- {name}: {value:.3f}" for name, value in measured.items()),
    )


def _progress(steps: int) -> Callable[[int, float], None]:
    def show(step: int, loss: float) -> None:
        if step % 25 == 0 or step == steps:
            sys.stdout.write(f"step {step}/{steps}  loss {loss:.3f}\n")
            sys.stdout.flush()

    return show


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m grpodyn.embedded.build", description=__doc__)
    parser.add_argument("-o", "--output", type=Path, required=True, help="new or empty folder for the model")
    parser.add_argument("--model", choices=BASES, default=SHIPPED, help="which one; by default the shipped one")
    parser.add_argument("--seed", type=int, help="of the recipe")
    parser.add_argument("--steps", type=int, help="of the recipe")
    parser.add_argument("--threads", type=int, help="torch threads; part of what fixes the result")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> None:
    """Build, measure and save an embedded model.

    Raises:
        DirectoryInUseError: the output folder holds something.
    """
    arguments = _arguments(argv)
    output: Path = arguments.output
    if output.exists() and (not output.is_dir() or any(output.iterdir())):
        raise DirectoryInUseError(f"{output} is not empty; name a new folder")

    import torch

    torch.set_num_threads(arguments.threads or (2 if arguments.model == SHIPPED else 1))
    wanted = base(arguments.model)
    given = {key: getattr(arguments, key) for key in ("seed", "steps") if getattr(arguments, key) is not None}
    wanted = replace(wanted, recipe=replace(wanted.recipe, **given))
    model, tokenizer = build(wanted, _progress(wanted.recipe.steps))
    for name, value in save(wanted, model, tokenizer, output).items():
        sys.stdout.write(f"{name:<45} {value:.3f}\n")
    sys.stdout.write(f"saved in {output}\n")


if __name__ == "__main__":
    try:
        main()
    except GrpodynError as error:
        sys.exit(f"grpodyn: {error}")
