"""What differs between two versions, the forms of a change, and a live model that is put back bit for bit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import Qwen3ForCausalLM

from grpodyn.attribution.changes import Forms, _Rounding, scan
from grpodyn.attribution.evaluators import TransformersModel
from grpodyn.attribution.patching import PatchedModel
from grpodyn.attribution.state import ROUNDED, State
from grpodyn.attribution.weights import FolderWeights
from grpodyn.errors import UnreadableError
from tests.attribution.conftest import edit

CHANGED = ("model.layers.3.mlp.up_proj.weight", "model.layers.5.self_attn.q_proj.weight", "model.norm.weight")


@pytest.fixture
def two(planting: Any, tmp_path: Path) -> tuple[FolderWeights, FolderWeights]:
    generator = torch.Generator().manual_seed(5)
    change = {n: planting.base[n] + 0.1 * torch.randn(planting.base[n].shape, generator=generator) for n in CHANGED}
    return FolderWeights(planting.folder), FolderWeights(planting.save(tmp_path / "final", change))


def live(folder: FolderWeights, dtype: torch.dtype = torch.float32) -> Any:
    return Qwen3ForCausalLM.from_pretrained(folder.place, dtype=dtype).eval()


def test_only_what_differs_is_changed(two: Any) -> None:
    base, final = two
    found = scan(live(base), base, final)
    assert {info.name for info in found.infos} == set(CHANGED)
    assert {info.name: (info.kind, info.layer) for info in found.infos} == {
        CHANGED[0]: ("linear", 3),
        CHANGED[1]: ("linear", 5),
        CHANGED[2]: ("norm", -1),
    }
    assert found.notes == ()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_every_state_is_made_and_the_base_comes_back_bit_for_bit(two: Any, dtype: torch.dtype) -> None:
    base, final = two
    model = live(base, dtype)
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    trained = {name: p.detach().clone() for name, p in live(final, dtype).named_parameters()}
    found = scan(model, base, final)
    patched = PatchedModel(TransformersModel(model), Forms(base, final), found.changed)
    for changed in ({CHANGED[0]}, set(CHANGED) - {CHANGED[0]}, set(CHANGED), set()):
        patched.take(State(frozenset(changed)))
        for name, parameter in model.named_parameters():
            assert torch.equal(parameter, trained[name] if name in changed else before[name])
    patched.take(State(frozenset(CHANGED), random_seed=1))
    assert not torch.equal(model.get_parameter(CHANGED[0]), before[CHANGED[0]])
    patched.restore()
    assert all(torch.equal(p, before[name]) for name, p in model.named_parameters())


def test_only_what_differs_between_two_states_is_written(two: Any) -> None:
    base, final = two
    written: list[str] = []

    class Counting:
        def write(self, weights: Any) -> None:
            written.extend(name for name, _ in weights)

    found = scan(live(base), base, final)
    patched = PatchedModel(Counting(), Forms(base, final), found.changed)
    patched.take(State(frozenset(CHANGED)))
    patched.take(State(frozenset(CHANGED[1:])))
    assert written[3:] == [CHANGED[0]]


def test_an_interrupted_write_is_made_good(two: Any) -> None:
    base, final = two
    model = live(base)
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    inner = TransformersModel(model)

    class Failing:
        broken = True

        def write(self, weights: Any) -> None:
            for number, (name, value) in enumerate(weights):
                if self.broken and number == 1:
                    inner.write([(name, value)])
                    raise KeyboardInterrupt
                inner.write([(name, value)])

    writer = Failing()
    patched = PatchedModel(writer, Forms(base, final), scan(model, base, final).changed)
    with pytest.raises(KeyboardInterrupt):
        patched.take(State(frozenset(CHANGED)))
    writer.broken = False
    patched.restore()
    assert all(torch.equal(p, before[name]) for name, p in model.named_parameters())


@pytest.mark.parametrize("rank", [1, 2, 7, 500])
def test_truncation_is_the_best_approximation_and_leaves_vectors_alone(two: Any, rank: int) -> None:
    base, final = two
    found = {entry.info.name: entry for entry in scan(live(base), base, final).changed}
    forms = Forms(base, final)
    state = State(frozenset(CHANGED), rank=rank)
    for name in CHANGED[:2]:
        delta = final.tensor(name) - base.tensor(name)
        u, s, v = torch.linalg.svd(delta.double(), full_matrices=False)
        best = (u[:, :rank] * s[:rank]) @ v[:rank]
        ours = forms.value(found[name], state) - base.tensor(name)
        torch.testing.assert_close(ours.double(), best, rtol=0, atol=2e-6)
    assert torch.equal(forms.value(found[CHANGED[2]], state), final.tensor(CHANGED[2]))


def test_random_directions_keep_the_size_and_nothing_else(two: Any) -> None:
    base, final = two
    found = {entry.info.name: entry for entry in scan(live(base), base, final).changed}
    forms = Forms(base, final)
    for name in CHANGED:
        before, delta = base.tensor(name), final.tensor(name) - base.tensor(name)
        turned = forms.value(found[name], State(frozenset(CHANGED), random_seed=3)) - before
        again = forms.value(found[name], State(frozenset(CHANGED), random_seed=3)) - before
        other = forms.value(found[name], State(frozenset(CHANGED), random_seed=4)) - before
        assert torch.equal(turned, again)
        assert not torch.equal(turned, other)
        if delta.dim() == 2:
            ours, theirs = (torch.linalg.svdvals(x.double()) for x in (turned, delta))
            np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)
        assert float(turned.norm()) == pytest.approx(float(delta.norm()), rel=1e-4)
        cosine = float((turned * delta).sum() / delta.norm() ** 2)
        assert abs(cosine) < 0.5


def test_changed_vocabulary_rows_are_a_stated_reduced_comparison(planting: Any, tmp_path: Path) -> None:
    final = planting.save(tmp_path / "final", {CHANGED[0]: planting.base[CHANGED[0]] + 0.1})
    grown = Qwen3ForCausalLM.from_pretrained(final)
    grown.resize_token_embeddings(grown.config.vocab_size + 5)
    with torch.no_grad():
        grown.model.embed_tokens.weight[3] += 1.0
    grown.save_pretrained(final)
    base, after = FolderWeights(planting.folder), FolderWeights(final)
    model = live(base)
    found = scan(model, base, after)
    assert {info.name for info in found.infos} == {CHANGED[0], "model.embed_tokens.weight"}
    assert any("model.embed_tokens.weight has 20 rows in the base and 25 after training" in n for n in found.notes)
    patched = PatchedModel(TransformersModel(model), Forms(base, after), found.changed)
    patched.take(State(frozenset(info.name for info in found.infos)))
    assert model.model.embed_tokens.weight.shape[0] == 20
    assert torch.equal(model.model.embed_tokens.weight[3], after.tensor("model.embed_tokens.weight")[3])


def test_a_base_that_does_not_match_is_an_error(planting: Any, tmp_path: Path) -> None:
    planting.save(tmp_path / "other", {})
    base = FolderWeights(planting.folder)
    wide = {**planting.base, "model.layers.0.mlp.up_proj.weight": torch.zeros(80, 32)}

    class Wide:
        place = "wide"

        def beyond(self, names: Any) -> tuple[str, ...]:
            return ()

        def tensor(self, name: str) -> Any:
            return wide.get(name)

        def digest(self) -> str:
            return ""

    with pytest.raises(UnreadableError, match=r"the base does not match: .*up_proj.weight has shape \(64, 32\)"):
        scan(live(base), base, Wide())
    del wide["model.norm.weight"]
    wide["model.layers.0.mlp.up_proj.weight"] = planting.base["model.layers.0.mlp.up_proj.weight"]
    with pytest.raises(UnreadableError, match=r"wide has no weight model\.norm\.weight"):
        scan(live(base), base, Wide())
    model = live(base)
    with torch.no_grad():
        model.model.norm.weight[0] += 1
    with pytest.raises(UnreadableError, match="the live model does not hold the weights"):
        scan(model, base, base)


def test_rounding_of_half_precision_is_named(two: Any) -> None:
    base, final = two
    small = {n: base.tensor(n) + 1e-4 * (final.tensor(n) - base.tensor(n)) for n in CHANGED}

    class Small:
        place = "small"

        def beyond(self, names: Any) -> tuple[str, ...]:
            return ()

        def tensor(self, name: str) -> Any:
            return small.get(name, base.tensor(name))

        def digest(self) -> str:
            return ""

    notes = scan(live(base, torch.bfloat16), base, Small()).notes
    assert any("% of a tensor's change; --dtype float32 keeps it" in note for note in notes)


def test_what_the_live_model_has_no_place_for_is_named(planting: Any, tmp_path: Path) -> None:
    final = planting.save(tmp_path / "final", {CHANGED[0]: planting.base[CHANGED[0]] + 0.1})
    base = FolderWeights(planting.folder)
    edit(final, lambda weights: weights.update({"v_head.weight": torch.ones(1, 32)}))
    (note,) = scan(live(base), base, FolderWeights(final)).notes
    assert "holds v_head.weight, which the model has no place for" in note
    # The same with the same values in the base is no change.
    both = planting.save(tmp_path / "both", {})
    edit(both, lambda weights: weights.update({"v_head.weight": torch.ones(1, 32)}))
    assert scan(live(base), FolderWeights(both), FolderWeights(final)).notes == ()


def test_how_much_of_a_dense_change_half_precision_loses() -> None:
    # Between 1 and 2 bfloat16 has steps of 2^-7. A Gaussian change with a deviation of two steps is rounded by an error
    # that is uniform over one step, with deviation 1/sqrt(12) of a step: 0.2887 / 2 = 0.1443 of the change.
    before = torch.full((400, 400), 1.5)
    rounding = _Rounding()
    rounding.add("w", before, before + 2 * 2**-7, torch.bfloat16)
    assert rounding.share == pytest.approx(0.1443, abs=0.003)
    # A hundredth of a step never reaches the half that is rounded up: all of it is lost.
    tiny = _Rounding()
    tiny.add("w", before, before + 0.01 * 2**-7, torch.bfloat16)
    assert tiny.share == 1.0
    exact = _Rounding()
    exact.add("w", before, before + 2**-7, torch.float32)
    # float32 has steps of 2^-23 there: 0.2887 * 2^-23 / 2^-7 = 4.4e-6.
    assert exact.share == pytest.approx(4.4e-6, rel=0.05)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_change_trained_in_half_precision_cannot_be_turned_in_it(
    planting: Any, tmp_path: Path, dtype: torch.dtype
) -> None:
    # Weights of a uniform size with a few steps of bfloat16 here and there, as training in it leaves them: the whole
    # change is on its grid, but spread over all weights it is far below half a step each.
    name = CHANGED[0]
    before = torch.full_like(planting.base[name], 1.5)
    after = before.clone()
    after[::16, ::16] += 2**-7
    halves = {}
    for folder, value in (("base", before), ("final", after)):
        halves[folder] = planting.save(tmp_path / folder, {name: value})
        edit(halves[folder], lambda w: w.update({n: v.to(torch.bfloat16) for n, v in w.items()}))
    base, final = FolderWeights(halves["base"]), FolderWeights(halves["final"])
    found = scan(live(base, dtype), base, final)
    said = [note for note in found.notes if note.startswith(ROUNDED)]
    assert len(found.notes) == len(said) == (1 if dtype == torch.bfloat16 else 0)
    # And that is what happens: one weight in 256 changed by a step is 1/16 of a step on each, of which nothing is left.
    turned = Forms(base, final).value(found.changed[0], State(frozenset([name]), random_seed=0)).float() - before
    asked = float((after - before).norm())
    assert (float(turned.norm()) < 0.1 * asked) == (dtype == torch.bfloat16)
