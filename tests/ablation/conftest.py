from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import pytest
import torch

from grpodyn.ablation.arms import Arm, Variant
from grpodyn.ablation.plan import TaskPlan
from grpodyn.ablation.protocol import Study
from grpodyn.ablation.records import Job, Record
from grpodyn.lora.modules import LinearModule
from grpodyn.training.quiet import quiet_libraries

SHAPES = {
    "self_attn.q_proj": (128, 128),
    "self_attn.k_proj": (128, 64),
    "self_attn.v_proj": (128, 64),
    "self_attn.o_proj": (128, 128),
    "mlp.gate_proj": (128, 384),
    "mlp.up_proj": (128, 384),
    "mlp.down_proj": (384, 128),
}


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """Run as `ablate` does: deprecations inside transformers, TRL and PEFT are not ours to mend."""
    with quiet_libraries():
        yield


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """These models are so small that threads mostly wait for each other."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def linear() -> list[LinearModule]:
    return [
        LinearModule(f"model.layers.{layer}.{name}", inputs, outputs)
        for layer in range(6)
        for name, (inputs, outputs) in SHAPES.items()
    ]


def record(job: Job, accuracy: float, **changes: object) -> Record:
    fields: dict[str, object] = {
        "key": job.key,
        "setup": job.setup_key,
        "task": job.task,
        "arm": job.arm,
        "phase": job.phase,
        "seed": job.seed,
        "power": job.power,
        "learning_rate": job.learning_rate,
        "parameters": job.parameters,
        "split": "report" if job.phase in ("test", "base") else "choose",
        "split_sha256": "x",
        "prompts": 100,
        "accuracy": accuracy,
        "greedy": accuracy,
        "best_temperature": 0.7,
        "best": accuracy,
        "by_temperature": {"0.7": accuracy, "1": accuracy},
        "pass_at": {"4": accuracy},
        "kl": 0.1,
        "skill_gain": 0.1,
        "perplexity": {"notes": 10.0 * (1 + accuracy)},
        "curve": ((0, 0.1), (5, accuracy / 2), (10, accuracy)),
        "seconds": 1.0,
        "cpu_seconds": 1.0,
        "error": None,
        "created_at": "2026-01-01T00:00:00+00:00",
        "versions": {},
    }
    return Record(**{**fields, **changes})  # type: ignore[arg-type]


@pytest.fixture
def make_record() -> Callable[..., Record]:
    return record


@pytest.fixture
def make_plan() -> Callable[..., TaskPlan]:
    def make(study: Study, name: str = "toy", **changes: object) -> TaskPlan:
        arms = {}
        for i, arm in enumerate(study.arms):
            variant = Variant({"lora": {"r": i + 1}}, 100 * (i + 1), 1e-4)
            # The random arm is drawn anew for each seed of the protocol, and has no other.
            seeds = [str(seed) for seed in study.all_seeds] if arm == "random-same-budget" else ["*"]
            arms[arm] = Arm(arm, f"what {arm} is", dict.fromkeys(seeds, variant))
        fields = {
            "name": name,
            "setup": {"task": name, "splits": {"choose": "c", "report": "r"}},
            "arms": arms,
            "impossible": {},
            "candidate": "advised",
            "all_linear_parameters": 400,
            "budget": 100,
            "notes": (),
        }
        return TaskPlan(**{**fields, **changes})  # type: ignore[arg-type]

    return make


@pytest.fixture
def known() -> Callable[..., Callable[[Job], Record]]:
    """Makes a `find` under which everything is trained: accuracy by arm, spread by seed, best at power 0."""

    def make(
        accuracy: dict[str, float], noise: Callable[[str, int], float] = lambda arm, seed: 0.0, peak: int = 0
    ) -> Callable[[Job], Record]:
        def find(job: Job) -> Record:
            if job.phase in ("base", "base_choose"):
                return record(job, 0.1)
            value = accuracy[job.arm] + noise(job.arm, job.seed) - 0.01 * abs(job.power - peak)
            assert not math.isnan(value)
            return record(job, value)

        return find

    return make
