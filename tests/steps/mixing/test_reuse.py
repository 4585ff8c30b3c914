import pyarrow as pa

from cuvee.steps.mixing.reuse import SAMPLE, overlap, same_tasks


def table(**domains: str) -> pa.Table:
    """domain="ids, one letter each" """
    rows = [{"id": key, "domain": name.replace("_", ".")} for name, keys in domains.items() for key in keys]
    return pa.Table.from_pylist(rows, schema=SAMPLE)


def test_documents_are_counted_by_the_domains_of_now_and_then():
    now, then = table(t00_q1="abcd", t00_q2="efg", t01_q1="xyz", t09_q1="h"), table(t05_q1="bcdaefg", t07_q1="hij")
    shared, lost = overlap(now, then, ["t00.q1", "t00.q2", "t01.q1"], ["t05.q1", "t07.q1"])
    assert shared.tolist() == [[4, 0, 0], [3, 0, 0], [0, 0, 3]]
    assert lost.tolist() == [0, 3]  # h is in a domain without tokens now; i and j are nowhere


def test_tasks_are_the_same_by_items_and_held_out_ones_by_whole_domains():
    before = [{"name": "quiz", "kind": "eval", "items": 20, "bytes": 90}, {"name": "maths", "kind": "eval", "items": 20, "bytes": 90},
              *({"name": f"heldout/{name}", "kind": "heldout", "items": 4, "bytes": 50} for name in ("t05.q1", "t07.q1"))]
    now = [{"name": "quiz", "kind": "eval", "items": 20, "bytes": 90}, {"name": "maths", "kind": "eval", "items": 21, "bytes": 95},
           *({"name": f"heldout/{name}", "kind": "heldout", "items": 4, "bytes": 50} for name in ("t00.q1", "t00.q2", "t05.q1", "t08.q1"))]
    part_of = {"t00.q1": "t05.q1", "t00.q2": "t05.q1", "t05.q1": "t07.q1"}  # the name t05.q1 is another domain's now
    assert same_tasks(before, now, part_of) == {"quiz": "quiz", "heldout/t05.q1": "heldout/t07.q1"}
