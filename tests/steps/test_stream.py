from __future__ import annotations

import shutil
from collections import Counter

import numpy as np
import pytest

from cuvee.config import Recipe
from cuvee.engine.store import read_json, write_json
from cuvee.errors import DataError, UsageError
from cuvee.steps import stream
from tests.steps.swarms import mixed

WEIGHTS = [0.5, 0.25, 0.125, 0.125, 0.0, 0.0]


@pytest.fixture
def written(made):
    """A stream whose period is the target's 9,375 rows; t00.q1 is seen 4,687 / 2,996 = 1.56 times in it."""
    stream.write(made.work, made.recipe, made.tokens, mixed(made.work, made.recipe, made.tokens, dict(zip(made.tokens.names, WEIGHTS)))[1])
    return stream.Stream.open(made.work.url)


def test_shares_of_a_period_are_exact_and_elements_are_rows_of_their_place(made, written):
    places = [written.place(k) for k in range(9_375)]
    shares = Counter(place.domain for place in places)
    assert shares == {"t00.q1": 4_687, "t00.q2": 2_344, "t01.q1": 1_172, "t01.q2": 1_172}  # of 4687.5, 2343.75, 1171.875 twice
    rows = {domain.name: domain.load() for domain in made.tokens.domains}
    taken = written.take(0, 9_375)
    assert taken.dtype == np.int32 and all((taken[k] == rows[place.domain][place.row]).all() for k, place in enumerate(places))
    assert (written[77] == taken[77]).all() and (written.take(70, 9) == taken[70:79]).all()


def test_an_epoch_reads_every_row_once_and_the_next_one_begins_by_itself(written):
    """Over three periods t00.q1 is drawn 14,061 times: 4 whole epochs of 2,996 rows and part of a fifth."""
    seen: dict[int, list[int]] = {}
    for k in range(3 * 9_375):
        place = written.place(k)
        if place.domain == "t00.q1":
            seen.setdefault(place.epoch, []).append(place.row)
    assert [len(seen[epoch]) for epoch in sorted(seen)] == [2_996] * 4 + [2_077]
    assert all(sorted(seen[epoch]) == list(range(2_996)) for epoch in range(4)) and len(set(seen[4])) == 2_077


def test_a_long_budget_keeps_the_parts_of_the_mixture(made):
    long = Recipe.model_validate({**made.recipe.model_dump(by_alias=True), "budget": {"target": 10**9}, "mix": {"max_epochs": 1e5}})
    stream.write(made.work, long, made.tokens, mixed(made.work, made.recipe, made.tokens, dict(zip(made.tokens.names, WEIGHTS)))[1])
    assert read_json(f"{made.work.url}/stream.json")["segments"] == [{"start": 0, "parts": [524_288, 262_144, 131_072, 131_072, 0, 0]}]


def test_a_checkpoint_is_one_integer_and_a_seed_is_another_order(made, written):
    again = stream.Stream.open(f"{made.work.url}/stream.json")
    other = stream.Stream.open(made.work.url, seed=1)
    assert (again.take(5_000, 40) == written.take(5_000, 40)).all() and (other.take(5_000, 40) != written.take(5_000, 40)).any()
    assert sorted(other.take(0, 9_375).sum(axis=1)) != sorted(written.take(0, 9_375).sum(axis=1))  # other rows in part of an epoch


def test_a_work_folder_can_be_moved(made, written, tmp_path):
    shutil.copytree(made.work.url, tmp_path / "moved")
    moved = stream.Stream.open(str(tmp_path / "moved"))
    assert (moved.take(0, 50) == written.take(0, 50)).all() and all(url.startswith(str(tmp_path)) for url in moved._urls)


def test_what_does_not_belong_together_is_refused(made, written, tmp_path):
    with pytest.raises(UsageError, match="no such file"):
        stream.Stream.open(str(tmp_path))
    description = dict(written.description, domains=[{**each, "rows": url, "count": 7} for each, url in zip(written.description["domains"], written._urls)])
    write_json(str(tmp_path / "stream.json"), description)
    with pytest.raises(DataError, match=r"\(2996, 17\) rows and tokens, stream.json says \(7, 17\)"):
        stream.Stream.open(str(tmp_path)).take(0, 100)
    write_json(str(tmp_path / "stream.json"), {**description, "version": 1})
    with pytest.raises(UsageError, match="version 1; this Cuvee reads 2"):
        stream.Stream.open(str(tmp_path))
    with pytest.raises(IndexError, match="from 0 without end; got -1"):
        written[-1]
