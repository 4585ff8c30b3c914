from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from cuvee.engine.store import read_json
from cuvee.errors import DataError
from cuvee.steps import training, validate
from tests.steps.swarms import mixed


def compared(made, weights):
    fit, mix = mixed(made.work, made.recipe, made.tokens, weights)
    return read_json(validate.run(made.work, made.recipe, made.tokens, fit, mix).file("validate.json"))


def test_more_of_what_the_task_is_about_ships(made):
    """The quiz is about the sea, topic 0: four times its natural share must help, and what it takes away must hurt."""
    found = compared(made, {name: 0.45 if name.startswith("t00") else 0.025 for name in made.tokens.names})
    by_task = {each["name"]: each for each in found["tasks"]}
    assert found["verdict"] == "ship" and found["mean"]["high"] < 0 and found["mean"]["difference"] == by_task["quiz"]["difference"]
    assert found["predicted_difference"] == pytest.approx(1.5 - 1.75) and by_task["heldout/t01.q1"]["difference"] > 0
    assert found["proxy"]["depth"] == 2 and found["tokens"] == 93 * 64 and len(found["seeds"]) == 3 == len(set(found["seeds"]))
    assert len(found["scores"]) == 2 * 3 * 7 and "heldout/t01.q1" in found["explanation"]


def test_the_natural_mixture_itself_makes_no_difference(made):
    natural = dict(zip(made.tokens.names, (made.tokens.tokens / made.tokens.tokens.sum()).tolist()))
    found = compared(made, natural)
    assert found["verdict"] == "no difference" and found["mean"] == {"difference": 0, "se": 0, "low": 0, "high": 0}


def test_the_interval_is_that_of_the_paired_t_test():
    rng = np.random.default_rng(3)
    base, proposal, weights = rng.normal(2, 1, (5, 3)), rng.normal(1, 1, (5, 3)), np.array([0.5, 0.5, 0])
    mean, tasks = validate.differences(base, proposal, weights)
    known = stats.ttest_rel(proposal @ weights, base @ weights)
    low, high = known.confidence_interval(0.95)
    assert [mean["low"], mean["high"], mean["difference"] / mean["se"]] == pytest.approx([low, high, known.statistic])
    assert tasks[2]["difference"] / tasks[2]["se"] == pytest.approx(stats.ttest_rel(proposal[:, 2], base[:, 2]).statistic)


@pytest.mark.parametrize("low, high, word", [(-0.2, -0.1, "ship"), (0.1, 0.2, "hold"), (-0.1, 0.1, "no difference"), (-0.1, 0, "no difference")])
def test_the_verdict_needs_an_interval_on_one_side_of_zero(low, high, word):
    assert validate.verdict({"low": low, "high": high}) == word


def test_a_mixture_of_other_domains_is_refused(made):
    without = replace(made.tokens, domains=(*made.tokens.domains, replace(made.tokens.domains[0], name="t09.q1", rows=0, tokens=0)))
    assert training.matched(dict.fromkeys(made.tokens.names, 0.5), without, "mixture.json").tolist() == [0.5] * 6 + [0]
    with pytest.raises(DataError, match="do not have the same domains: t00.q1, t09.q1 in one alone"):
        training.matched({"t09.q1": 1.0, **dict.fromkeys(made.tokens.names[1:], 0.0)}, made.tokens, "mixture.json")
