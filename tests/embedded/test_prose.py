"""Stories, and the batches in which a base reads them beside its task."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
import torch

from grpodyn.config.run import ModelConfig
from grpodyn.embedded import stories
from grpodyn.embedded.architecture import build_model
from grpodyn.embedded.bases import base
from grpodyn.embedded.build import _go_on_from
from grpodyn.embedded.pretraining import pretrain
from grpodyn.embedded.prose import ProseReader
from grpodyn.embedded.tokenizer import build_tokenizer
from grpodyn.evaluation.text import SHIPPED, read_text, windows
from grpodyn.tasks.splits import split_of
from grpodyn.training.loading import load_model, load_tokenizer


@pytest.fixture(scope="module")
def parts():
    wanted = base("embedded-text")
    return wanted, build_tokenizer(wanted.characters), wanted.mixture()


def test_the_shipped_text_is_the_held_out_stories():
    lines = (SHIPPED / "stories.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line)["text"] for line in lines] == list(stories.stories("report"))


def test_no_held_out_story_is_taught(parts):
    _, _, mixture = parts
    assert set(mixture.prose.texts) == set(stories.stories("train"))
    assert {split_of(text) for text in mixture.prose.texts} == {"train"}


def test_stories_are_written_in_the_models_characters_and_fit_it(parts):
    wanted, tokenizer, _ = parts
    for split in ("train", "choose", "confirm", "report"):
        assert set("".join(stories.stories(split))) <= set(wanted.characters)
        assert max(map(len, stories.stories(split))) <= stories.LONGEST
    cut = windows(read_text("stories"), tokenizer, 60, 200)
    # The first token of a document has nothing before it.
    assert sum(len(row.scored) for row in cut.rows) == sum(len(text) - 1 for text in stories.stories("report"))


def test_a_row_that_runs_on_has_no_end_and_counts_as_an_answer_up_to_the_space(parts):
    _, tokenizer, mixture = parts
    reader = ProseReader(tokenizer, mixture, mixture.prose, torch.Generator().manual_seed(0))
    ids, of_answer, of_text = reader._batch()
    texts, run_on = mixture.prose.texts_a_step, mixture.prose.run_on_a_step
    assert ids.shape[0] == texts + run_on
    ends = (ids == tokenizer.eos_token_id).sum(1)
    assert ends[:texts].tolist() == [1] * texts
    assert ends[texts:].tolist() == [0] * run_on
    row = tokenizer.decode(ids[texts][of_answer[texts].bool()])
    assert row.endswith(" ")
    prompt, _, _ = tokenizer.decode(ids[texts], skip_special_tokens=True).partition("=")
    assert row.strip() in {way[mixture.prompts.index(f"{prompt}=")] for way in mixture.answers}
    assert not (of_answer.bool() & of_text.bool()).any()


class _Fixed(torch.nn.Module):
    """Says the same of every token: `share` of the time an end, else a space."""

    def __init__(self, vocabulary: int, end: int, space: int, share: float) -> None:
        super().__init__()
        self.logits = torch.full((vocabulary,), -30.0)
        self.logits[end], self.logits[space] = torch.tensor(share).log(), torch.tensor(1 - share).log()

    def forward(self, input_ids, use_cache):
        class Output:
            logits = self.logits.expand(*input_ids.shape, -1)

        return Output()


def test_the_loss_adds_up_rows_alike_whether_they_end_or_go_on(parts):
    _, tokenizer, mixture = parts
    readers = [ProseReader(tokenizer, mixture, mixture.prose, torch.Generator().manual_seed(0)) for _ in range(2)]
    (space,) = tokenizer(" ")["input_ids"]
    model = _Fixed(len(tokenizer), tokenizer.eos_token_id, space, 0.5)
    answers = 128
    losses = zip(readers, (0.0, 3.0), strict=True)
    with_answers = [reader.loss(model, torch.tensor(value), answers) for reader, value in losses]
    # 64 rows go on beside 128 that end.
    assert float(with_answers[1] - with_answers[0]) == pytest.approx(3.0 * 128 / (128 + 64), rel=1e-5)


def test_a_few_steps_lower_the_loss(parts):
    wanted, tokenizer, mixture = parts
    torch.manual_seed(0)
    model = build_model(tokenizer, layers=1)
    seen = []
    recipe = replace(wanted.recipe, steps=8, batch_size=32, warmup_steps=1)
    pretrain(model, tokenizer, mixture, recipe, lambda _, loss: seen.append(loss))
    assert seen[-1] < 0.9 * seen[0]


def test_other_bases_read_nothing_and_keep_their_digest():
    # Changing it would throw away every model that is cached, for nothing.
    assert base("embedded-strings").mixture().prose is None
    assert base("embedded-strings").digest().startswith("58d3906ea5ed")


def test_it_starts_with_what_the_shipped_one_knows(parts):
    _, tokenizer, _ = parts
    torch.manual_seed(0)
    model = build_model(tokenizer)
    _go_on_from("embedded", model, tokenizer)
    shipped, its_tokenizer = load_model(ModelConfig(path="embedded")), load_tokenizer(ModelConfig(path="embedded"))
    texts = ["23+45=68.0", "71-90=[-19]"]
    for text in texts:
        ours, theirs = (
            known(input_ids=torch.tensor([reads(text)["input_ids"]])).logits[0]
            for known, reads in ((model, tokenizer), (shipped, its_tokenizer))
        )
        vocabulary, own = its_tokenizer.get_vocab(), tokenizer.get_vocab()
        pairs = [(own[token], vocabulary[token]) for token in vocabulary]
        assert torch.allclose(ours[:, [a for a, _ in pairs]], theirs[:, [b for _, b in pairs]], atol=1e-4)
