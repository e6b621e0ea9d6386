"""The `record` section: presets by what a probe costs, and checked names."""

from __future__ import annotations

import pytest

from grpodyn import registry
from grpodyn.config.record import PRESETS, RecordConfig, due, preset_cadence
from grpodyn.config.validation import validate
from grpodyn.errors import ConfigError

CADENCE = {
    "light": {"grad_norm": 5, "update_norm": 5, "delta_norm": 5, "layer_delta": 5, "effective_rank": 0},
    "standard": {"grad_norm": 1, "update_norm": 1, "update_norm_intended": 1, "update_ratio": 1, "delta_norm": 5,
                 "layer_delta": 5, "effective_rank": 25, "singular_values": 25, "grad_snr": 25},
    "full": {"grad_snr": 25, "grad_norm": 1, "delta_norm": 1, "effective_rank": 1, "layer_delta": 1},
}  # fmt: skip


@pytest.mark.parametrize("preset", PRESETS)
def test_presets(preset):
    found = {name: preset_cadence(preset, registry.probe(name)) for name in CADENCE[preset]}
    assert found == CADENCE[preset]


def test_a_probe_has_a_cadence_in_every_preset():
    for preset in PRESETS:
        for name, probe in registry.probes().items():
            cadence = preset_cadence(preset, probe)
            assert cadence is None or cadence >= 0, name
            # What a preset leaves out is what costs most; `full` leaves nothing out.
            assert (cadence is None) == (probe.cost in ("decomposition", "forward") and preset != "full"), name


def test_own_cadences_take_the_presets_place():
    config = RecordConfig(every={"grad_norm": 7, "effective_rank": 0})
    assert config.cadence(registry.probe("grad_norm")) == 7
    assert config.cadence(registry.probe("effective_rank")) == 0
    assert config.cadence(registry.probe("update_norm")) == 1


def test_a_choice_of_probes():
    assert list(RecordConfig(probes=["grad_norm"]).chosen()) == ["grad_norm"]
    assert RecordConfig(preset="full").chosen() == registry.probes()
    assert set(registry.probes()) - set(RecordConfig().chosen()) == {
        "spectral_shift", "principal_angle", "principal_overlap", "activation_shift",
    }  # fmt: skip


def test_what_a_preset_leaves_out_is_measured_on_request():
    named = RecordConfig(probes=["spectral_shift"])
    assert named.cadence(named.chosen()["spectral_shift"]) == 0
    timed = RecordConfig(preset="light", every={"spectral_shift": 50})
    assert timed.cadence(timed.chosen()["spectral_shift"]) == 50
    assert "principal_angle" not in timed.chosen()


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ({"probes": ["grad_nrom"]}, "did you mean 'grad_norm'"),
        ({"every": {"delta_nom": 3}}, "did you mean 'delta_norm'"),
        ({"every": {"delta_norm": -1}}, "every.delta_norm is -1"),
        ({"preset": "heavy"}, "'light', 'standard' or 'full'"),
        ({"copy_limits": 3}, "did you mean 'copy_limit'"),
        ({"singular_values": 0}, "singular_values"),
    ],
)
def test_mistakes_are_named(value, words):
    with pytest.raises(ConfigError, match=words):
        validate(RecordConfig, value, "record")


def test_due_at_the_ends_and_at_multiples():
    assert [s for s in range(1, 8) if due(3, s, first=1, last=7)] == [1, 3, 6, 7]
    assert [s for s in range(1, 8) if due(0, s, first=1, last=7)] == [1, 7]
    assert [s for s in range(1, 8) if due(0, s, first=1, last=None)] == [1]
