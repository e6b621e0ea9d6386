"""The adapter sits on too little of the model."""

from __future__ import annotations

from collections.abc import Mapping

from grpodyn.diagnosis.finding import Finding
from grpodyn.diagnosis.observations import Observations
from grpodyn.diagnosis.rule import Rule

_ATTENTION = frozenset({"q_proj", "k_proj", "v_proj", "o_proj", "qkv_proj", "query_key_value", "c_attn", "out_proj"})
_WEAK = frozenset({"q_proj", "k_proj", "gate_proj"})
_SHOWN = 6


class LoraTargets(Rule):
    """The adapter sits on too little of the model."""

    id = "lora_targets"
    title = "The adapter covers too little, or the wrong modules"
    meaning = (
        "Names that match nothing are dropped without a word as long as one matches, so that a list made for "
        "another family covers a few per cent of the model. In every comparison under RL that had an arm with the "
        "MLP, attention alone did worse, and q and k alone did worst."
    )
    change = "Target all linear modules at a lower rank, rather than few at a high one."
    may_be = ("a subset that was chosen and checked by an ablation", "`layers_to_transform` that is meant")
    config_key = "lora.target_modules"
    reference = "PLoP (arXiv 2506.20629): q, k and gate lowest of all arms under GRPO; LoRA Without Regret"

    def missing(self, seen: Observations) -> str | None:
        """Return what is not there."""
        if not seen.trains_adapter:
            return "no adapter is trained"
        if not self._modules(seen):
            return "which modules the adapter sits on is not recorded"
        return None

    def check(self, seen: Observations) -> Finding | None:
        """Return the finding."""
        modules = self._modules(seen)
        patch = {"lora": {"target_modules": "all-linear"}}
        bare = self._bare_layers(seen)
        if bare:
            listed = ", ".join(map(str, bare[:_SHOWN])) + (" …" if len(bare) > _SHOWN else "")
            return self.found(
                "warning",
                None,
                f"{len(bare)} of {seen.layers} layers carry no adapter: {listed}",
                f"the targets are {', '.join(sorted(modules))}",
                patch={"lora": {"target_modules": "all-linear", "layers_to_transform": None}},
                figures={"layers_without": float(len(bare))},
            )
        if modules <= _WEAK:
            return self.found(
                "warning",
                None,
                f"the adapter sits on {', '.join(sorted(modules))} alone: the weakest choice of those compared",
                patch=patch,
            )
        if modules <= _ATTENTION:
            return self.found(
                "info",
                None,
                f"the adapter sits on attention alone ({', '.join(sorted(modules))}): with the MLP it did better "
                "where both were tried",
                patch=patch,
            )
        return None

    def _modules(self, seen: Observations) -> set[str]:
        if seen.tensors is not None:
            places = seen.tensors.where("lora")
            if len(places):
                return {seen.tensors.modules[i] for i in places}
        targets = seen.lora.get("target_modules") if isinstance(seen.lora, Mapping) else None
        return {str(t).rsplit(".", 1)[-1] for t in targets} if isinstance(targets, list | tuple | set) else set()

    def _bare_layers(self, seen: Observations) -> list[int]:
        chosen = seen.lora.get("layers_to_transform") if isinstance(seen.lora, Mapping) else None
        if seen.tensors is None or not seen.layers or chosen is not None:
            return []
        covered = {int(seen.tensors.layers[i]) for i in seen.tensors.where("lora")}
        return [layer for layer in range(int(seen.layers)) if layer not in covered] if covered else []
