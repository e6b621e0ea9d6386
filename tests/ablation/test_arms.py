import pytest

from grpodyn.ablation.arms import Advised, ArmBuilder, Base
from grpodyn.ablation.budget import TOLERANCE
from grpodyn.ablation.protocol import ARMS, Study
from grpodyn.ablation.signals import Signals
from grpodyn.config import run as run_config
from grpodyn.config.lora_file import LoraFile
from grpodyn.embedded.architecture import build_model
from grpodyn.embedded.tokenizer import build_tokenizer
from grpodyn.lora import twin
from grpodyn.lora.modules import layer_of

ALL_RANK_16 = 233_472
ONE_LAYER_RANK_16 = ALL_RANK_16 // 6
SECTION = {"r": 16, "lora_alpha": 32, "lora_dropout": 0.0, "bias": "none"}
ATTENTION = [f"model.layers.3.self_attn.{leaf}" for leaf in ("q_proj", "k_proj", "v_proj", "o_proj")]
MLP = [f"model.layers.3.mlp.{leaf}" for leaf in ("gate_proj", "up_proj", "down_proj")]
PLACED = {**SECTION, "target_modules": [*ATTENTION, *MLP]}
NO_BUDGET_ARMS = {"all-linear", "temperature-only", "full"}


@pytest.fixture(scope="module")
def model_twin():
    config = build_model(build_tokenizer()).config
    return twin.build({"class": "Qwen3ForCausalLM", "config": config.to_dict()})


@pytest.fixture(scope="module")
def signals(model_twin):
    names = [module.name for module in model_twin.linear]
    layer = {name: int(layer_of(f"{name}.weight").rsplit(".", 1)[-1]) for name in names}
    return Signals(
        displacement={name: 1.0 + (layer[name] == 4) for name in names},
        gradient_energy={name: 1.0 + (layer[name] == 0) for name in names},
        gradient_norm={name: 1.0 + layer[name] for name in names},
        early_gradient_norm={name: 1.0 + (layer[name] == 1) for name in names},
    )


BASE = Base(
    eva=lambda rank: {f"model.layers.{i}.mlp.up_proj": 2 * rank * (i + 1) for i in range(6)},
    feature_norms=lambda: {
        "q_proj": 2,
        "k_proj": 3,
        "v_proj": 0.9,
        "o_proj": 0.8,
        "gate_proj": 1.4,
        "up_proj": 1.1,
        "down_proj": 1.0,
    },
)


def builder(model_twin, signals, advised=PLACED, study=None, config=None, adapters=None):
    return ArmBuilder(
        study or Study(name="s"),
        config or run_config.embedded(),
        model_twin,
        advised=None if advised is None else Advised(advised, None, "a test"),
        signals=signals,
        base=BASE,
        adapters=adapters or {},
    )


def layers_of(arm, seed=1):
    lora = arm.at(seed).trains["lora"]
    if "layers_to_transform" in lora:
        return [f"model.layers.{index}" for index in lora["layers_to_transform"]]
    return sorted({layer_of(f"{name}.weight") for name in lora["target_modules"]})


def test_every_arm_that_has_a_budget_meets_it(model_twin, signals):
    arms, impossible = builder(model_twin, signals).build(list(ARMS))
    assert impossible == {}
    for name, arm in arms.items():
        for variant in arm.variants.values():
            if name not in NO_BUDGET_ARMS:
                assert variant.parameters == pytest.approx(ONE_LAYER_RANK_16, rel=TOLERANCE), name
    assert arms["all-linear"].at(1).parameters == ALL_RANK_16
    assert arms["temperature-only"].at(1).parameters == 1
    assert arms["full"].at(1).parameters == sum(p.numel() for p in model_twin.model.parameters())


def test_where_the_placed_arms_sit(model_twin, signals):
    arms, _ = builder(model_twin, signals).build(list(ARMS))
    assert layers_of(arms["displacement-top"]) == ["model.layers.4"]
    assert layers_of(arms["gradient-top"]) == ["model.layers.0"]
    assert layers_of(arms["gradnorm-top"]) == ["model.layers.1"]
    assert layers_of(arms["last-block"]) == ["model.layers.5"]
    assert arms["plop"].at(1).trains["lora"]["target_modules"] == ["down_proj", "o_proj", "v_proj"]
    ranks = arms["eva"].at(1).trains["lora"]["rank_pattern"]
    assert len(set(ranks.values())) > 1


def test_random_is_a_new_draw_each_seed_and_the_same_in_every_start(model_twin, signals):
    study = Study(name="s", seeds=list(range(1, 9)), other_seeds=[1])
    first = builder(model_twin, signals, study=study).build(["random-same-budget"])[0]["random-same-budget"]
    again = builder(model_twin, signals, study=study).build(["random-same-budget"])[0]["random-same-budget"]
    assert first == again
    assert set(first.variants) == {str(seed) for seed in study.all_seeds}
    assert len({str(layers_of(first, seed)) for seed in study.seeds}) > 2


def test_learning_rates_follow_the_rule(model_twin, signals):
    full = builder(model_twin, signals).build(["all-linear", "full"])[0]
    assert full["all-linear"].at(1).learning_rate == pytest.approx(9e-5)
    assert full["full"].at(1).learning_rate == pytest.approx(3e-5)
    config = run_config.embedded(["grpo.learning_rate=2e-4", "lora={r: 8, lora_alpha: 16}"])
    lora = builder(model_twin, signals, config=config).build(["all-linear", "full"])[0]
    # alpha × rate is kept: 16 · 2e-4 = 32 · 1e-4; full training at a third of the rate that goes with alpha 32.
    assert lora["all-linear"].at(1).learning_rate == pytest.approx(1e-4)
    assert lora["full"].at(1).learning_rate == pytest.approx(1e-4 / 3)


def test_advice_that_is_all_linear_leaves_the_question_to_movement(model_twin, signals):
    made = builder(model_twin, signals, {**SECTION, "target_modules": "all-linear"})
    assert made.advised_is_all_linear
    assert made.candidate == "displacement-top"
    assert made.budget == ALL_RANK_16 // 4
    arms, impossible = made.build(["advised", "displacement-top", "random-same-budget"])
    assert not impossible
    assert arms["displacement-top"].at(1).parameters == pytest.approx(ALL_RANK_16 / 4, rel=TOLERANCE)
    assert len(layers_of(arms["random-same-budget"])) == 1


def test_without_a_source_only_what_needs_none_is_there(model_twin):
    arms, impossible = builder(model_twin, None, None).build(["advised", "gradient-top", "mlp-only", "all-linear"])
    assert set(arms) == {"mlp-only", "all-linear"}
    assert "no source run" in impossible["advised"]
    assert "what a source run shows" in impossible["gradient-top"]


def test_single_layers_and_types(model_twin, signals):
    arms, impossible = builder(model_twin, signals).build(["layer:2", "type:up_proj", "layer:9", "type:nope"])
    assert layers_of(arms["layer:2"]) == ["model.layers.2"]
    assert arms["type:up_proj"].at(1).trains["lora"]["target_modules"] == ["up_proj"]
    assert "no layer '9' among 6" in impossible["layer:9"]
    assert "no module type 'nope'" in impossible["type:nope"]


def test_an_adapter_of_ones_own_is_trained_as_it_is(model_twin, signals):
    own = {"r": 3, "lora_alpha": 6, "target_modules": ["q_proj"], "lora_dropout": 0.1}
    study = Study(name="s", adapters={"mine": "mine.json"}, arms=["mine"])
    made = builder(model_twin, signals, study=study, adapters={"mine": LoraFile(own, 5e-5)})
    arm = made.build(["mine"])[0]["mine"]
    assert arm.at(1).trains == {"lora": own}
    assert arm.at(1).parameters == 6 * 3 * (128 + 128)
    assert arm.at(1).learning_rate == 5e-5


def test_an_adapter_that_fits_nothing_is_an_arm_that_cannot_be(model_twin, signals):
    study = Study(name="s", adapters={"mine": "mine.json"}, arms=["mine"])
    made = builder(
        model_twin, signals, study=study, adapters={"mine": LoraFile({"r": 3, "target_modules": ["x"]}, None)}
    )
    arms, impossible = made.build(["mine"])
    assert arms == {}
    assert "PEFT refuses" in impossible["mine"]
