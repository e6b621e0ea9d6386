"""A tokenizer of single characters in Hugging Face format."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

PAD, EOS, UNKNOWN = "<pad>", "<eos>", "<unk>"
CHARACTERS = "0123456789+-=.[]#"
"""Of the shipped model."""


def build_tokenizer(characters: str = CHARACTERS) -> PreTrainedTokenizerFast:
    """Return a tokenizer with one token a character, padding on the left as generation needs it.

    One string has one tokenization, so the probability of a string is the product of its tokens' probabilities.
    """
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers  # keeps --help fast
    from transformers import PreTrainedTokenizerFast

    vocabulary = {token: index for index, token in enumerate((PAD, EOS, UNKNOWN, *characters))}
    backend = Tokenizer(models.WordLevel(vocabulary, unk_token=UNKNOWN))
    backend.pre_tokenizer = pre_tokenizers.Split(Regex("."), behavior="isolated")
    backend.decoder = decoders.Fuse()
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        pad_token=PAD,
        eos_token=EOS,
        unk_token=UNKNOWN,
        padding_side="left",
        model_max_length=64,
        clean_up_tokenization_spaces=False,
    )
