"""Corpora of near-duplicates whose Jaccard similarity is known: python benchmarks/near_duplicates.py [FOLDER] [--megabytes 8]

Documents of 2-10 kB are drawn sentence by sentence from the bundled corpus; half of them in groups, as variants of a
base at a similarity between .5 and 1. Writes `in/part-N.jsonl` and `truth.jsonl`: group, kind of noise, and the exact
Jaccard to the base. The same arguments give the same bytes.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import re
import tempfile
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow.parquet as pq
import zstandard
from exact_jaccard import WIDTH, jaccard, shingle_sets
from kernels_text import LETTERS, SCRIPTS

CORPUS = Path(__file__).parents[1] / "examples" / "corpus"
ENGLISH = {"moby_dick": "", "speeches": "text", "encyclopedia": "text", "office_en": "text", "handbook_en": "text", "python_manual": "body", "postgresql": "text"}
SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z\"“])|\n\s*\n")
FILES = 4
SHORTEST, LONGEST = 2_000, 10_000  # characters of a document
SINGLE, CHAIN = 0.6, 0.04  # shares of bases that stay alone, and that begin a chain: each a variant of the one before it
LINKS, LINK = 7, 0.88  # variants in a chain, and their similarity to the one before
CONFUSED = {"m": "rn", "l": "1", "o": "0", "e": "c", "h": "b", "i": "l", "s": "5", "a": "o", "t": "f", "n": "ri", "u": "v", "r": "i"}
MARKS = str.maketrans({".": " !", ",": " ", ";": ":", "'": "’", "(": " ", ")": " ", "*": " "})
UNBROKEN = ("thai", "han")


class Document(NamedTuple):
    text: str
    group: int
    kind: str  # of noise; "base" for what the group's others were made from
    base: int  # position of the document that it was made from


@cache
def pool() -> tuple[str, ...]:
    """Distinct sentences of the bundled corpus, in English."""
    found: dict[str, None] = {}
    for name, field in ENGLISH.items():
        for text in _texts(CORPUS / name, field):
            for sentence in SENTENCE_END.split(text):
                sentence = " ".join(sentence.split())
                if 40 <= len(sentence) <= 400:
                    found[sentence] = None
    return tuple(found)


def _texts(folder: Path, field: str) -> list[str]:
    if not field:
        return [path.read_text() for path in sorted(folder.iterdir())]
    path = next(folder.iterdir())
    if path.suffix == ".parquet":
        return pq.read_table(path, columns=[field])[field].to_pylist()
    data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else zstandard.ZstdDecompressor().stream_reader(path.open("rb")).read()
    return [json.loads(line)[field] for line in data.splitlines()]


def pieces(text: str) -> list[str]:
    """Words with the white space that follows them."""
    return re.findall(r"\S+\s*", text)


def base(rng: random.Random, length: int) -> str:
    """Sentences in paragraphs of three to six, about `length` characters."""
    parts, left = [], rng.randint(3, 6)
    while length > 0:
        sentence = rng.choice(pool())
        left -= 1
        parts.append(sentence + ("\n\n" if not left else " "))
        left = left or rng.randint(3, 6)
        length -= len(parts[-1])
    return "".join(parts).strip()


def _places(rng: random.Random, words: int, count: float) -> list[int]:
    """About `count` of the words, a shingle's width apart, so that no two changes share a shingle."""
    slots = words // WIDTH
    whole = int(count) + (rng.random() < count % 1)
    return [slot * WIDTH + WIDTH // 2 for slot in rng.sample(range(slots), min(slots, whole))]


def word_edits(rng: random.Random, words: list[str], similarity: float) -> str:
    """k of S shingle places changed: J = (S - 5k) / (S + 5k)"""
    words = words.copy()
    for place in _places(rng, len(words), len(words) * (1 - similarity) / (1 + similarity) / WIDTH):
        words[place] = rng.choice(rng.choice(pool()).split()) + " "
    return "".join(words)


def word_drops(rng: random.Random, words: list[str], similarity: float) -> str:
    """Each dropped word takes five shingles and brings four: J = (S - 5k) / (S + 4k)"""
    gone = set(_places(rng, len(words), len(words) * (1 - similarity) / (WIDTH + (WIDTH - 1) * similarity)))
    return "".join(word for place, word in enumerate(words) if place not in gone)


def ocr_noise(rng: random.Random, words: list[str], similarity: float) -> str:
    words = words.copy()
    for place in _places(rng, len(words), len(words) * (1 - similarity) / (1 + similarity) / WIDTH):
        wrong = [letter for letter in words[place] if letter in CONFUSED]
        letter = rng.choice(wrong) if wrong else words[place][0]
        words[place] = words[place].replace(letter, CONFUSED.get(letter, "x"), 1)
    return "".join(words)


def truncation(rng: random.Random, words: list[str], similarity: float) -> str:
    return "".join(words[: round(len(words) * similarity)])


def template(rng: random.Random, words: list[str], similarity: float) -> str:
    """The beginning and the end stay, the middle is another text: a share s stays, J = s / (2 - s)"""
    other = round(len(words) * (1 - 2 * similarity / (1 + similarity)))
    start = rng.randint(0, len(words) - other)
    filling = pieces(base(rng, 12 * other + 12))[:other]
    return "".join([*words[:start], *filling[:-1], *(word.strip() + " " for word in filling[-1:]), *words[start + other :]])


def shuffled_paragraphs(rng: random.Random, words: list[str], similarity: float) -> str:
    """Each cut breaks four shingles and makes four: J = (S - 4c) / (S + 4c)"""
    cuts = len(words) * (1 - similarity) / (1 + similarity) / (WIDTH - 1)
    bounds = sorted(rng.sample(range(1, len(words)), min(len(words) - 1, round(cuts))))
    parts = ["".join(words[start:end]).strip() for start, end in zip([0, *bounds], [*bounds, len(words)])]
    rng.shuffle(parts)
    return "\n\n".join(parts)


def case_and_punctuation(rng: random.Random, words: list[str], similarity: float) -> str:
    """No token changes by its case or marks; some words do, for any similarity under .9"""
    text = word_edits(rng, words, similarity) if similarity < 0.9 else "".join(words)
    return rng.choice([str.upper, str.lower, str.swapcase])(text).translate(MARKS)


NOISE: dict[str, Callable[[random.Random, list[str], float], str]] = {
    noise.__name__: noise for noise in (word_drops, word_edits, truncation, template, shuffled_paragraphs, ocr_noise, case_and_punctuation)}


def spell(text: str, script: str) -> str:
    """English letters spelled in another script; words shrink where a character is a syllable or a word."""
    if script in (*UNBROKEN, "hangul"):
        text = re.sub(r"\w+", lambda word: word[0][: (len(word[0]) + 2) // 3], text)
    text = text.lower().translate(str.maketrans(LETTERS, SCRIPTS[script]))
    return text.replace(" ", "") if script in UNBROKEN else text


def documents(size: int, seed: int, scripts: bool = False) -> list[Document]:
    """About `size` characters of documents in random order; scripts: half of the groups are spelled in another script."""
    rng, made, group = random.Random(seed), [], 0
    while size > 0:
        texts = _group(rng)
        if scripts and rng.random() < 0.5:
            script = rng.choice(list(SCRIPTS))
            texts = [(spell(text, script), kind, previous) for text, kind, previous in texts]
        made += [Document(text, group, kind, len(made) + previous) for text, kind, previous in texts]
        size -= sum(len(text) for text, _, _ in texts)
        group += 1
    order = rng.sample(range(len(made)), len(made))
    place = {old: new for new, old in enumerate(order)}
    return [made[old]._replace(base=place[made[old].base]) for old in order]


def _group(rng: random.Random) -> list[tuple[str, str, int]]:
    """(text, kind, position in the group of what it was made from)"""
    texts = [(base(rng, rng.randint(SHORTEST, LONGEST)), "base", 0)]
    luck = rng.random()
    if luck < CHAIN:
        for link in range(LINKS):
            texts.append((word_edits(rng, pieces(texts[-1][0]), LINK), "chain", link))
    elif luck > SINGLE + CHAIN:
        words = pieces(texts[0][0])
        while len(texts) < 2 or rng.random() < 0.5:
            kind = rng.choice(list(NOISE))
            texts.append((NOISE[kind](rng, words, rng.uniform(0.5, 1.0)), kind, 0))
    return texts


def write(folder: Path, made: Sequence[Document]) -> np.ndarray:
    """Write the corpus and its truth -> exact Jaccard of each document to its base, float64 (documents,)"""
    similarity = jaccard(shingle_sets([document.text for document in made]), np.arange(len(made)), np.array([document.base for document in made]))
    (folder / "in").mkdir(parents=True, exist_ok=True)
    per_file = -(-len(made) // FILES)
    for number in range(FILES):
        with open(folder / "in" / f"part-{number}.jsonl", "w") as file:
            for row in range(number * per_file, min((number + 1) * per_file, len(made))):
                file.write(json.dumps({"id": f"d{row}", "text": made[row].text}, ensure_ascii=False) + "\n")
    with open(folder / "truth.jsonl", "w") as file:
        for row, document in enumerate(made):
            file.write(json.dumps({"id": f"d{row}", "group": document.group, "kind": document.kind, "base": f"d{document.base}", "jaccard": similarity[row]}) + "\n")
    return similarity


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--megabytes", type=float, default=2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--scripts", action="store_true")
    arguments = parser.parse_args()
    made = documents(int(arguments.megabytes * 1e6), arguments.seed, arguments.scripts)
    with tempfile.TemporaryDirectory() as temporary:
        similarity = write(arguments.folder or Path(temporary), made)
    kinds = np.array([document.kind for document in made])
    print(f"{len(made):,} documents, {sum(len(document.text.encode()) for document in made) / 1e6:.1f} MB, {len({document.group for document in made}):,} groups")
    for kind in sorted(set(kinds) - {"base"}):
        low, middle, high = np.quantile(similarity[kinds == kind], [0.05, 0.5, 0.95])
        print(f"{kind:<22}{(kinds == kind).sum():>6}  Jaccard to the base: {low:.2f} {middle:.2f} {high:.2f} (5, 50, 95 %)")


if __name__ == "__main__":
    main()
