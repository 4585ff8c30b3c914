"""Duplicates and eval items by exhaustive comparison: a slow, independent reference for small corpora.

Plain Python on the rules of docs/design.md, section 5; imports nothing of the package. Run it as
`python tests/end_to_end/brute_force.py examples/corpus --evals examples/evals/constitution.jsonl`.
Exact: same text. Normalised: same shingle tokens (so exact ones too). Near: Jaccard of 5-gram sets >= threshold, verified on the full
sets. Pairs that share no shingle held by `MOST` documents or fewer are not looked at. The boilerplate rule of
decontamination is not applied: an item is found by any one overlap.
"""

import argparse
import gzip
import json
import unicodedata
from collections import defaultdict
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pyarrow.parquet as pq
import xxhash
import zstandard

MOST = 200  # a shingle in more documents than this proposes no pair
UNSPACED = [(0x0E00, 0x0EFF), (0x1000, 0x109F), (0x1780, 0x17FF), (0x3005, 0x3007), (0x3040, 0x30FF), (0x31F0, 0x31FF),
            (0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xF900, 0xFAFF), (0xFF66, 0xFF9F), (0x20000, 0x323AF)]
IGNORED = {0x00AD, 0x200C, 0x200D, *range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0)}  # inside a word


class Document(NamedTuple):
    file: str
    row: int
    text: str


def read(path: Path, fields: list[str]) -> list[Document]:
    """Documents of a .parquet, .jsonl, .jsonl.gz, .jsonl.zst or .txt file; the text is the first of `fields` that a row has."""
    if path.suffix == ".txt":
        return [Document(path.name, 0, path.read_bytes().decode("utf-8"))]
    if path.suffix == ".parquet":
        rows = enumerate(pq.read_table(path).to_pylist())
    else:
        rows = ((i, json.loads(line)) for i, line in enumerate(_bytes(path).split(b"\n")) if line.strip())
    return [Document(path.name, i, next(row[f] for f in fields if f in row)) for i, row in rows]


def _bytes(path: Path) -> bytes:
    data = path.read_bytes()
    if path.suffix == ".gz":
        return gzip.decompress(data)
    return zstandard.ZstdDecompressor().decompressobj().decompress(data) if path.suffix == ".zst" else data


@cache
def category(char: str) -> str:
    return unicodedata.category(char)[0]


@cache
def fold(char: str) -> str:
    for folded in (char.casefold(), char.lower()):
        if len(folded) == 1:
            return folded
    return char


@cache
def unspaced(char: str) -> bool:
    return any(low <= ord(char) <= high for low, high in UNSPACED) and category(char) in "LMN"


def joins(before: str, after: str) -> bool:
    """Whether an apostrophe between these two characters is part of a word."""
    return category(before) == "L" and after != "" and category(after) == "L" and not unspaced(after)


def tokens(text: str, symbols: bool) -> list[str]:
    """Words of the NFC of `text`; with `symbols`, each character of category S is a token too."""
    text = unicodedata.normalize("NFC", text)
    found, word = [], ""
    for i, char in enumerate(text):
        kind = category(char)
        if unspaced(char):
            found += [word, fold(char)]
            word = ""
        elif kind in "LN" or (kind == "M" and word and ord(char) not in IGNORED):
            word += fold(char)
        elif char in "'’" and word and joins(text[i - 1], text[i + 1 : i + 2]):
            word += "'"
        elif not (word and ord(char) in IGNORED):
            found += [word, char if symbols and kind == "S" else ""]
            word = ""
    return [token for token in [*found, word] if token]


def shingles(toks: list[str]) -> set[tuple[str, ...]]:
    """5-grams; of fewer tokens one shingle of them all."""
    return {tuple(toks[i : i + 5]) for i in range(max(1, len(toks) - 4))} if toks else set()


def groups(keys: list) -> list[list[int]]:
    """Positions that hold the same key, for keys that occur more than once; None is no key."""
    places = defaultdict(list)
    for i, key in enumerate(keys):
        if key is not None:
            places[key].append(i)
    return [rows for rows in places.values() if len(rows) > 1]


def near_pairs(sets: list[set], threshold: float) -> list[tuple[int, int, float]]:
    """(i, j, Jaccard) for i < j of all pairs at or over `threshold`, by an inverted index."""
    index = defaultdict(list)
    for i, shingled in enumerate(sets):
        for shingle in shingled:
            index[shingle].append(i)
    pairs = []
    for i, shingled in enumerate(sets):
        shared = defaultdict(int)
        for shingle in shingled:
            if len(index[shingle]) <= MOST:
                for j in index[shingle]:
                    shared[j] += j > i
        for j in sorted(j for j, count in shared.items() if count):
            common = len(shingled & sets[j])
            if common >= threshold * (len(shingled) + len(sets[j]) - common):
                pairs.append((i, j, common / (len(shingled) + len(sets[j]) - common)))
    return pairs


def duplicates(documents: list[Document], threshold: float) -> dict[str, list]:
    """Groups of equal texts, groups of equal tokens, and near pairs (i, j, Jaccard) of distinct tokens, by position."""
    toks = [tuple(tokens(d.text, symbols=True)) or None for d in documents]
    first = {t: i for i, t in reversed(list(enumerate(toks))) if t}
    kept = sorted(first.values())
    pairs = near_pairs([shingles(toks[i]) for i in kept], threshold)
    return {"exact": groups([d.text for d in documents]), "normalised": groups(toks),
            "near": [(kept[i], kept[j], similarity) for i, j, similarity in pairs]}


def dropped(documents: list[Document], found: dict[str, list]) -> dict[int, int]:
    """Position of each dropped document -> position of the kept one: all of one priority, file names in ties."""
    ids = [xxhash.xxh3_128_hexdigest(d.text.encode()) for d in documents]
    order = sorted(range(len(documents)), key=lambda i: (-len(documents[i].text.encode()), ids[i], *documents[i][:2]))
    rank = {i: at for at, i in enumerate(order)}
    leader = {i: i for i in order}
    group = {i: rows for rows in found["exact"] + found["normalised"] for i in rows}
    leader.update({i: min(rows, key=rank.get) for i, rows in group.items()})
    edges = defaultdict(set)
    for i, j, _ in found["near"]:
        edges[leader[i]].add(leader[j])
        edges[leader[j]].add(leader[i])
    keeper = {}
    for i in order:
        if leader[i] == i:
            keeper[i] = min((j for j in edges[i] if keeper.get(j) == j), key=rank.get, default=i)
    return {i: keeper[leader[i]] for i in order if keeper[leader[i]] != i}


def ngrams(toks: list[str]) -> set[tuple[str, ...]]:
    """From each token the shortest run of weight 26 (a word 2, an unspaced character 1): 13 words of plain text."""
    weights = [1 if len(t) == 1 and unspaced(t) else 2 for t in toks]
    found, end, weight = set(), 0, 0
    for start in range(len(toks)):
        while weight < 26 and end < len(toks):
            weight += weights[end]
            end += 1
        if weight < 26:
            break
        found.add(tuple(toks[start:end]))
        weight -= weights[start]
    return {gram for gram in found if telling(gram)}


def telling(gram: tuple[str, ...]) -> bool:
    return len(set(gram)) >= 6 and any(c.isalpha() for token in gram for c in token)


def leaves(value, key: str = "") -> list[str]:
    """String leaves of a record in file order, without ids, addresses and names of splits."""
    if key in ("id", "url", "source", "split", "subject") or key.endswith("_id"):
        return []
    if isinstance(value, dict):
        return [leaf for k, v in value.items() for leaf in leaves(v, k)]
    if isinstance(value, list):
        return [leaf for v in value for leaf in leaves(v)]
    return [value] if isinstance(value, str) else []


def features(record: dict) -> set[tuple[str, ...]]:
    """13-grams of each leaf and of all leaves joined; of a record of weight 16 to 25 the whole of it."""
    strings = leaves(record)
    whole = tokens("\n".join(strings), symbols=False)
    weight = sum(1 if len(t) == 1 and unspaced(t) else 2 for t in whole)
    if 16 <= weight < 26:
        return {tuple(whole)} if telling(tuple(whole)) else set()
    return set().union(ngrams(whole), *(ngrams(tokens(s, symbols=False)) for s in strings))


def contaminated(documents: list[Document], evals: list[Path]) -> dict[str, list[int]]:
    """`file:row` of each eval item that occurs -> positions of the documents that hold it."""
    items = defaultdict(set)
    for path in evals:
        for row, line in enumerate(_bytes(path).split(b"\n")):
            for gram in features(json.loads(line)) if line.strip() else ():
                items[gram].add((path.name, row))
    lengths = sorted({len(gram) for gram in items})
    found = defaultdict(set)
    for i, document in enumerate(documents):
        words = tokens(document.text, symbols=False)
        for start in range(len(words)):
            for length in lengths:
                for item in items.get(tuple(words[start : start + length]), ()):
                    found[item].add(i)
    return {f"{name}:{row}": sorted(rows) for (name, row), rows in sorted(found.items())}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("paths", nargs="+", type=Path, help="files, or folders that are searched for files")
    options.add_argument("--evals", action="append", default=[], type=Path)
    options.add_argument("--text", default="text,body,content", help="names of the text field, the first found counts")
    options.add_argument("--threshold", type=float, default=0.75)
    options.add_argument("-o", type=Path, help="JSON file for the full result")
    args = options.parse_args()
    files = [f for p in args.paths for f in (sorted(p.rglob("*")) if p.is_dir() else [p])]
    files = [f for f in files if f.name.endswith((".txt", ".parquet", ".jsonl", ".gz", ".zst")) and "LICENSES" not in f.parts]
    documents = [d for f in files for d in read(f, args.text.split(","))]
    found = duplicates(documents, args.threshold)
    place = [f"{d.file}:{d.row}" for d in documents]
    result = {"documents": len(documents),
              "exact": [[place[i] for i in rows] for rows in found["exact"]],
              "normalised": [[place[i] for i in rows] for rows in found["normalised"]],
              "near": [[place[i], place[j], round(s, 4)] for i, j, s in found["near"]],
              "dropped": {place[i]: place[j] for i, j in dropped(documents, found).items()},
              "contaminated": {item: [place[i] for i in rows] for item, rows in contaminated(documents, args.evals).items()}}
    for name, value in result.items():
        print(f"{name}: {value if isinstance(value, int) else len(value)}")
    if args.o:
        args.o.write_text(json.dumps(result, indent=1, ensure_ascii=False), encoding="utf-8")


if __name__ == "__main__":
    main()
