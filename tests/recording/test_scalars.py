"""Every scalar that a trainer logs is recorded, also one of numpy's."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from grpodyn import Recorder, open_run


def test_numpy_scalars_of_a_trainer_are_recorded(tmp_path: Path, make_trainer):
    trainer = make_trainer(callbacks=[Recorder(tmp_path / "run")], max_steps=1)
    log = trainer.log

    def with_numpy(logs, *arguments, **options):
        log({**logs, "of_numpy": np.float32(0.5), "text": "left out"}, *arguments, **options)

    trainer.log = with_numpy
    trainer.train()
    run = open_run(tmp_path / "run")
    assert run.metric("of_numpy").values[0] == 0.5
    assert "text" not in run.metrics["metric"].values
