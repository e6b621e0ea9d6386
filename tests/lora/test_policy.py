from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grpodyn.errors import UsageError
from grpodyn.lora.modules import LinearModule
from grpodyn.lora.policy import Options, choose

SHAPES = {"q_proj": (64, 64), "k_proj": (64, 32), "v_proj": (64, 32), "o_proj": (64, 64)}
SHAPES |= {"gate_proj": (64, 96), "up_proj": (64, 96), "down_proj": (96, 64)}
LLAMA = [LinearModule(f"model.layers.{i}.x.{name}", *shape) for i in range(2) for name, shape in SHAPES.items()]
FUSED = [LinearModule(f"h.{i}.{name}", 64, size) for i in range(2) for name, size in (("c_attn", 192), ("c_proj", 64))]
# Sum of in + out over the modules, by hand: 2 · (128 + 96 + 96 + 128 + 160 + 160 + 160) and without q, k.
PER_RANK, PER_RANK_WITHOUT_QK = 1856, 1408


def leaves(choice) -> set[str]:
    return {module.name.rsplit(".", 1)[-1] for module in choice.plan.modules}


def test_default_is_uniform_over_all_linear_modules() -> None:
    choice = choose(LLAMA, Options())
    assert {module.rank for module in choice.plan.modules} == {16}
    assert {module.alpha for module in choice.plan.modules} == {32}
    assert choice.plan.names == {module.name for module in LLAMA}
    assert choice.parameters == choice.all_linear_parameters == 16 * PER_RANK
    assert not choice.gave_way
    assert not choice.warnings


@pytest.mark.parametrize(
    ("budget", "rank", "size", "without_qk"),
    [
        (16 * PER_RANK, 16, 16 * PER_RANK, False),
        (16 * PER_RANK - 1, 8, 8 * PER_RANK, False),
        (8 * PER_RANK - 1, 4, 4 * PER_RANK, False),
        (4 * PER_RANK - 1, 4, 4 * PER_RANK_WITHOUT_QK, True),
    ],
)
def test_what_gives_way_under_a_budget(budget, rank, size, without_qk) -> None:
    choice = choose(LLAMA, Options(max_params=budget))
    assert (choice.plan.rank, choice.parameters) == (rank, size)
    assert leaves(choice).isdisjoint({"q_proj", "k_proj"}) == without_qk
    assert any("rank 4" in warning for warning in choice.warnings) == (rank == 4)
    assert choice.all_linear_parameters == rank * PER_RANK


def test_too_small_a_budget_states_the_smallest_possible() -> None:
    smallest = 4 * PER_RANK_WITHOUT_QK
    with pytest.raises(
        UsageError, match=rf"smallest possible has {smallest} parameters \(rank 4, k_proj and q_proj left"
    ):
        choose(LLAMA, Options(max_params=smallest - 1))
    assert choose(LLAMA, Options(max_params=smallest)).parameters == smallest


def test_a_fraction_is_of_all_linear_at_the_same_rank() -> None:
    choice = choose(LLAMA, Options(max_fraction=0.8))
    # Lowering the rank would lower all-linear at that rank alike, so the rank stays.
    assert choice.plan.rank == 16
    assert choice.parameters / choice.all_linear_parameters == pytest.approx(PER_RANK_WITHOUT_QK / PER_RANK)
    assert leaves(choice) == {"v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"}
    with pytest.raises(UsageError, match=r"smallest fraction of all-linear at the same rank is 0\.759.*--max-params"):
        choose(LLAMA, Options(max_fraction=0.5))


def test_both_budgets_together() -> None:
    choice = choose(LLAMA, Options(max_fraction=0.8, max_params=8 * PER_RANK))
    assert (choice.plan.rank, choice.parameters) == (8, 8 * PER_RANK_WITHOUT_QK)


def test_fused_attention_keeps_q_and_k_and_says_so() -> None:
    choice = choose(FUSED, Options(max_params=4 * 2 * (256 + 128)))
    assert choice.plan.rank == 4
    assert len(choice.plan.modules) == len(FUSED)
    assert any("fused" in warning for warning in choice.warnings)


def test_a_rank_that_was_asked_for_stays() -> None:
    assert choose(LLAMA, Options(rank=32)).plan.rank == 32
    choice = choose(LLAMA, Options(rank=16, max_params=16 * PER_RANK - 1))
    assert (choice.plan.rank, choice.parameters) == (16, 16 * PER_RANK_WITHOUT_QK)
    with pytest.raises(UsageError, match="Leave out --rank"):
        choose(LLAMA, Options(rank=16, max_params=1000))
    assert any("rank 2 was asked for" in warning for warning in choose(LLAMA, Options(rank=2)).warnings)


def test_a_rank_above_a_module_is_named() -> None:
    warnings = choose(LLAMA, Options(rank=48)).warnings
    assert any("exceeds the smaller side of 4 modules" in warning and "k_proj" in warning for warning in warnings)


@pytest.mark.parametrize(
    ("ladder", "budget", "rank"),
    [
        ((8, 16, 32), None, 16),
        ((8, 32), None, 8),
        ((32, 64), None, 32),
        ((8, 16, 32), 8 * PER_RANK, 8),
        ((8, 16, 32), 8 * PER_RANK - 1, 8),
        ((1, 2), None, 2),
    ],
)
def test_the_servers_ladder_is_honoured(ladder, budget, rank) -> None:
    choice = choose(LLAMA, Options(rank_ladder=ladder, max_params=budget))
    assert choice.plan.rank == rank
    assert choice.plan.max_rank in ladder


def test_a_low_rank_is_blamed_on_what_leaves_it() -> None:
    of_ladder = choose(LLAMA, Options(rank_ladder=(1, 2), max_params=10**6)).warnings
    assert any("rank 2 is what the server's ladder leaves" in warning for warning in of_ladder)
    of_budget = choose(LLAMA, Options(rank_ladder=(4, 16), max_params=4 * PER_RANK)).warnings
    assert any("rank 4 is what the budget leaves" in warning for warning in of_budget)


def test_a_ladder_without_a_small_step_makes_a_small_budget_an_error() -> None:
    with pytest.raises(UsageError, match="rank 8"):
        choose(LLAMA, Options(rank_ladder=(8, 16), max_params=4 * PER_RANK_WITHOUT_QK))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rank": 0}, "--rank 0"),
        ({"max_params": 0}, "--max-params 0"),
        ({"max_fraction": 0.0}, "--max-fraction"),
        ({"max_fraction": 1.5}, "--max-fraction"),
        ({"rank_ladder": (8, 0)}, "--rank-ladder"),
        ({"rank": 24, "rank_ladder": (8, 16)}, r"--rank 24 is not on the server's ladder \(8, 16\)"),
    ],
)
def test_options_that_make_no_sense(options, message) -> None:
    with pytest.raises(UsageError, match=message):
        Options(**options)


@given(
    st.integers(1, 40_000),
    st.one_of(st.none(), st.floats(0.3, 1.0)),
    st.sampled_from(["lora", "rslora", "dora"]),
    st.sampled_from([(), (8, 16, 32), (4, 8)]),
)
def test_no_advice_breaks_its_budget(budget, fraction, method, ladder) -> None:
    options = Options(max_params=budget, max_fraction=fraction, method=method, rank_ladder=ladder)
    try:
        choice = choose(LLAMA, options)
    except UsageError:
        smallest = 4 if not ladder or 4 in ladder else min(ladder)
        without_qk = [m for m in LLAMA if m.leaf not in ("q_proj", "k_proj")]
        least = sum(m.adapter_parameters(smallest, method) for m in without_qk)
        share = least / sum(m.adapter_parameters(smallest, method) for m in LLAMA)
        assert budget < least or (fraction is not None and fraction < share + 0.01)
        return
    assert choice.parameters <= budget
    assert fraction is None or choice.parameters <= fraction * choice.all_linear_parameters
    # Never q and k alone, never a layer left out.
    assert {"v_proj", "o_proj", "up_proj", "down_proj"} <= leaves(choice)
    assert {module.name.split(".")[2] for module in choice.plan.modules} == {"0", "1"}
