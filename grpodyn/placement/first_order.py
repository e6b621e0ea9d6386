"""What one backward pass over two checkpoints says of each part, and what the base alone says (NFN)."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from grpodyn.ablation.activations import batches, feature_norms
from grpodyn.attribution.subject import Subject
from grpodyn.attribution.weights import required
from grpodyn.evaluation.answer_scores import evaluating
from grpodyn.lora.modules import LinearModule, layer_of
from grpodyn.naming.canonical import canonical_name
from grpodyn.placement.parts import layer
from grpodyn.tasks import Examples

FIRST_ORDER = "first-order loss change"
FEATURE_NORM = "PLoP's NFN"


def loss_change(subject: Subject, linear: Sequence[LinearModule], examples: Examples) -> dict[str, float]:
    """Return part → −⟨∇L(W_0), W_T − W_0⟩: how much its change should lower the loss, to first order.

    L is the cross-entropy of the right answers after their prompts, nats a token, by one pass over the base. The part's
    linear weights count.

    Args:
        subject: the base, live, and both versions of its weights.
        linear: the linear modules of the blocks.
        examples: held-out prompts with right answers.

    Reference:
        First-order Taylor importance, Molchanov et al., arXiv 1906.10771, eq. 3, with W_T in place of 0.
    """
    model = subject.model
    places = {f"{module.name}.weight": module for module in linear}
    weights = {canonical_name(name): parameter for name, parameter in model.named_parameters()}
    wanted = {name: weights[name] for name in places if name in weights}
    total = dict.fromkeys(wanted, 0.0)
    tokens = 0
    for batch, prompt_tokens in _batches(subject, examples):
        labels = batch["input_ids"].masked_fill(batch["attention_mask"] == 0, -100)
        for row, count in enumerate(prompt_tokens):
            first = int(batch["attention_mask"][row].argmax())
            labels[row, : first + count] = -100
        answered = int((labels != -100).sum())
        with evaluating(model), torch.enable_grad():
            loss = model(**batch, labels=labels, use_cache=False).loss * answered
            gradients = torch.autograd.grad(loss, list(wanted.values()))
        tokens += answered
        for name, gradient in zip(wanted, gradients, strict=True):
            change = required(subject.final, name).to(gradient) - required(subject.base, name).to(gradient)
            total[name] -= float((gradient.double() * change.double()).sum())
    found: dict[str, float] = {}
    for name, value in total.items():
        at = layer_of(name)
        parts = [places[name].leaf] + ([layer(at.rsplit(".", 1)[1])] if at is not None else [])
        for part in parts:
            found[part] = found.get(part, 0.0) + value / tokens
    return found


def feature_norm_scores(subject: Subject, linear: Sequence[LinearModule], examples: Examples) -> dict[str, float]:
    """Return module type → −NFN: PLoP advises the lowest (arXiv 2506.20629). Layers have none."""
    norms = feature_norms(subject.model, linear, batches(subject.tokenizer, examples, subject.model.device))
    return {module: -norm for module, norm in norms.items()}


def _batches(subject: Subject, examples: Examples) -> list[tuple[dict[str, torch.Tensor], list[int]]]:
    """Return batches as a model takes them, with the number of tokens of each row's prompt."""
    lengths = [len(ids) for ids in subject.tokenizer(list(examples.prompts))["input_ids"]]
    encoded = batches(subject.tokenizer, examples, subject.model.device)
    found, at = [], 0
    for batch in encoded:
        rows = len(batch["input_ids"])
        found.append((batch, lengths[at : at + rows]))
        at += rows
    return found
