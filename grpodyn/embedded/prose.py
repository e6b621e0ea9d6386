"""Batches of text for the pre-training of a base that reads beside its task."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedTokenizerBase

    from grpodyn.embedded.pretraining import Mixture, Prose


class ProseReader:
    """Draws texts, and answers after which a text goes on, and adds their loss to that of a batch of answers.

    What comes right after an answer, its end or a text, counts with the answers, row by row alike: so the base ends its
    answers in the share in which it has met them ended.
    """

    def __init__(
        self, tokenizer: PreTrainedTokenizerBase, mixture: Mixture, prose: Prose, draw: torch.Generator
    ) -> None:
        import torch  # the package is importable without torch

        self._prose, self._draw = prose, draw
        self._pad = int(tokenizer.pad_token_id or 0)
        (self._space,) = tokenizer(" ")["input_ids"]
        self._end = tokenizer.eos_token_id
        self._texts = [list(ids) for ids in tokenizer(list(prose.texts))["input_ids"]]
        self._prompts = [list(ids) for ids in tokenizer(list(mixture.prompts))["input_ids"]]
        self._answers = [[list(ids) for ids in tokenizer(list(way))["input_ids"]] for way in mixture.answers]
        self._shares = torch.tensor(mixture.shares)

    def loss(self, model: Any, of_answers: torch.Tensor, answers: int) -> torch.Tensor:
        """Return the loss of a whole batch: answers that end and answers that go on, and, by its weight, text.

        Args:
            model: the model.
            of_answers: mean loss of the batch of answers that end.
            answers: how many those are.
        """
        import torch

        ids, of_answer, of_text = self._batch()
        logits = model(input_ids=ids[:, :-1], use_cache=False).logits
        each = torch.nn.functional.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten(), reduction="none")
        each = each.view(ids.shape[0], -1)
        going_on = (each * of_answer[:, 1:]).sum() / of_answer.sum().clamp(min=1)
        share = self._prose.run_on_a_step / (self._prose.run_on_a_step + answers)
        text = (each * of_text[:, 1:]).sum() / of_text.sum()
        return (1 - share) * of_answers + share * going_on + self._prose.weight * text

    def _batch(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return ids (rows, tokens), padded on the right, and which of them are an answer's, and which text."""
        import torch

        rows = [self._text_row() for _ in range(self._prose.texts_a_step)]
        rows += [self._run_on_row() for _ in range(self._prose.run_on_a_step)]
        width = max(len(ids) for ids, _, _ in rows)
        ids = torch.full((len(rows), width), self._pad)
        of_answer, of_text = torch.zeros(len(rows), width), torch.zeros(len(rows), width)
        for i, (tokens, answer, text) in enumerate(rows):
            ids[i, : len(tokens)] = torch.tensor(tokens)
            of_answer[i, answer] = 1.0
            of_text[i, text] = 1.0
        return ids, of_answer, of_text

    def _text_row(self) -> tuple[list[int], slice, slice]:
        tokens = [*self._texts[self._pick(len(self._texts))], self._end]
        return tokens, slice(0, 0), slice(1, len(tokens))

    def _run_on_row(self) -> tuple[list[int], slice, slice]:
        import torch

        which = self._pick(len(self._prompts))
        way = int(torch.multinomial(self._shares, 1, generator=self._draw))
        before, answer = self._prompts[which], self._answers[way][which]
        text = self._texts[self._pick(len(self._texts))][: self._prose.run_on_tokens]
        start, stop = len(before), len(before) + len(answer) + 1
        tokens = [*before, *answer, self._space, *text]
        return tokens, slice(start, stop), slice(stop, len(tokens))

    def _pick(self, count: int) -> int:
        import torch

        return int(torch.randint(count, (1,), generator=self._draw))
