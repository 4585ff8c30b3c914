from __future__ import annotations

import dataclasses

import pytest

from cuvee.engine.step import Step
from cuvee.report.gather import gather
from cuvee.report.page import page, write_report
from tests.report import mixed, tiny
from tests.report.reading import Reader


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    work = tiny.corpus(tmp_path_factory.mktemp("whole"))
    mixed.mix(work)
    return work


@pytest.fixture(scope="module")
def read(whole) -> Reader:
    with open(write_report(whole, tiny.RECIPE), encoding="utf-8") as file:
        return Reader(file.read())


def test_the_funnel_has_the_documents_of_the_tables(read):
    heads, web, wiki, total = read.tables["funnel"][0]
    assert heads[2:10] == ["ingest bad_json", "filter empty", "filter repetition", "filter too_few_words", "decontaminate contaminated",
                           "dedup exact", "dedup near", "dedup normalised"]
    assert web == ["web", "13", "2", "1", "1", "1", "1", "1", "1", "1", "4", "30.8 %", "250", "yes"]
    assert wiki == ["wiki", "6", "1", "0", "0", "1", "1", "0", "0", "0", "3", "50.0 %", "400", "yes"]
    assert total[1:11] == ["19", "3", "1", "1", "2", "2", "1", "1", "1", "7"] and "Counts add up" in read.text


def test_bytes_are_of_the_texts_that_each_step_kept(whole):
    web = gather(whole, tiny.RECIPE).flows[0]
    kept = [sum(tiny.size(shard, tiny.kept(shard, *gone)) for shard in list(tiny.TEXTS)[:2])
            for gone in ((), (tiny.REASONS,), (tiny.REASONS, tiny.HITS), (tiny.REASONS, tiny.HITS, tiny.GONE))]
    assert [step.bytes for step in web.steps] == [*kept, 1_000]


def test_counts_that_do_not_meet_are_said(whole):
    facts = gather(whole, tiny.RECIPE)
    lost = dataclasses.replace(facts.flows[0].steps[1], kept=6)
    broken = dataclasses.replace(facts.flows[0], steps=(facts.flows[0].steps[0], lost, *facts.flows[0].steps[2:]))
    found = Reader(page(dataclasses.replace(facts, flows=[broken, facts.flows[1]])))
    assert "web: filter read 11, and 9 are accounted for; web: decontaminate read 8, filter kept 6" in found.text
    assert found.tables["funnel"][0][1][-1] == "no" and found.tables["funnel"][0][2][-1] == "yes"


def test_other_tables_have_the_numbers_of_their_files(read):
    assert read.tables["quarantine"][0][1:] == [["web", "2", "2"], ["wiki", "1", "1"], ["all", "3", "3"]]
    assert read.tables["licences"][0][1:] == [["MIT", "6", "85.7 %"], ["CC0-1.0 + MIT", "1", "14.3 %"], ["all", "7", ""]]
    assert read.tables["filter"][0][1] == ["too_few_words", "2", "20", "3", "3", "3"]
    assert read.tables["evals"][0][1] == ["quiz", "2", "1", "1", "1", "2"]
    assert read.tables["topics"][0][2][1:5] == ["<b>bold</b>, html, tag", "101", "10 MB", "33.3 %"]
    assert read.tables["domains"][0][1] == ["t00.q1", "sea, ship, sail", "50", "2.5 MB", "16.7 %", "-0.25", "0.75", "700", "16", "en 75.0 %, fr 25.0 %"]
    assert read.tables["mixture"][0][6] == ["t02.q2", "数学, 証明, 定理", "37.5 %", "16.7 %", "× 2.25", "", "3", "1,000,000", "30.0 % to 45.0 %"]
    assert read.tables["mixture"][1][1] == ["quiz", "1.988", "0.01", "2.099", "2.054", "2.076"]
    assert read.tables["fit"][0][1] == ["quiz", "target", "1", "", "0.021", "0.004 (6)", "5.25", "0.0138", "0.875", "0.9 (0.8 to 0.95)", "0.001"]
    assert read.tables["fit"][0][2][2:4] == ["0", "low signal to noise"] and "two runs differ by more than chance from 0.4326 on" in read.text
    assert read.tables["swarm"][3][1:] == [["quiz", "eval", "2", "7", "90"], ["outside", "eval", "–", "–", "–"]]
    assert "Spearman of the weighted mean score: 0.9321 (0.871 to 0.962)" in read.text and "3 scores are missing" in read.text
    assert read.tables["rounds"][0][2:] == [["2", "6", "-0.5", "-0.75", "0.375", "0.25", "0.125", "0.6"], ["3", "0", "-0.5", "-0.75", "0.0625", "0.25", "0.125", "0.6"]]
    assert "Procedure ours: 16 runs. No round 3: too little is expected." in read.text
    assert read.tables["swarm"][2][1] == ["r000", "proportional", "1,000,000", "5", "2.5", "1", "2", "1.99"]


def test_the_check_at_larger_sizes_has_a_row_a_size_and_a_row_a_task(read):
    sizes, failed, tasks = read.tables["validation"]
    assert sizes[2] == ["depth 4, 3,000,000 tokens", "1,234,567", "1.00e+13", "3", "1.95", "–", "1.85", "-0.0912 (-0.1300 to -0.0500)", "–",
                        "× 1.50 (1.25 to no limit), extrapolated"]
    assert sizes[1][0] == "depth 2, 1,000,000 tokens (proxy)" and failed[1] == ["depth 4, 3,000,000 tokens", "UniMax", "2", "loss is NaN <b>"]
    assert tasks[1] == ["quiz", "1", "–", "-0.1111", "-0.0500 ± 0.01", "-0.0912 ± 0.02"]
    assert tasks[2] == ["heldout/t00.q1", "0", "+0.005", "–", "+0.0100 ± 0.015", "+0.0100 ± 0.015 rises too much"]
    assert "Verdict: hold. Protected task heldout/t00.q1 rises." in read.text and "One remark." in read.text
    titles = [attributes for name, attributes in read.tags if name == "svg" and attributes.get("role") == "img"]
    assert "Scores by compute; the line is A C^-alpha through proportional" in read.text and len(titles) >= 3


def test_examples_stand_side_by_side(read):
    pairs = [name for name in ("exact, similarity 1", "normalised, similarity 1", "near, similarity 0.875", "dropped, hits 3") if name in read.text]
    assert len(pairs) == 4 and read.text.count(tiny.ITEM[:60]) >= 4  # two documents, each next to the item
    assert "web/00000-000:2 · 3 copies" in read.text and "wiki/00000-000:0 · 2 copies" in read.text


def test_the_page_needs_nothing_else_and_runs_nothing(read):
    names = {name for name, _ in read.tags}
    assert not read.open and not names & {"script", "link", "img", "iframe", "object", "b"}
    addresses = [value for _, attributes in read.tags for key, value in attributes.items() if key in ("href", "src", "action") or key.startswith("on")]
    ids = {f"#{attributes['id']}" for _, attributes in read.tags if "id" in attributes}
    assert addresses and set(addresses) == ids


@pytest.mark.parametrize("until, lacks", [("ingest", 11), ("filter", 10), ("decontaminate", 9), ("dedup", 8)])
def test_what_is_not_done_is_said_and_comes_last(tmp_path, until, lacks):
    text = page(gather(tiny.corpus(tmp_path, until), tiny.RECIPE))
    assert text.count("Not done yet") == lacks
    assert text.rindex('id="recipe"') < text.index("Not done yet") and "cuvee run RECIPE --until swarm" in text


def test_an_empty_work_folder_has_a_page(tmp_path):
    work = tiny.Work(str(tmp_path), tiny.LocalEngine(1))
    assert "Nothing is done yet" in page(gather(work, tiny.RECIPE))


def test_the_same_work_gives_the_same_page(whole):
    assert page(gather(whole, tiny.RECIPE)) == page(gather(whole, tiny.RECIPE))


def test_sources_that_left_the_recipe_are_not_counted(whole):
    alone = tiny.RECIPE.model_copy(update={"sources": tiny.RECIPE.sources[:1]})
    facts = gather(whole, alone)
    assert [flow.source for flow in facts.flows] == ["web"] and facts.licenses == [("MIT", 4)]


def test_a_verdict_on_other_documents_is_said(tmp_path):
    work = tiny.corpus(tmp_path, "dedup")
    other = tiny.rows(tiny.DOCUMENTS, [{"id": tiny.identity(f"new {n}"), "text": f"new {n}", "source": "web", "license": "MIT"} for n in range(7)])
    taken = {"read": 7, "blank": 0, "documents": 7, "bytes": 35, "quarantined": 0, "reasons": {}}
    work.do(Step("ingest", 2, source="web"), [tiny.task("00000", taken, {"00000-000.parquet": other})])
    found = page(gather(work, tiny.RECIPE))
    assert "A step stems from an earlier state" in found and "Counts do not add up" in found
