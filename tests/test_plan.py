"""What `cuvee plan` and `cuvee check` say before anything is trained, through the command line."""

from __future__ import annotations

import re

import pytest
import yaml

from cuvee import plan
from cuvee.kernels.noise import resolvable
from cuvee.proxy.model import ProxyConfig
from cuvee.steps import swarm
from cuvee.steps.proxies import rounds, training
from tests.commands import cuvee
from tests.steps import made_swarms as mixing


@pytest.fixture(scope="module")
def recipe(made, tmp_path_factory):
    """A recipe file over the made token store."""
    path = tmp_path_factory.mktemp("plan") / "recipe.yaml"
    path.write_text(yaml.safe_dump(made.recipe.model_dump(mode="json", by_alias=True, exclude_defaults=True)))
    return str(path)


def table(out: str) -> dict[str, list[float]]:
    """Of each part: runs, tokens each, parameters, FLOPs, hours."""
    lines = re.findall(r"^((?:swarm|validate)[^\n]*?) {2,}(\d.*)$", out, re.MULTILINE)
    return {name.strip(): [float(cell.replace(",", "")) for cell in cells.split()] for name, cells in lines}


def test_flops_are_runs_by_tokens_by_flops_and_hours_these_by_the_rate(recipe, made):
    done = cuvee("plan", recipe, "--accelerator", "H100", "--mfu", "0.25")
    found, small = table(done.out), ProxyConfig(made.tokens.vocab, 16, 1, 4)
    sizes = rounds.sizes(made.recipe, made.tokens.names)
    assert [found[f"swarm, round {number}"][0] for number in range(1, len(sizes) + 1)] == sizes and done.code == 0
    runs, tokens, parameters, flops, hours = found["swarm, round 1"]
    assert (tokens, parameters) == (2_000, small.parameters) and flops == pytest.approx(runs * 2_000 * small.flops_per_token, rel=0.05)
    assert hours == pytest.approx(runs * 2_000 * small.flops_per_token / (989e12 * 0.25) / 3600, rel=0.01)
    depth, large = made.recipe.larger_sizes[-1].depth, made.recipe.larger_sizes[-1]
    assert found[f"validate, depth {depth}"][:2] == [3 * made.recipe.validation.seeds, large.budget_factor * 2_000]
    assert "stated" in done.out and "not known yet" not in done.out


def test_the_planned_runs_are_those_that_the_swarm_plans(recipe, made):
    planned = swarm.plan(made.recipe, made.tokens, training.regime(made.recipe, made.tokens, 1, 2_000))
    assert table(cuvee("check", recipe).out)["swarm, round 1"][0] == len(planned)


def test_before_anything_ran_what_is_unknown_is_said(recipe, tmp_path):
    done = cuvee("plan", recipe, "--set", f"work={tmp_path}/new", "--set", "swarm.runs=null", "--set", "swarm.rounds=2")
    first = 2 * (plan.MOST_TOPICS + 5 + 5)  # topics, bands
    assert [values[0] for name, values in table(done.out).items() if name.startswith("swarm")] == [first, first // 2]
    assert "not known yet: how many domains the data gives" in done.out and "topics.count is left to the data" in done.out
    assert f"two runs differ by more than chance (95 %) from {resolvable(1, 6):.1f} times that noise" in done.out and not (tmp_path / "new").exists()
    assert "no budget" in cuvee("plan", recipe, "--set", "budget.proxy=0").out


def test_this_machine_is_timed_with_the_proxies_themselves(recipe):
    done = cuvee("plan", recipe, "--time")
    speeds = [float(each.replace(",", "")) for each in re.findall(r"([\d,]+) tokens/s in groups", done.out)]
    assert done.code == 0 and "from 3 steps of each proxy" in done.out and len(speeds) == 2 and min(speeds) > 100
    assert all(values[4] > 0 for values in table(done.out).values())


@pytest.mark.parametrize("options, said", [
    (("--accelerator", "H10"), "Did you mean 'H100'?"), (("--flops", "fast"), "--flops fast"), (("--flops", "0"), "a peak is over 0"),
    (("--accelerator", "H100", "--mfu", "1.5"), "is in (0, 1]"), (("--accelerator", "H100", "--time"), "only this machine can be timed"),
    (("--mfu", "2"), "is in (0, 1]"), (("--flops", "inf"), "a peak is over 0"), (("--flops", "1T", "--time"), "only this machine can be timed")])
def test_a_machine_that_is_not_known_is_a_usage_error(recipe, options, said):
    done = cuvee("plan", recipe, *options)
    assert done.code == 2 and said in done.err


@pytest.mark.parametrize("override, said", [
    ("mix.tasks={quizz: 1}", "mix.tasks: the swarm will have no task 'quizz'"), ("mix.protect={quizz: 0}", "mix.protect: the swarm will have no task 'quizz'"),
    ("fit.reuse=.", "is not the work folder of an earlier run"), ("mix.freeze=recipe.yaml", "not a mixture.json"), ("mix.freeze=no.json", "mix.freeze: no such file")])
def test_what_would_only_fail_after_the_swarm_is_told_by_check(recipe, override, said):
    done = cuvee("check", recipe, "--set", override)
    assert done.code in (1, 2) and said in done.err


def test_the_noise_of_the_swarm_says_what_it_can_resolve(tmp_path):
    case = mixing.case(tmp_path, mixing.world())
    found = case.fit()
    lines = "\n".join(plan.resolution(case.work, case.recipe))
    tasks = {each["name"]: each for each in plan.read_json(found.file("fit.json"))["tasks"]}
    assert f"quiz: {tasks['quiz']['resolves']:.3g} between two runs" in lines and "noise:" not in lines
    assert f"{resolvable(tasks['quiz']['noise_sd'], 7, 3):.3g} between means of 3; bits per byte, 7 degrees of freedom" in lines
    assert "weighted mean: " in lines and "SDs of the swarm" in lines
