from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from cuvee.config import Recipe
from cuvee.steps import swarm
from cuvee.steps.proxies import training


@pytest.fixture(scope="module")
def planned(made):
    """A swarm whose proxies read 31 whole batches; t02.q2 is so small that its subset is floored."""
    small = replace(made.tokens.domains[5], rows=100, tokens=1_600, documents=6)
    tokens = replace(made.tokens, domains=(*made.tokens.domains[:5], small))
    recipe = Recipe.model_validate({**made.recipe.model_dump(by_alias=True), "budget": {"target": 150_000, "proxy": 31 * 4 * 16}})
    regime = training.regime(recipe, tokens, 1, recipe.budget.proxy)
    return tokens, regime, [each.run for each in swarm.plan(recipe, tokens, regime)]


def test_every_run_repeats_every_domain_as_the_target_will(made, planned):
    """Counted from the rows that a run reads: of each domain how many, how many distinct, and which.

    w x target / tokens are the target's epochs; what is drawn divided by that is the subset that has just these, and the
    real subset is that within one row.
    """
    tokens, regime, runs = planned
    origin = {row.tobytes(): (place, number) for place, domain in enumerate(tokens.domains) for number, row in enumerate(domain.load(domain.rows))}
    assert len(runs) == 12 and regime.subsets.floored.tolist() == [False] * 5 + [True]
    for run in runs:
        read = Counter(origin[row.tobytes()] for row in training._read(run, regime, [domain.rows_url for domain in tokens.domains])[1])
        for place, (domain, offered) in enumerate(zip(tokens.domains, regime.subsets.rows.tolist())):
            mine = {number: times for (where, number), times in read.items() if where == place}
            drawn = sum(mine.values())
            assert drawn == run.parts[place] and len(mine) == min(drawn, offered) and max(mine, default=0) < offered
            assert not mine or max(mine.values()) - min(mine.values()) <= 1
            wanted = drawn / regime.rows * 150_000 / domain.tokens  # epochs of the target
            if drawn and not regime.subsets.floored[place]:
                assert abs(drawn / wanted - offered) < 1


def test_a_floored_domain_is_repeated_less_and_marked(planned):
    tokens, regime, runs = planned
    offered, run = int(regime.subsets.rows[5]), max(runs, key=lambda run: run.parts[5])
    assert offered == 17 > 100 * 1_984 / 150_000  # rows that hold one document of its usual length
    assert run.parts[5] / offered < run.parts[5] / regime.rows * 150_000 / tokens.domains[5].tokens / 10
