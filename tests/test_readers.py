from __future__ import annotations

import itertools
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cuvee.errors import UsageError
from cuvee.readers import Batches, Dataset
from cuvee.steps import stream
from tests.steps.swarms import mixed

WEIGHTS = [0.5, 0.25, 0.125, 0.125, 0.0, 0.0]


@pytest.fixture(scope="module")
def whole(made):
    stream.write(made.work, made.recipe, made.tokens, mixed(made.work, made.recipe, made.tokens, dict(zip(made.tokens.names, WEIGHTS)))[1])
    return stream.Stream.open(made.work.url)


@given(st.integers(0, 20_000), st.sampled_from([1, 2, 3, 4, 6]), st.integers(1, 5), st.integers(0, 3))
def test_a_global_batch_is_the_same_on_any_number_of_hosts(whole, start, hosts, each, ahead):
    readers = [Batches(whole, hosts * each, start, shard=(host, hosts), ahead=ahead) for host in range(hosts)]
    for step in range(3):
        joined = np.concatenate([next(reader) for reader in readers])
        assert (joined == whole.take(start + step * hosts * each, hosts * each)).all()
    assert {reader.position for reader in readers} == {start + 3 * hosts * each}


@given(st.integers(0, 9), st.sampled_from([(12, 1), (6, 2), (24, 3), (5, 5)]), st.integers(0, 2))
def test_a_reader_that_starts_at_a_position_goes_on(whole, steps, then, ahead):
    first = Batches(whole, 12, ahead=ahead)
    before = [next(first) for _ in range(steps)]
    batch, hosts = then
    rest = [Batches(whole, batch, first.position, shard=(host, hosts)) for host in range(hosts)]
    after = [next(reader) for _ in range(4) for reader in rest]
    assert (np.concatenate([*before, *after]) == whole.take(0, 12 * steps + 4 * batch)).all()


def test_batches_end_before_a_partial_one(whole):
    assert [len(rows) for rows in Batches(whole, 8, start=3, stop=30)] == [8, 8, 8]
    assert [len(rows) for rows in Batches(whole, 8, start=3, stop=30, ahead=0)] == [8, 8, 8]
    assert list(Batches(whole, 8, stop=7)) == []


def test_a_dataset_has_what_batches_give(whole):
    parts = [Dataset(whole, 6, start=10, stop=40, shard=(host, 3)) for host in range(3)]
    assert [len(part) for part in parts] == [10] * 3 and len(Dataset(whole, 10)) == len(whole) // 10 * 10 == 9_370
    for host, part in enumerate(parts):
        wanted = list(Batches(whole, 6, 10, 40, (host, 3)))
        assert (np.stack([part[i] for i in range(10)]) == np.concatenate(wanted)).all() and (part.__getitems__([4, 5]) == wanted[2]).all()
    assert parts[0].position(5) == 40 and (parts[0][-1] == parts[0][9]).all()
    with pytest.raises(IndexError, match=r"\[0, 10\); got 10"):
        parts[0][10]


def test_a_dataset_is_small_when_pickled(whole):
    dataset = Dataset(whole, 4)
    rows = dataset.__getitems__(range(1_000))
    data = pickle.dumps(dataset)
    assert len(data) < 20_000 and (pickle.loads(data).__getitems__(range(1_000)) == rows).all()


@pytest.mark.parametrize("workers", [0, 2])
def test_torch_loads_it(whole, workers):
    torch = pytest.importorskip("torch")
    loader = torch.utils.data.DataLoader(Dataset(whole, 8, stop=80), batch_size=8, num_workers=workers)
    assert (torch.cat(list(loader)).numpy() == whole.take(0, 80)).all()


@pytest.mark.parametrize("wrong, said", [({"start": -4}, "start -4"), ({"start": 0.5}, "start 0.5"), ({"ahead": -1}, "ahead -1")])
def test_a_place_that_no_reader_can_start_at_is_refused_at_once(whole, wrong, said):
    for reader in [Batches] if "ahead" in wrong else [Batches, Dataset]:
        with pytest.raises(UsageError, match=said):
            reader(whole, 4, **wrong)


@pytest.mark.parametrize("batch, shard", [(0, (0, 1)), (8, (2, 2)), (8, (-1, 2)), (8, (0, 3)), (8, (0, 0))])
def test_a_batch_that_cannot_be_shared_is_refused(whole, batch, shard):
    with pytest.raises(UsageError, match=f"batch {batch}, shard"):
        next(itertools.chain(Batches(whole, batch, shard=shard)))
