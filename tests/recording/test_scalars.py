"""Every scalar that a trainer logs is recorded, also one of numpy's or torch's."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from grpodyn import Recorder, open_run
from grpodyn.recording.scalars import numbers


def test_scalars_of_numpy_and_torch_are_recorded(tmp_path: Path, make_trainer):
    trainer = make_trainer(callbacks=[Recorder(tmp_path / "run")], max_steps=1)
    log = trainer.log

    def with_numpy(logs, *arguments, **options):
        log(
            {
                **logs,
                "of_numpy": np.float32(0.5),
                "of_torch": torch.tensor(0.25),
                "one": torch.ones(1, 1),
                "two": torch.ones(2),
                "text": "left out",
            },
            *arguments,
            **options,
        )

    trainer.log = with_numpy
    trainer.train()
    run = open_run(tmp_path / "run")
    assert [run.metric(name).values[0] for name in ("of_numpy", "of_torch", "one")] == [0.5, 0.25, 1.0]
    assert not {"text", "two"} & set(run.metrics["metric"].values)


def test_what_counts_as_a_number():
    given = {"int": 3, "bool": True, "missing": None, "zero-d": np.array(2.0), "one": np.ones((1, 1)), "many": [1.0],
             "half": torch.tensor(0.5, dtype=torch.bfloat16), "on": torch.tensor(True), "empty": torch.ones(0),
             "complex": torch.tensor(1j), "word": np.str_("x"), "nan": float("nan")}  # fmt: skip
    found = numbers(given)
    assert found.pop("nan") != found.get("nan")
    assert found == {"int": 3.0, "bool": 1.0, "missing": None, "zero-d": 2.0, "one": 1.0, "half": 0.5, "on": 1.0}
