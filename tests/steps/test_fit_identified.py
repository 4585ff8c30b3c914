from __future__ import annotations

from dataclasses import replace

import numpy as np

from cuvee.engine.store import read_json
from cuvee.report.identify import blurred
from tests.steps import made_swarms as mixing


def test_domains_that_move_together_in_the_swarm_are_named_in_the_fit_and_on_the_page(tmp_path):
    made = mixing.world(40)
    weights = made.weights.copy()
    weights[:, 5] = weights[:, 3] / 3  # tokens 150,000 and 50,000: alike in epochs
    weights /= weights.sum(axis=1, keepdims=True)
    scores = np.insert(mixing.truth(weights) + 0.003 * np.random.default_rng(0).normal(size=(40, 3)), 2, made.scores[:, 2], axis=1)
    case = mixing.case(tmp_path, replace(made, weights=weights, scores=scores, kinds=["dirichlet"] * 40))
    found = read_json(case.fit().file("fit.json"))
    named = [group["domains"] for group in found["identified"]["blurred"]]
    assert ["t01.q2", "t02.q2"] in named
    assert "the runs do not tell apart t01.q2, t02.q2" in case.said.getvalue()
    assert "t01.q2, t02.q2" in "".join(blurred(found["identified"]))
    assert {task["form"] for task in found["tasks"]} <= {"free", "topic x band"}
