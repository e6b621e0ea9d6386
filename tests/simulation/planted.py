"""Models whose contributions are known because they were planted: a response function over the parts of a model.

A planted model says how much of the whole gain is there when only some tensors carry their change, and draws what an
evaluation of n prompts would show: prompts differ in how much they gain, every layer has small effects of its own, and
a sampled evaluation adds the noise of k completions a prompt. Written before the method that is tested on it, and it
knows nothing of that method.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

MODULES = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
Floats = NDArray[np.float64]


def tensor_names(layers: int) -> tuple[str, ...]:
    """Names of a decoder's weights, as transformers writes them."""
    found = ["model.embed_tokens.weight"]
    for layer in range(layers):
        for module in MODULES:
            block = "self_attn" if module in MODULES[:4] else "mlp"
            found.append(f"model.layers.{layer}.{block}.{module}.weight")
        found.append(f"model.layers.{layer}.input_layernorm.weight")
    return (*found, "model.norm.weight", "lm_head.weight")


def in_layer(name: str, layer: int) -> bool:
    """Whether a tensor is one of a layer's linear weights."""
    return name.startswith(f"model.layers.{layer}.") and "_proj." in name


@lru_cache(maxsize=1000)
def _members(every: tuple[str, ...], kind: str, which: int | str = "") -> frozenset[str]:
    """The tensors of one place; looked up thousands of times for each model."""
    inside: dict[str, Callable[[str], bool]] = {
        "layer": lambda name: in_layer(name, int(which)),
        "embedding": lambda name: name.startswith("model.embed_tokens"),
        "module": lambda name: f".{which}." in name,
    }
    return frozenset(name for name in every if inside[kind](name))


@dataclass(frozen=True)
class Presence:
    """Which share of each place carries its change, 0 to 1."""

    names: frozenset[str]
    every: tuple[str, ...]

    def layer(self, layer: int) -> float:
        """Of a layer's linear weights."""
        return self._share(_members(self.every, "layer", layer))

    def embedding(self) -> float:
        """Of the input embedding."""
        return self._share(_members(self.every, "embedding"))

    def module(self, leaf: str) -> float:
        """Of all weights of one module type."""
        return self._share(_members(self.every, "module", leaf))

    def _share(self, members: frozenset[str]) -> float:
        return len(members & self.names) / len(members)


Response = Callable[[Presence], float]
"""Share of the whole gain that is there: 0 for the base, 1 for the trained model; above 1 without a suppressor."""


@dataclass(frozen=True)
class Truth:
    """What an attribution has to say about the layers of a planted model."""

    verdict: str
    layers: tuple[int, ...] = ()
    """Layers to be named; empty where there are none to name."""
    reachable: bool = True
    """Whether LoRA on linear layers can reach what carries the gain."""


@dataclass(frozen=True)
class Scenario:
    """One planted model, with places drawn by seed."""

    name: str
    plant: Callable[[np.random.Generator, int], tuple[Response, Truth]]
    gain: float = 1.0
    """Factor on the size of the gain; 0 plants nothing."""


def _two(rng: np.random.Generator, layers: int) -> tuple[int, int]:
    a, b = sorted(int(layer) for layer in rng.choice(layers, 2, replace=False))
    return a, b


def _one_part(rng: np.random.Generator, layers: int) -> tuple[Response, Truth]:
    at = int(rng.integers(layers))
    return lambda has: has.layer(at), Truth("localised", (at,))


def _each_sufficient(rng: np.random.Generator, layers: int) -> tuple[Response, Truth]:
    a, b = _two(rng, layers)
    return lambda has: max(has.layer(a), has.layer(b)), Truth("redundant", (a, b))


def _only_together(rng: np.random.Generator, layers: int) -> tuple[Response, Truth]:
    a, b = _two(rng, layers)
    return lambda has: has.layer(a) * has.layer(b), Truth("joint", (a, b))


def _suppressor(rng: np.random.Generator, layers: int) -> tuple[Response, Truth]:
    carrier, against = (int(layer) for layer in rng.choice(layers, 2, replace=False))
    return lambda has: 1.4 * has.layer(carrier) - 0.4 * has.layer(against), Truth("harmful", (against,))


def _out_of_reach(rng: np.random.Generator, layers: int) -> tuple[Response, Truth]:
    return lambda has: has.embedding(), Truth("localised", (), reachable=False)


def _nothing(rng: np.random.Generator, layers: int) -> tuple[Response, Truth]:
    return lambda has: 0.0, Truth("flat")


def _everywhere(rng: np.random.Generator, layers: int) -> tuple[Response, Truth]:
    weight = rng.uniform(0.5, 1.5, layers)
    weight /= weight.sum()
    return lambda has: sum(float(w) * has.layer(i) for i, w in enumerate(weight)), Truth("distributed")


def _two_halves(rng: np.random.Generator, layers: int) -> tuple[Response, Truth]:
    a, b = _two(rng, layers)
    return lambda has: 0.6 * has.layer(a) + 0.4 * has.layer(b), Truth("localised", (a, b))


def _present(has: Presence, layers: int) -> float:
    """Share of all layers, whichever they are."""
    return sum(has.layer(layer) for layer in range(layers)) / layers


def _all_needed(rng: np.random.Generator, layers: int) -> tuple[Response, Truth]:
    """Convex: how many layers are changed counts, and the last ones count most."""
    power = float(rng.uniform(6.0, 10.0))
    return lambda has: _present(has, layers) ** power, Truth("distributed")


def _any_will_do(rng: np.random.Generator, layers: int) -> tuple[Response, Truth]:
    """Concave: how many layers are changed counts, and the first ones count most."""
    rate = float(rng.uniform(6.0, 10.0))
    return lambda has: math.expm1(-rate * _present(has, layers)) / math.expm1(-rate), Truth("distributed")


SCENARIOS = (
    Scenario("one part carries it", _one_part),
    Scenario("two parts, each sufficient", _each_sufficient),
    Scenario("two parts, only together", _only_together),
    Scenario("a suppressor", _suppressor),
    Scenario("one part outside LoRA's reach", _out_of_reach),
    Scenario("none", _nothing, gain=0.0),
    Scenario("every layer a little", _everywhere),
    Scenario("two parts that add up", _two_halves),
    Scenario("every layer, each needs the others", _all_needed),
    Scenario("every layer, each stands in for others", _any_will_do),
)


@dataclass(frozen=True)
class PlantedModel:
    """Draws the outcomes of evaluations of one planted model; the same state always gives the same outcome.

    Args:
        scenario: what is planted.
        seed: decides places, prompts and noise.
        layers: depth of the model.
        samples: completions a prompt; None for exact answer probabilities.
        background: standard deviation of the small effects of single layers: of their mean in units of the whole gain,
            and of one prompt's own in units of a probability.
    """

    scenario: Scenario
    seed: int
    layers: int = 12
    samples: int | None = None
    background: tuple[float, float] = (0.02, 0.02)
    every: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "every", tensor_names(self.layers))

    @cached_property
    def _planted(self) -> tuple[Response, Truth]:
        return self.scenario.plant(np.random.default_rng([self.seed, 0]), self.layers)

    @property
    def truth(self) -> Truth:
        """What an attribution has to find."""
        return self._planted[1]

    def outcomes(self, changed: Collection[str], prompts: int, split: Literal["choose", "confirm"]) -> Floats:
        """Return the outcome of each prompt, (prompts,), when only the tensors `changed` carry their change."""
        which = {"choose": 1, "confirm": 2}[split]
        rng = np.random.default_rng([self.seed, which])
        base = rng.beta(0.5, 3.0, prompts)
        gained = (1 - base) * rng.beta(0.6, 0.9, prompts) * self.scenario.gain
        own = rng.normal(0.0, self.background[1], (prompts, self.layers))
        mean = np.random.default_rng([self.seed, 3]).normal(0.0, self.background[0], self.layers)
        # What the single layers add cancels in the trained model, so that the planted gain is the whole gain.
        mean -= mean.mean()
        own -= own.mean(axis=1, keepdims=True)
        has = Presence(frozenset(changed), self.every)
        present = np.array([has.layer(layer) for layer in range(self.layers)])
        small = gained * float(mean @ present) + own @ present
        right = np.clip(base + gained * self._planted[0](has) + small, 0.0, 1.0)
        if self.samples is None:
            return right
        state = zlib.crc32("\n".join(sorted(changed)).encode())
        return np.random.default_rng([self.seed, which, state]).binomial(self.samples, right) / self.samples
