"""The arms of one task: which adapter each of them trains, checked with PEFT, and at which learning rate it starts."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from grpodyn.ablation import placements
from grpodyn.ablation.budget import even_ranks, parameters, proportional_ranks
from grpodyn.ablation.protocol import (
    ADVISED,
    ALL_LINEAR,
    ARMS,
    DISPLACEMENT,
    FULL,
    LAYER_PREFIX,
    RANDOM,
    SAME_BUDGET,
    TEMPERATURE,
    TYPE_PREFIX,
    Study,
)
from grpodyn.ablation.signals import Scores, Signals, by_layer
from grpodyn.config.lora_file import LoraFile
from grpodyn.config.run import RunConfig
from grpodyn.errors import AdviceError, ConfigError, GrpodynError, UsageError
from grpodyn.lora import dry_run, learning_rate
from grpodyn.lora.apply import lora_section
from grpodyn.lora.modules import ModulePlan, Plan, peft_config
from grpodyn.lora.policy import ALPHA, DEFAULT_RANK
from grpodyn.lora.twin import Twin

Ranks = Mapping[str, int]


@dataclass(frozen=True)
class Variant:
    """What is trained."""

    trains: Mapping[str, Any]
    """`{"lora": section}`, `{"temperature": True}` or `{"full": True}`."""
    parameters: int
    learning_rate: float
    """The rule's, before tuning."""


@dataclass(frozen=True)
class Arm:
    """One arm of one task."""

    name: str
    what: str
    variants: Mapping[str, Variant]
    """By seed; under `*` where all seeds train the same."""

    def at(self, seed: int) -> Variant:
        """Return what a seed trains."""
        return self.variants.get(str(seed)) or self.variants["*"]


@dataclass(frozen=True)
class Advised:
    """The adapter under test."""

    lora: Mapping[str, Any]
    """A `lora` section."""
    rate: float | None
    """What the advice says to train it with."""
    basis: str
    """What the advice rests on."""


@dataclass(frozen=True)
class Base:
    """Measurements that need the base model; each is made when an arm asks for it."""

    eva: Callable[[int], Mapping[str, int]]
    """Rank before redistribution → rank by module."""
    feature_norms: Callable[[], Scores]
    """NFN by module type."""


class ArmBuilder:
    """Builds the arms of one task.

    Args:
        study: the protocol.
        config: the task's run config.
        twin: the model's twin.
        advised: the adapter under test; None if there is no source to be advised by.
        signals: what the source run shows; None without one.
        base: measurements of the base.
        adapters: the user's own arms.
    """

    def __init__(
        self,
        study: Study,
        config: RunConfig,
        twin: Twin,
        *,
        advised: Advised | None,
        signals: Signals | None,
        base: Base,
        adapters: Mapping[str, LoraFile],
    ) -> None:
        self._study = study
        self._config = config
        self._twin = twin
        self._linear = list(twin.linear)
        self._advised = advised
        self._signals = signals
        self._base = base
        self._adapters = adapters
        self._advised_ranks = None if advised is None else self._ranks_of(advised.lora)
        self._rank = max(self._advised_ranks.values()) if self._advised_ranks else study.rank or DEFAULT_RANK

    @property
    def all_linear_parameters(self) -> int:
        """Of every linear module at the advised rank."""
        return sum(module.adapter_parameters(self._rank, "lora") for module in self._linear)

    @property
    def advised_is_all_linear(self) -> bool:
        """Whether the advice is all-linear itself, so that there is nothing to test it against at its own size."""
        everything = {module.name: self._rank for module in self._linear}
        return self._advised_ranks is not None and dict(self._advised_ranks) == everything

    @property
    def candidate(self) -> str:
        """The arm that is put to the test: the advised one, or what movement points at where that is all-linear."""
        return DISPLACEMENT if self._advised is None or self.advised_is_all_linear else ADVISED

    @property
    def budget(self) -> int:
        """What placed arms may cost: as much as the advised adapter, or the protocol's fraction of all-linear."""
        if self._advised_ranks is not None and not self.advised_is_all_linear:
            return parameters(self._linear, dict(self._advised_ranks))
        return round((self._study.max_fraction or 1.0) * self.all_linear_parameters)

    def build(self, names: Sequence[str]) -> tuple[dict[str, Arm], dict[str, str]]:
        """Return the arms that this task can have, and why it cannot have the others."""
        arms: dict[str, Arm] = {}
        impossible: dict[str, str] = {}
        for name in names:
            try:
                arms[name] = self._arm(name)
            except GrpodynError as error:
                impossible[name] = str(error)
        return arms, impossible

    def _arm(self, name: str) -> Arm:
        if name in self._adapters:
            file = self._adapters[name]
            return Arm(name, "an adapter of your own", {"*": self._from_section(file.lora, file.learning_rate)})
        if name == ADVISED:
            if self._advised is None:
                raise UsageError("there is no source run to be advised by; ablate a run, or name `advice` in the study")
            variant = self._from_section(self._advised.lora, self._advised.rate)
            return Arm(name, f"{ARMS[name]}: {self._advised.basis}", {"*": variant})
        if name == TEMPERATURE:
            # Imported late: this module is read where torch is not wanted.
            from grpodyn.ablation.temperature import RULE  # noqa: PLC0415

            return Arm(name, ARMS[name], {"*": Variant({"temperature": True}, 1, RULE)})
        if name == FULL:
            count = sum(parameter.numel() for parameter in self._twin.model.parameters())
            return Arm(name, ARMS[name], {"*": Variant({"full": True}, count, self._full_rate())})
        if name == RANDOM:
            return Arm(name, ARMS[name], self._drawn())
        return Arm(name, _what(name), {"*": self._variant(self._placed(name))})

    def _placed(self, name: str) -> Ranks:
        budget, linear = self.budget, self._linear
        if name.startswith(LAYER_PREFIX):
            return self._single_layer(name)
        if name.startswith(TYPE_PREFIX):
            return self._single_type(name)
        rules: dict[str, Callable[[], Ranks]] = {
            ALL_LINEAR: lambda: {module.name: self._rank for module in linear},
            SAME_BUDGET: lambda: even_ranks(linear, budget),
            "attention-only": lambda: placements.attention_only(linear, budget),
            "mlp-only": lambda: placements.mlp_only(linear, budget),
            "last-block": lambda: placements.last_block(linear, budget),
            DISPLACEMENT: lambda: self._top(by_layer(self._shown().displacement)),
            "gradient-top": lambda: self._top(by_layer(self._shown().gradient_energy, squared=True)),
            "gradnorm-top": lambda: self._top(by_layer(self._shown().early_gradient_norm)),
            "norm-proportional": lambda: proportional_ranks(linear, self._shown().gradient_norm, budget),
            "eva": self._eva,
            "plop": lambda: placements.lowest_types(linear, budget, self._base.feature_norms()),
        }
        return rules[name]()

    def _shown(self) -> Signals:
        if self._signals is None:
            raise UsageError("this arm is placed by what a source run shows, and there is none; ablate a recorded run")
        return self._signals

    def _top(self, scores: Scores) -> Ranks:
        return placements.top_layers(self._linear, self.budget, scores, self._layer_count())

    def _layer_count(self) -> int:
        """As many layers as the advised adapter has, or as the budget is worth at the full rank."""
        layers = placements.layers(self._linear)
        used = {layer for layer in layers if any(name.startswith(f"{layer}.") for name in self._advised_ranks or ())}
        if used and len(used) < len(layers):
            return len(used)
        return max(1, math.floor((self._study.max_fraction or 1.0) * len(layers) + 1e-9))

    def _drawn(self) -> dict[str, Variant]:
        proven: dict[frozenset[tuple[str, int]], Variant] = {}
        variants: dict[str, Variant] = {}
        for seed in self._study.all_seeds:
            ranks = self._random(seed)
            placement = frozenset(ranks.items())
            # Several seeds may draw one placement: it is proven once.
            if placement not in proven:
                proven[placement] = self._variant(ranks)
            variants[str(seed)] = proven[placement]
        return variants

    def _random(self, seed: int) -> Ranks:
        """A new draw each seed, the same in every start of the study."""
        number = int.from_bytes(hashlib.sha256(f"{self._study.name}:{seed}".encode()).digest()[:8], "big")
        shape = self._advised_ranks
        if shape is None or self.advised_is_all_linear:
            chosen = placements.in_layers(self._linear, placements.layers(self._linear)[: self._layer_count()])
            shape = even_ranks(chosen, self.budget)
        return placements.random_like(self._linear, shape, number)

    def _eva(self) -> Ranks:
        budget, per_rank = self.budget, sum(m.adapter_parameters(1, "lora") for m in self._linear)
        ranks = self._base.eva(max(1, round(budget / per_rank)))
        # EVA keeps the sum of ranks, not of parameters: where the size is off, its ranks are shares of the budget.
        return proportional_ranks(self._linear, {name: float(rank) for name, rank in ranks.items()}, budget)

    def _single_layer(self, name: str) -> Ranks:
        layers = placements.layers(self._linear)
        number = name.removeprefix(LAYER_PREFIX)
        if not number.isdecimal() or int(number) >= len(layers):
            raise UsageError(f"there is no layer {number!r} among {len(layers)}; expected {LAYER_PREFIX}0 and so on")
        return even_ranks(placements.in_layers(self._linear, [layers[int(number)]]), self.budget)

    def _single_type(self, name: str) -> Ranks:
        leaf = name.removeprefix(TYPE_PREFIX)
        chosen = [module for module in self._linear if module.leaf == leaf]
        if not chosen:
            known = ", ".join(sorted({module.leaf for module in self._linear}))
            raise UsageError(f"there is no module type {leaf!r} (there are: {known})")
        return even_ranks(chosen, self.budget)

    def _variant(self, ranks: Ranks) -> Variant:
        planned = [module for module in self._linear if ranks.get(module.name)]
        plan = Plan(tuple(ModulePlan(module.name, ranks[module.name], ALPHA) for module in planned), "lora")
        config = peft_config(plan, self._twin.module_names, None, None)
        resolved = dry_run.resolve(dry_run.saved_config(config), self._twin)
        dry_run.check(plan, resolved)
        wanted = parameters(self._linear, dict(ranks))
        if resolved.trainable != wanted:
            raise AdviceError(f"PEFT counts {resolved.trainable} trainable parameters where {wanted} were planned")
        return Variant({"lora": lora_section(resolved.saved)}, resolved.trainable, self._rate(plan))

    def _from_section(self, section: Mapping[str, Any], rate: float | None) -> Variant:
        resolved = dry_run.resolve(dry_run.saved_config({"task_type": "CAUSAL_LM", **section}), self._twin)
        plan = self._plan_of(resolved, section)
        return Variant({"lora": dict(section)}, resolved.trainable, rate or self._rate(plan))

    def _ranks_of(self, section: Mapping[str, Any]) -> dict[str, int]:
        resolved = dry_run.resolve(dry_run.saved_config({"task_type": "CAUSAL_LM", **section}), self._twin)
        return {name: rank for name, (rank, _) in resolved.ranks.items()}

    def _plan_of(self, resolved: dry_run.Resolved, section: Mapping[str, Any]) -> Plan:
        modules = tuple(ModulePlan(name, rank, round(alpha)) for name, (rank, alpha) in resolved.ranks.items())
        return Plan(modules, "rslora" if section.get("use_rslora") else "dora" if section.get("use_dora") else "lora")

    def _rate(self, plan: Plan) -> float:
        advice = learning_rate.advise(self._config.grpo.get("learning_rate"), self._config.lora, plan)
        if advice.learning_rate is None:
            raise ConfigError(
                "the run config has no grpo.learning_rate, from which each arm's own rate follows; set it"
            )
        return advice.learning_rate

    def _full_rate(self) -> float:
        rate = self._config.grpo.get("learning_rate")
        if rate is None:
            raise ConfigError("the run config has no grpo.learning_rate; set it")
        if self._config.lora is None:
            return float(rate)
        alpha, rank = self._config.lora.get("lora_alpha", 8), self._config.lora.get("r", 8)
        new = learning_rate.effective_alpha(alpha, rank, bool(self._config.lora.get("use_rslora")))
        return float(rate) * new / learning_rate.REFERENCE_ALPHA / learning_rate.LOW_FACTOR


def _what(name: str) -> str:
    if name.startswith(LAYER_PREFIX):
        return f"layer {name.removeprefix(LAYER_PREFIX)} alone, at the advised budget"
    if name.startswith(TYPE_PREFIX):
        return f"{name.removeprefix(TYPE_PREFIX)} in all layers, at the advised budget"
    return ARMS[name]
