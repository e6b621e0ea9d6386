"""The same interface with vLLM behind it: one live engine, weights pushed into it. Not run here: it needs a GPU."""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterable
from typing import Any

from torch import Tensor

from grpodyn.attribution.asking import Outcomes
from grpodyn.attribution.evaluators import MIN_SAMPLES, Scored, check_samples
from grpodyn.errors import UsageError
from grpodyn.tasks import Examples


def engine(model: str, dtype: str, **options: Any) -> Any:
    """Return a vLLM engine in this process, so that weights can be handed over without a copy.

    Raises:
        UsageError: vLLM is not installed.
    """
    os.environ.setdefault("VLLM_ENABLE_V1_MULTIPROCESSING", "0")
    try:
        vllm = importlib.import_module("vllm")
    except ImportError as error:
        raise UsageError(
            "--backend vllm needs vLLM, which is not installed: pip install vllm, or use --backend hf"
        ) from error
    return vllm.LLM(model=model, dtype=dtype, enable_prefix_caching=False, **options)


class VllmSamples:
    """Mean reward of k completions a prompt, sampled by vLLM.

    Args:
        llm: the engine, with the base weights loaded.
        tokenizer: its tokenizer.
        scored: what a completion is worth.
        samples: completions a prompt.
        max_new_tokens: longest completion.
        temperature: of the sampling.
        seed: of the sampling, the same for every state.
        sampling: builds the sampling parameters; vLLM's own class if not given.
        dtype: that the engine computes in.
    """

    def __init__(
        self,
        llm: Any,
        tokenizer: Any,
        scored: Scored,
        samples: int = MIN_SAMPLES,
        max_new_tokens: int = 256,
        temperature: float = 1.0,
        seed: int = 0,
        sampling: Any = None,
        dtype: str = "auto",
    ) -> None:
        check_samples(samples)
        self._llm, self._tokenizer, self._scored = llm, tokenizer, scored
        self._samples, self._length = samples, max_new_tokens
        if sampling is None:
            sampling = importlib.import_module("vllm").SamplingParams
        self._parameters = sampling(
            n=samples, temperature=temperature, top_p=1.0, top_k=0, max_tokens=max_new_tokens, seed=seed
        )
        settings = f"vllm, mean of {samples} samples, T={temperature:g}, {max_new_tokens} tokens, seed {seed}"
        self.name = f"{settings}, {scored.name}, {dtype}"

    def write(self, weights: Iterable[tuple[str, Tensor]]) -> None:
        """Hand weights to the engine's own loader, which knows how it has fused and split them.

        vLLM fuses q, k and v (and gate and up) into one weight of its own; its loader writes each into its place, so
        that a part of a fused weight can be pushed alone.
        """

        def load(model: Any) -> None:
            model.load_weights(weights)

        self._llm.apply_model(load)
        # What was computed with other weights must not be taken up again.
        self._llm.reset_prefix_cache()

    def outcomes(self, examples: Examples) -> Outcomes:
        """Return the mean reward of each prompt."""
        asked: list[Any] = list(examples.prompts)
        if examples.templated:
            # The template has written the special tokens; the engine would write them again.
            encoded = self._tokenizer(asked, add_special_tokens=False)["input_ids"]
            asked = [{"prompt_token_ids": ids} for ids in encoded]
        outputs = self._llm.generate(asked, self._parameters, use_tqdm=False)
        completions = [completion.text for output in outputs for completion in output.outputs]
        ids = [list(completion.token_ids) for output in outputs for completion in output.outputs]
        return Outcomes(self._scored.of_prompts(examples, completions, ids, self._samples))

    def tokens(self, examples: Examples) -> int:
        """Return the tokens of prompts and of completions at full length."""
        prompts = sum(len(ids) for ids in self._tokenizer(list(examples.prompts))["input_ids"])
        return prompts + len(examples) * self._samples * self._length
