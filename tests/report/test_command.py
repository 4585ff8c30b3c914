from __future__ import annotations

from cuvee.report.command import standalone_page
from tests.report.reading import Reader

COUNTS = {"read": 100, "kept": 90, "removed": 10, "quarantined": 2, "reasons": {"bad_json": 2}, "kinds": {"exact": 7, "near": 3}}
PAIR = {"kind": "near", "similarity": 0.8, "removed": "one <two> three", "removed_name": "a.jsonl:4", "kept": "one <2> three", "kept_name": "b.jsonl:0"}


def test_rows_of_a_command_add_up():
    found = Reader(standalone_page("dedup", COUNTS, {"threshold": 0.75}, [PAIR], ["removed 10 of 100 rows"], [{"name": "a.jsonl", "read": 60, "kept": 51}]))
    assert not found.open and "Counts add up" in found.text and "removed 10 of 100 rows" in found.text and "threshold: 0.75" in found.text
    assert found.tables["rows"][0][1:] == [["kept", "90", "88.2 %"], ["exact", "7", "6.9 %"], ["near", "3", "2.9 %"],
                                           ["quarantined: bad_json", "2", "2.0 %"], ["all", "102", ""]]
    assert found.tables["files"][0][1] == ["a.jsonl", "60", "51", "9", "15.0 %"] and "one <two> three" in found.text


def test_rows_that_are_lost_are_said():
    found = Reader(standalone_page("dedup", {**COUNTS, "kept": 89}, {}, []))
    assert "Counts do not add up: 102 rows, 101 accounted for." in found.text and "Nothing was removed" in found.text


def test_decontaminate_shows_the_item_next_to_the_place():
    example = {"kind": "dropped", "hits": 2, "removed": "Well: what is it? End.", "removed_name": "a.jsonl:1", "start": 6, "end": 17,
               "kept": "What is it?", "kept_name": "quiz.jsonl:3"}
    page = standalone_page("decontaminate", {**COUNTS, "kinds": {}}, {}, [example])
    assert "Well: <mark>what is it?</mark> End." in page and "<mark>What is it</mark>?" in page and "quiz.jsonl:3" in page
    assert Reader(page).tables["rows"][0][2] == ["removed", "10", "9.8 %"]
