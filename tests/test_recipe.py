from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from pydantic import ValidationError

from cuvee.config import Budget
from cuvee.errors import RecipeError, UsageError
from cuvee.recipe import load
from cuvee.template import STARTER, schema_text

GOOD = """\
work: out
sources:
  - {name: web, path: "in/*.jsonl", license: MIT}
budget: {target: 1.5B, proxy: 20M}
swarm: {max_floored: 0.1%}
"""


def write(tmp_path: Path, text: str) -> str:
    (tmp_path / "r.yaml").write_text(text)
    return str(tmp_path / "r.yaml")


def test_numbers_take_suffixes_and_paths_start_at_the_recipe(tmp_path):
    recipe = load(write(tmp_path, GOOD))
    assert (recipe.budget.target, recipe.budget.proxy, recipe.swarm.max_floored) == (1_500_000_000, 20_000_000, 0.001)
    assert (recipe.work, recipe.sources[0].path) == (str(tmp_path / "out"), str(tmp_path / "in" / "*.jsonl"))


@pytest.mark.parametrize("text, count", [("1e12", 10**12), ("1.5e9", 1_500_000_000), ("2E+6", 2_000_000), ("0.5T", 500 * 10**9), ("20", 20), (1e9, 10**9)])
def test_counts_are_written_in_several_ways(text, count):
    assert Budget(target=text).target == count


@pytest.mark.parametrize("text", ["1e19", "2e1234", "0.0001K", "1.5e0", "1e-3", "e9", "1.5", "1e3M", -1])
def test_what_is_no_count_is_an_error(text):
    with pytest.raises(ValidationError):
        Budget(target=text)


def test_every_file_that_a_key_names_starts_at_the_recipe(tmp_path):
    named = {"embed": "fit", "quality": "labels", "tokenizer": "file", "exclude": "ids", "swarm": "scores", "fit": "reuse", "mix": "freeze"}
    for section, key in named.items():
        recipe = load(write(tmp_path, GOOD), [f"{section}.{key}=near.json"])
        assert getattr(getattr(recipe, section), key) == str(tmp_path / "near.json"), f"{section}.{key}"


@pytest.mark.parametrize("old, new, message", [
    ("work: out", "wrok: out", "r.yaml: unknown key 'wrok' (line 1). Did you mean 'work'?"),
    ("license: MIT", "licence: MIT", "r.yaml, sources.0: unknown key 'licence' (line 3). Did you mean 'license'?"),
    ("proxy: 20M", "prox: 20M", "r.yaml, budget: unknown key 'prox' (line 4). Did you mean 'proxy'?"),
    ("target: 1.5B", "target: much", "r.yaml, budget: target = 'much' (line 4): "),
    ("target: 1.5B", "target: -3", "r.yaml, budget: target = -3 (line 4): "),
    ("name: web, ", "", "r.yaml, sources.0: 'name' is missing (line 3)"),
    (", license: MIT", "", "sources.0 (web): no licence. Add `license: <SPDX id>`"),
    ("work: out", "work: out\nwork: in", "line 2: 'work' is given twice; first on line 1"),
    ("work: out", "work: [", "r.yaml: not YAML: "),
    ("work: out", "work: out\nlicenses: {allow: [CC0-1.0]}", "licence MIT is not in licenses.allow (CC0-1.0)"),
    ("work: out", "work: out\nvalidate: {sedes: 3}", "r.yaml, validate: unknown key 'sedes' (line 2). Did you mean 'seeds'?"),
    ("work: out", "work: out\nvalidate: {sizes: [{depth: 3, budget_factor: 2}]}", "validate.sizes: depth 3 at 2 times the proxy's tokens is not larger"),
    ("work: out", "work: out\nvalidate: {sizes: [{depth: 4, budget_factor: 1}]}", "depth 4 at 1 times the proxy's tokens is not larger than the proxy"),
    ("work: out", "work: out\nvalidate: {sizes: [{depth: 6, budget_factor: 2}, {depth: 6, budget_factor: 2.0}]}", "two sizes are alike"),
    ("work: out", "work: out\nvalidate: {sizes: [{depht: 6, budget_factor: 2}]}", "validate.sizes.0: unknown key 'depht'"),
    ("work: out", "work: out\ndecontaminate: {rule: some}", "r.yaml, decontaminate: rule = 'some' (line 2): write any, hits:N (N distinct features), fraction:X"),
    ("target: 1.5B", f"target: {'9' * 400}T", "r.yaml, budget: target = "),
    ("target: 1.5B", f"target: {'9' * 400}", "r.yaml, budget: target = "),
    ("work: out", "work: out\nvalidate: {sizes: [{depth: 6, budget_factor: 1e300}]}", "less than or equal to 1000000"),
    ("max_floored: 0.1%", "max_floored: .nan", "r.yaml, swarm: max_floored = nan"),
    ("work: out", "work: out\ningest: {shard_bytes: 0}", "r.yaml, ingest: shard_bytes = 0 (line 2): "),
    ("work: out", "work: out\nseed: -5", "r.yaml: seed = -5 (line 2): "),
    ("work: out", "work: out\ntokenizer: {train: {vocab: 10}}", "r.yaml, tokenizer.train: vocab = 10 (line 2): "),
    ("work: out", "work: &w [*w]", "r.yaml: nested too deeply, or a part holds itself"),
    ("license: MIT}", "license: MIT}\n  - {name: web, path: b, license: MIT}", "two sources are named 'web'"),
])
def test_an_error_names_the_key_its_line_and_the_cure(tmp_path, old, new, message):
    assert old in GOOD
    with pytest.raises(RecipeError) as error:
        load(write(tmp_path, GOOD.replace(old, new)))
    assert message in str(error.value)


@pytest.mark.parametrize("more, message", [
    ("evals: [{name: q, path: q, role: report}]", "has the role report, and no continuation"),
    ("evals: [{name: q, path: q, continuation: a, role: report}]\nmix: {protect: {q: 0}}", "mix.protect limits 'q', whose role is report"),
    ("evals: [{name: q, path: q, continuation: a, role: protected}]\nmix: {tasks: {q: 1}}", "mix.tasks weighs 'q', whose role is protected"),
    ("swarm: {scores: s.csv}\nbudget: {target: 9, targets: [4, 9]}", "swarm.scores has runs for one target")])
def test_what_tasks_are_for_is_one_thing(tmp_path, more, message):
    with pytest.raises(RecipeError, match=message):
        load(write(tmp_path, "work: w\nsources: [{name: a, path: a, license: MIT}]\n" + more))


def test_every_error_is_told_at_once(tmp_path):
    with pytest.raises(RecipeError) as error:
        load(write(tmp_path, GOOD.replace("target", "tarket").replace("max_floored", "max_flored")))
    assert len(str(error.value).splitlines()) == 2


def test_overrides_reach_any_key(tmp_path):
    recipe = load(write(tmp_path, GOOD), ["dedup.threshold=0.8", "sources.0.priority=2", "budget.proxy=1M"])
    assert (recipe.dedup.threshold, recipe.sources[0].priority, recipe.budget.proxy) == (0.8, 2, 1_000_000)


@pytest.mark.parametrize("override, message", [("dedup", "write it as"), ("sources.3.name=x", "no item 3"), ("seed.x=1", "unknown key|holds"),
                                               ("sources.9=x", "no item 9"), ("sources.x=1", "no item x"), ("seed=[", "is no YAML value")])
def test_a_wrong_override_is_an_error(tmp_path, override, message):
    with pytest.raises(UsageError, match=message):
        load(write(tmp_path, GOOD + "seed: 0\n"), [override])


def test_a_missing_recipe_says_how_to_write_one(tmp_path):
    with pytest.raises(UsageError, match="cuvee init"):
        load(str(tmp_path / "none.yaml"))


def test_the_starter_is_a_recipe(tmp_path):
    assert load(write(tmp_path, STARTER)).quality.target == ["docs"]


def test_the_schema_names_every_section_of_a_recipe():
    shown = [line.split(":")[0] for line in schema_text().splitlines() if not line.startswith(" ")]
    assert {"work", "sources", "dedup", "validate"} <= set(shown) and set(yaml.safe_load(STARTER)) <= set(shown)
