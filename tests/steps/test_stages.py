from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cuvee.config import Recipe
from cuvee.errors import DataError, RecipeError
from cuvee.pipeline import _sampled
from cuvee.recipe import load
from cuvee.steps import stages, stream
from cuvee.steps.stages import Stage
from tests.steps.swarms import mixed

WEIGHTS = [0.5, 0.25, 0.125, 0.125, 0.0, 0.0]
HALVES = [{"tokens": 48_000, "mixture": "uniform"}, {"tokens": 64_000, "mixture": "proportional"}, {"mixture": "proposal"}]
NO_ROOM = np.full(3, 1e9)


def staged(made, tmp_path, found, parts=1_048_576, max_epochs=8.0):
    """A stream of stages on the small store, in a work folder of its own."""
    recipe = Recipe.model_validate({**made.recipe.model_dump(by_alias=True), "stream": {"parts": parts, "stages": found}, "mix": {"max_epochs": max_epochs}})
    total = made.tokens.tokens.sum()
    baselines = {"proportional": {"weights": dict(zip(made.tokens.names, (made.tokens.tokens / total).tolist()))},
                 "uniform": {"weights": dict.fromkeys(made.tokens.names, 1 / 6)}}
    mix = mixed(made.work, recipe, made.tokens, dict(zip(made.tokens.names, WEIGHTS)), baselines)[1]
    stream.write(made.work, recipe, made.tokens, mix)
    return stream.Stream.open(made.work.url)


def test_a_stage_is_whole_periods_and_a_shorter_one_by_hand():
    found = stages.segments([Stage("a", 10, np.array([0.5, 0.5, 0.0])), Stage("b", 9, np.array([0.0, 0.25, 0.75]))], 4, NO_ROOM)
    assert [(each.start, each.parts.tolist()) for each in found] == [(0, [2, 2, 0]), (8, [1, 1, 0]), (10, [0, 1, 3])]


@given(st.lists(st.tuples(st.integers(1, 400), st.lists(st.floats(0, 1), min_size=3, max_size=3).filter(sum)), min_size=1, max_size=4), st.integers(1, 90))
def test_stages_give_their_shares_within_a_row_a_period_and_no_cap_is_passed(drawn, most):
    found = [Stage("x", rows, np.array(weights) / sum(weights)) for rows, weights in drawn]
    room = np.ceil(sum(stage.rows * stage.weights for stage in found)) + 1
    starts = np.cumsum([0] + [stage.rows for stage in found])
    free = stages.segments(found, most, NO_ROOM)
    owners = [found[np.searchsorted(starts, each.start, side="right") - 1] for each in free]
    assert all(np.abs(each.parts - each.parts.sum() * owner.weights).max() < 1 for each, owner in zip(free, owners))
    try:
        made = stages.segments(found, most, room)
    except DataError:  # whole rows a period cannot keep these caps
        return
    times = np.diff([*(each.start for each in made), starts[-1]]) / [each.parts.sum() for each in made]
    assert (sum(count * each.parts for count, each in zip(times, made)) <= room + 1e-3).all() and (times[:-1] % 1 == 0).all()


def test_every_stage_of_the_stream_has_its_shares_and_epochs_go_on_over_them(made, tmp_path):
    found = staged(made, tmp_path, HALVES, parts=1_000)
    places = found.places(np.arange(20_000))
    shares = [np.bincount(places.domain[start:stop], minlength=6) for start, stop in ((0, 3_000), (3_000, 7_000), (7_000, 9_000))]
    assert [each.sum() for each in shares] == [3_000, 4_000, 2_000] and np.ptp(shares[0]) <= 3 and shares[2].tolist() == [1_000, 500, 250, 250, 0, 0]
    assert np.abs(shares[1] - 4_000 * made.tokens.tokens / made.tokens.tokens.sum()).max() <= 4
    for domain in made.tokens.domains[:2]:
        mine = places.domain == made.tokens.names.index(domain.name)
        epochs = [places.row[mine & (places.epoch == epoch)] for epoch in range(places.epoch[mine].max() + 1)]
        assert all(sorted(rows) == list(range(domain.rows)) for rows in epochs[:-1]) and len(set(epochs[-1])) == len(epochs[-1])


def test_any_element_of_any_stage_is_found_alone(made, tmp_path):
    found = staged(made, tmp_path, HALVES, parts=700)
    whole = found.take(0, 11_000)
    k = np.random.default_rng(0).permutation(11_000)[:3_000]
    assert (found.gather(k) == whole[k]).all() and all((found[k] == whole[k]).all() for k in (0, 2_999, 3_000, 6_999, 7_000, 10_999))


def test_after_the_budget_the_last_stage_goes_on(made, tmp_path):
    found = staged(made, tmp_path, HALVES)
    assert len(found) == 150_000 // 16 and [each["rows"] for each in found.description["stages"]] == [3_000, 4_000, 2_375]
    for start in (len(found), len(found) + 2_375):
        beyond = np.bincount(found.places(np.arange(start, start + 2_375)).domain, minlength=6)
        assert beyond.tolist() == found.description["segments"][-1]["parts"]


def test_caps_hold_over_all_stages_together(made, tmp_path):
    """t00.q1 has 2,996 rows: 500 in the first stage, 668 in the second and 1,188 in the last are .79 epochs."""
    with pytest.raises(DataError, match=r"repeat . domains more than mix.max_epochs = 0.7 times, t00.q1 most: 0.167 \(uniform\) \+ .* \(proposal\) = 0.7\d+ epochs"):
        staged(made, tmp_path, HALVES, max_epochs=0.7)
    found = staged(made, tmp_path, HALVES, max_epochs=0.8)
    epochs = np.bincount(found.places(np.arange(len(found))).domain, minlength=6) / [domain.rows for domain in made.tokens.domains]
    assert 0.7 < epochs.max() <= 0.8


def test_a_mixture_can_come_from_a_file(made, tmp_path):
    file = tmp_path / "own.json"
    file.write_text(json.dumps({"domains": [{"name": name, "weight": weight} for name, weight in zip(made.tokens.names, [0, 0, 0, 0, 0.5, 0.5])]}))
    found = staged(made, tmp_path, [{"tokens": 16_000, "mixture": "uniform"}, {"mixture": str(file)}])
    assert set(found.places(np.arange(1_000, 4_000)).domain) == {4, 5}
    file.write_text(json.dumps({"domains": [{"name": "other", "weight": 1}]}))
    with pytest.raises(DataError, match="do not have the same domains"):
        staged(made, tmp_path, [{"mixture": str(file)}])
    file.write_text("[]")
    with pytest.raises(DataError, match="has no weights of the mixture"):
        staged(made, tmp_path, [{"mixture": str(file)}])


@pytest.mark.parametrize("text, message", [
    ("[{tokens: 1M}, {tokens: 2M}]", "the stages hold 3,000,000 tokens, budget.target is 4,000,000"),
    ("[{}, {tokens: 4M}]", "stage 0 has no tokens"),
    ("[{tokens: 4M}, {}]", "the stages hold 4,000,000 tokens"),
    ("[{tokens: 1M, mixture: unimx}, {}]", r"mixture = 'unimx'|no mixture is named 'unimx'\. Did you mean 'unimax'")])
def test_stages_that_do_not_fill_the_budget_are_refused_before_any_work(tmp_path, text, message):
    path = tmp_path / "r.yaml"
    path.write_text(f"work: w\nbudget: {{target: 4M, proxy: 1M}}\nsources: [{{name: a, path: a, license: MIT}}]\nstream: {{stages: {text}}}\n")
    with pytest.raises(RecipeError, match=message):
        load(str(path))


def test_a_file_of_a_stage_lies_beside_the_recipe(tmp_path):
    path = tmp_path / "r.yaml"
    path.write_text("work: w\nbudget: {target: 4M, proxy: 1M}\nsources: [{name: a, path: a, license: MIT}]\n"
                    "stream: {stages: [{tokens: 3M, mixture: uniform}, {mixture: own/mixture.json}]}\n")
    assert [stage.mixture for stage in load(str(path)).stream.stages] == ["uniform", f"{tmp_path}/own/mixture.json"]


def test_stages_shrink_with_a_sample():
    recipe = Recipe.model_validate({"work": "w", "sources": [{"name": "a", "path": "a"}], "budget": {"target": 4_000_000, "proxy": 1_000_000},
                                    "stream": {"stages": [{"tokens": 3_000_000, "mixture": "uniform"}, {}]}})
    found = _sampled(recipe, 0.01)
    assert [stage.tokens for stage in found.stream.stages] == [30_000, None] and found.budget.target == 40_000
