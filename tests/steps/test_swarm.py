from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from cuvee.config import Recipe
from cuvee.engine.store import Output, read_bytes, read_json, read_table
from cuvee.errors import DataError, UsageError
from cuvee.proxy.model import ProxyConfig
from cuvee.steps import swarm
from cuvee.steps.proxies import rounds, tasks, training
from cuvee.steps.proxies.subsets import Subsets, offered


@pytest.fixture(scope="module")
def trained(made):
    return swarm.run(made.work, made.recipe, made.tokens)


def changed(made, **sections) -> Recipe:
    whole = made.recipe.model_dump(by_alias=True)
    return Recipe.model_validate({**whole, **{name: {**whole[name], **section} for name, section in sections.items()}})


def test_every_run_draws_whole_rows_of_its_subsets_and_says_how_often(made, trained):
    rows = read_table(trained.file("run_domains.parquet")).to_pylist()
    share = offered(made.tokens.domains, 2_000, 150_000, 1).rows
    runs = {each["run"] for each in rows}
    assert len(rows) == 12 * 6 and len(runs) == 12
    for run in runs:
        mine = [row for row in rows if row["run"] == run]
        assert [row["domain"] for row in mine] == made.tokens.names
        assert sum(row["rows_drawn"] for row in mine) == 31 * 4 and sum(row["weight"] for row in mine) == pytest.approx(1)
        assert [row["subset_tokens"] for row in mine] == (share * 16).tolist()
        assert all(row["epochs"] * row["subset_tokens"] == pytest.approx(row["tokens_drawn"]) == 16 * row["rows_drawn"] for row in mine)


def test_the_plan_has_repeats_that_differ_in_their_seed_alone(made, trained):
    found = read_json(trained.file("runs.json"))
    kinds = Counter(run["kind"] for run in found["runs"])
    assert kinds == {"proportional": 1, "repeat": 4, "concentrated": 3, "unimax": 1, "uniform": 1, "proposal": 1, "leave_one_out": 1}
    same = [run for run in found["runs"] if run["kind"] in ("proportional", "repeat")]
    assert len({run["mixture"] for run in same}) == 1 and len({run["seed"] for run in same}) == 5 == len({tuple(run["losses"]) for run in same})
    assert {run["seed"] for run in found["runs"] if run["kind"] not in ("repeat", "concentrated")} >= {same[0]["seed"]}
    assert found["failed"] == [] and found["proxy"]["depth"] == 1


def test_every_run_has_a_score_on_every_task(made, trained):
    scores = read_table(trained.file("run_scores.parquet")).to_pylist()
    names = ["quiz", *(f"heldout/{name}" for name in made.tokens.names)]
    assert Counter(row["task"] for row in scores) == dict.fromkeys(names, 12)
    assert all(0.5 < row["score"] < 9 for row in scores)


def test_leaving_a_topic_out_costs_most_on_it(made, trained):
    domains = read_table(trained.file("run_domains.parquet")).to_pylist()
    scores = {(row["run"], row["task"]): row["score"] for row in read_table(trained.file("run_scores.parquet")).to_pylist()}
    one = next(row["run"] for row in domains if row["kind"] == "leave_one_out")
    base = next(row["run"] for row in domains if row["kind"] == "proportional")
    absent = {row["domain"] for row in domains if row["run"] == one and row["weight"] == 0}
    cost = {name: scores[one, f"heldout/{name}"] - scores[base, f"heldout/{name}"] for name in made.tokens.names}
    assert len({name[:3] for name in absent}) == 1 and set(sorted(cost, key=cost.get)[-2:]) == absent


def test_another_plan_trains_only_what_is_new(made, trained):
    before = made.work.current()["swarm.runs"]
    larger = changed(made, swarm={"runs": 13})
    swarm.run(made.work, larger, made.tokens)
    after = made.work.current()["swarm.runs"]
    planned = {each.run.key for each in swarm.plan(larger, made.tokens, training.regime(larger, made.tokens, 1, 2_000))}
    assert after.fingerprint == before.fingerprint
    assert set(after.manifest["tasks"]) == set(before.manifest["tasks"]) | planned and len(planned - set(before.manifest["tasks"])) < 7


def test_a_run_gives_the_same_bytes_again(made, trained, tmp_path):
    regime = training.regime(made.recipe, made.tokens, 1, 2_000)
    run = swarm.plan(made.recipe, made.tokens, regime)[6].run
    rows = tuple(domain.rows_url for domain in made.tokens.domains)
    training.train_group(Output(str(tmp_path)), [run], regime, rows, tasks.run(made.work, made.recipe, made.tokens).url)
    assert read_bytes(f"{tmp_path}/{run.key}.json") == read_bytes(made.work.current()["swarm.runs"].file(f"{run.key}.json"))


def test_rows_come_from_the_subset_each_as_often_as_the_epochs_say(made):
    regime = training.Regime(ProxyConfig(300, 16, 1, 4), 16 * 40, Subsets(np.array([5, 4, 2, 2, 2, 2]), np.zeros(6, bool)))
    drawn, read = training._read(training.Run((15, 20, 0, 0, 3, 2), 1), regime, [domain.rows_url for domain in made.tokens.domains])
    counts = Counter(map(tuple, read.tolist()))
    assert drawn == [15, 20, 0, 0, 3, 2]
    for place, times in ((0, {3}), (1, {5}), (4, {1, 2}), (5, {1})):
        mine = [counts.pop(tuple(row)) for row in made.tokens.domains[place].load(int(regime.subsets.rows[place])).tolist()]
        assert set(mine) == times and sum(mine) == drawn[place]
    assert not counts


class Diverging(ProxyConfig):
    rate = float("nan")


def test_a_run_that_diverges_has_a_reason_and_no_score(made, tmp_path):
    regime = training.regime(made.recipe, made.tokens, 1, 2_000)
    bad = training.Regime(Diverging(300, 16, 1, 4), regime.budget, regime.subsets)
    planned, out = swarm.plan(made.recipe, made.tokens, regime)[:2], Output(str(tmp_path))
    scored = tasks.run(made.work, made.recipe, made.tokens)
    for each, mine in zip(planned, (bad, regime)):
        training.train_group(out, [each.run], mine, [domain.rows_url for domain in made.tokens.domains], scored.url)
    files = {each.run.key: f"{tmp_path}/{each.run.key}.json" for each in planned}
    swarm.collect(out, planned, files, regime, made.tokens.names, scored.file("tasks.json"), {})
    assert set(read_table(f"{tmp_path}/run_scores.parquet")["run"].to_pylist()) == {planned[1].run.key}
    failed = read_json(f"{tmp_path}/runs.json")["failed"]
    assert [each["run"] for each in failed] == [planned[0].run.key] and "the loss is nan at step 1 of 31" in failed[0]["reason"]
    with pytest.raises(DataError, match="all 1 runs failed"):
        swarm.collect(out, planned[:1], files, regime, made.tokens.names, scored.file("tasks.json"), {})


def test_names_give_topics_and_bands():
    topics, bands = rounds.groups(["t00.q1", "t00.q3", "web", "t12.q2"])
    assert topics.tolist() == [0, 0, 2, 1] and bands.tolist() == [0, 2, 0, 1]


def test_budgets_that_cannot_work_are_refused_before_training(made):
    with pytest.raises(UsageError, match="under one batch of 4 rows of 16 tokens"):
        swarm.run(made.work, changed(made, budget={"proxy": 63}, swarm={"max_floored": 1}), made.tokens)
    with pytest.raises(DataError, match="Lower the target to 2,3"):
        swarm.run(made.work, changed(made, budget={"target": 10**9}, swarm={"max_floored": 1}), made.tokens)
    with pytest.raises(DataError, match="Set budget.proxy to"):
        swarm.run(made.work, changed(made, swarm={"subset_documents": 64}), made.tokens)
