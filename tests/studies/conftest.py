from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from grpodyn.config import run as run_config
from grpodyn.studies.child import Child, Outcome
from grpodyn.studies.study import SweepStudy, load_study
from grpodyn.trace.manifest import Manifest
from grpodyn.trace.writer import TraceWriter

BASE = {"model": "embedded", "task": "arithmetic_format", "grpo": {"per_device_train_batch_size": 16, "max_steps": 4}}


class Watcher:
    """An observer that remembers."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def begun(self, entry: Any, log: Path) -> None:
        self.said.append(f"begun {entry.name}")

    def ended(self, entry: Any) -> None:
        self.said.append(f"{entry.state} {entry.name}")

    def tick(self, index: Any, running: Any) -> None: ...

    def found(self, result: Any) -> None: ...

    def say(self, text: str) -> None:
        self.said.append(text)


class FakePool:
    """Writes a record instead of training; `how` says how each run ends, `accuracy` what it reaches."""

    def __init__(self, size: int = 2, **how: str) -> None:
        self.size, self.how = size, how
        self.started: list[str] = []
        self.most = 0
        self.interrupts = 0
        self._running: list[Child] = []

    @property
    def free(self) -> int:
        return self.size - len(self._running)

    def submit(self, child: Child) -> None:
        self.started.append(child.name)
        self._running.append(child)
        self.most = max(self.most, len(self._running))

    def ended(self, seconds: float):
        child = self._running.pop(0)
        how = self.how.get(child.name.replace("-", "_"), "done")
        if how == "ctrl-c" and not self.interrupts:
            self._running.insert(0, child)
            raise KeyboardInterrupt
        if self.interrupts:
            how = "interrupted"
        write_run(child.run_dir, run_config.load(child.config).to_record(), how)
        yield child, Outcome(how, "out of luck" if how == "failed" else None)

    def interrupt(self) -> None:
        self.interrupts += 1

    def close(self) -> None: ...


STATUS = {"done": "finished", "interrupted": "stopped_early", "failed": "failed"}


def write_run(path: Path, config: dict[str, Any], how: str = "done") -> None:
    """A record in which accuracy, drift and perplexity follow from the config: beta slows, and protects."""
    if (path / "run.json").exists():
        writer = TraceWriter.resume(path, start_step=2)
    else:
        writer = TraceWriter.create(path, Manifest(config=config, environment={"versions": {"trl": "1.2.3"}}))
    seed, beta = config["seed"], config["grpo"].get("beta", 0.0)
    for step in (0, 2, 4):
        skill = 0.1 + step * (0.1 - beta) + 0.001 * seed * (step > 0)
        evaluated = {"heldout/accuracy": skill, "perplexity/text": 4 * 1.1 ** (step * (1 - 5 * beta) + 0.01 * seed)}
        writer.add_row("evaluations", step, evaluated)
        if step:
            writer.add_row("metrics", step, {"reward": skill, "rewards/exact_match/mean": skill, "loss": 0.0})
    writer.close(STATUS[how])


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """Return what writes a study file beside a run config, and returns its path."""
    (tmp_path / "base.yaml").write_text(yaml.safe_dump(BASE))

    def written(**section: Any) -> Path:
        path = tmp_path / "study.yaml"
        path.write_text(yaml.safe_dump({"sweep": {"name": "s", "config": "base.yaml", **section}}, sort_keys=False))
        return path

    return written


@pytest.fixture
def two_arms(write: Callable[..., Path]) -> SweepStudy:
    return load_study(
        write(
            question="Does KL protect?",
            arms={"none": {"grpo.beta": 0.0}, "kl": {"grpo.beta": 0.05}},
            seeds=[1, 2, 3],
            contrasts=[
                {"a": "kl", "b": "none", "metric": "perplexity_ratio/text", "better": "lower"},
                {
                    "a": "kl",
                    "b": "none",
                    "metric": "perplexity_ratio/text",
                    "better": "lower",
                    "equal": "heldout/accuracy",
                    "margin": 0.05,
                },
            ],
            at={"value": 0.2},
        )
    )
