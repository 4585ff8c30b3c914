"""Documents with evaluation items planted in them, and documents that only look so: what is true is known by construction.

`build` gives documents by family and the evaluation files. A *single* item stands in one document, a *mirrored* one in
`Size.mirrors` documents of every source, as those of popular benchmarks do on the web. Items are real ones and made
ones (words drawn from the carriers), each in one family only. Imports nothing of the package.
"""

from __future__ import annotations

import itertools
import random
import re
import textwrap
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from slow_words import DISTINCT, GRAM, SHORTEST, Runs, checkable, leaves, windows, words

QUESTION, ANSWER = ("question", "prompt", "context", "input"), ("answer", "continuation", "output")
SENTENCE = re.compile(r"(?<=[.\n])\s+")
QUOTES = (
    "Four score and seven years ago our fathers brought forth on this continent, a new nation, conceived in Liberty, and dedicated to the proposition that all men are created equal.",
    "It was the best of times, it was the worst of times, it was the age of wisdom, it was the age of foolishness, it was the epoch of belief, it was the epoch of incredulity",
    "When in the Course of human events, it becomes necessary for one people to dissolve the political bands which have connected them with another",
    "It is a truth universally acknowledged, that a single man in possession of a good fortune, must be in want of a wife.",
    "Whether 'tis nobler in the mind to suffer the slings and arrows of outrageous fortune, or to take arms against a sea of troubles",
    "For God so loved the world, that he gave his only begotten Son, that whosoever believeth in him should not perish, but have everlasting life.",
    "We hold these truths to be self-evident, that all men are created equal, that they are endowed by their Creator with certain unalienable Rights",
    "Call me Ishmael. Some years ago - never mind how long precisely - having little or no money in my purse, and nothing particular to interest me on shore")
NOTICES = (
    "Permission is hereby granted, free of charge, to any person obtaining a copy of this software and associated documentation files",
    "Redistribution and use in source and binary forms, with or without modification, are permitted provided that the following conditions are met",
    "This program is free software: you can redistribute it and/or modify it under the terms of the GNU General Public License as published by the Free Software Foundation",
    "You may obtain a copy of the License at http://www.apache.org/licenses/LICENSE-2.0 unless required by applicable law or agreed to in writing")
TEMPLATES = (
    "Read the following passage carefully and then choose the one option that best answers the question which is asked below it.",
    "Answer the following multiple choice question by giving the letter of the correct option, and explain step by step how you arrived at it.")
INSTRUCTIONS = (
    "Below is an instruction that describes a task, paired with an input that provides further context. Write a response that completes the request.",
    "You are a helpful and honest assistant. Always answer the question as truthfully as you can, and say so if you do not know the answer.")


@dataclass(frozen=True)
class Size:
    single: int = 60    # items of each single family
    mirrored: int = 12  # items of each mirrored family
    mirrors: int = 60   # documents that hold each of these, and each boilerplate text


class Item(NamedTuple):
    name: str  # FILE:row, as the tables name it
    record: Mapping[str, Any]

    @property
    def text(self) -> str:
        return "\n".join(leaves(self.record))

    @property
    def question(self) -> str:
        return next(self.record[key] for key in QUESTION if key in self.record)

    @property
    def answer(self) -> str:
        return next(self.record[key] for key in ANSWER if key in self.record)


class Document(NamedTuple):
    family: str
    text: str
    items: frozenset[str]  # planted in it; empty where it should be kept


@dataclass
class Planted:
    documents: list[Document] = field(default_factory=list)
    evals: dict[str, list[Mapping[str, Any]]] = field(default_factory=dict)  # file name -> records

    def add(self, file: str, record: Mapping[str, Any]) -> Item:
        rows = self.evals.setdefault(file, [])
        rows.append(record)
        return Item(f"{file}:{len(rows) - 1}", record)


def clean(texts: Sequence[str], planted: Planted) -> list[str]:
    """The texts that hold nothing of any record."""
    known: dict[int, set[tuple[str, ...]]] = {}
    for runs in (Runs.of(record) for records in planted.evals.values() for record in records):
        known.setdefault(runs.length, set()).update(runs.known)
    every = [Runs(length, grams) for length, grams in sorted(known.items())]
    return [text for text in texts if not any(map(Runs.occur, every, itertools.repeat(words(text))))]


class Writer:
    """Made text: words of the carriers, drawn by how often they occur. 13 of them in one order never stand anywhere else."""

    def __init__(self, carriers: Sequence[str], rng: random.Random):
        counts = Counter(word for text in rng.sample(carriers, min(len(carriers), 2000)) for word in words(text) if word.isalpha() and word.isascii())
        self.words, self.weights = zip(*counts.most_common(5000))
        self.rng = rng

    def prose(self, low: int, high: int) -> str:
        drawn = self.rng.choices(self.words, self.weights, k=self.rng.randint(low, high))
        while len(set(drawn[:SHORTEST])) < DISTINCT:
            self.rng.shuffle(drawn)
            drawn[self.rng.randrange(SHORTEST)] = self.rng.choice(self.words)
        ends = [self.rng.choices(("", ",", "."), (8, 1, 1))[0] for _ in drawn[1:]] + ["."]
        text = " ".join(word + end for word, end in zip(drawn, ends))
        return text[0].upper() + text[1:]

    def ideographs(self, low: int, high: int) -> str:
        return "".join(chr(self.rng.randint(0x4E00, 0x5FFF)) for _ in range(self.rng.randint(low, high))) + "。"


def embed(piece: str, carrier: str, rng: random.Random) -> str:
    """In the middle of a sentence of the carrier, on one line."""
    found = carrier.split(" ")
    at = rng.randint(1, max(1, len(found) - 1))
    return " ".join([*found[:at], " ".join(piece.split()), *found[at:]])


def paragraph(piece: str, carrier: str, rng: random.Random) -> str:
    parts = SENTENCE.split(carrier)
    at = rng.randint(0, len(parts))
    return "\n\n".join(part for part in (" ".join(parts[:at]), piece, " ".join(parts[at:])) if part)


def recase(text: str, rng: random.Random) -> str:
    """Other case, and other punctuation in the place of what is there."""
    change = rng.choice((str.upper, str.lower, str.title, str.swapcase))
    cased = "".join(new if len(new := change(char)) == 1 and new.lower() == char.lower() else char for char in text)
    marks = {",": " –", ".": " …", ":": " —", '"': "”", "(": "[", ")": "]", "'": "’", "-": "\u2011", ";": " *", "?": "!"}
    return "".join(marks.get(char, char) for char in cased)


def labelled(item: Item) -> str:
    """As a forum or an answer key shows it: something stands between any two of its strings."""
    choices = [f"{letter}. {choice}" for letter, choice in zip("ABCDEFGH", item.record.get("choices", ()))]
    return "\n".join([f"Question 7: {item.question}", *choices, f"The correct answer is: {item.answer}"])


def excerpt(item: Item, rng: random.Random) -> str:
    """13 words on end that are a feature."""
    found = item.text.split()
    starts = [start for start in range(len(found)) if checkable(" ".join(found[start : start + GRAM]))]
    return " ".join(found[rng.choice(starts) :][:GRAM])


def edited(text: str, writer: Writer) -> str:
    """One word in twenty is another."""
    return " ".join(writer.rng.choice(writer.words) + "x" if writer.rng.random() < 0.05 else word for word in text.split())


Form = Callable[[Item, str, random.Random], str]
FORMS: dict[str, Form] = {  # every text holds 13 or more words of the item on end
    "alone": lambda item, carrier, rng: item.text,
    "own paragraph": lambda item, carrier, rng: paragraph(item.text, carrier, rng),
    "short lines": lambda item, carrier, rng: paragraph("\n".join(textwrap.wrap(item.text, rng.randint(20, 60), break_on_hyphens=False)), carrier, rng),
    "inline": lambda item, carrier, rng: embed(item.text, carrier, rng),
    "case, punctuation": lambda item, carrier, rng: embed(recase(item.text, rng), carrier, rng),
    "decomposed": lambda item, carrier, rng: embed(unicodedata.normalize("NFD", item.text), carrier, rng),
    "apart": lambda item, carrier, rng: f"{item.question}\n\n{carrier}\n\n{item.answer}",
    "labelled": lambda item, carrier, rng: paragraph(labelled(item), carrier, rng),
    "question only": lambda item, carrier, rng: embed(item.question, carrier, rng),
    "answer only": lambda item, carrier, rng: embed(item.answer, carrier, rng),
    "13 words": lambda item, carrier, rng: embed(excerpt(item, rng), carrier, rng)}
NEEDS: dict[str, Callable[[Item], bool]] = {  # what must be checkable by itself
    "apart": lambda item: checkable(item.question) or checkable(item.answer),
    "labelled": lambda item: checkable(item.question), "question only": lambda item: checkable(item.question),
    "answer only": lambda item: checkable(item.answer),
    "13 words": lambda item: any(checkable(" ".join(run)) for run in windows(item.text.split(), GRAM))}
MIRRORED = ("own paragraph", "inline", "case, punctuation", "apart", "labelled", "question only", "answer only", "either half", "any form")
EASY = ("untouched", "12 words", "shuffled")
BOILERPLATE: dict[str, tuple[Sequence[str], int, Callable[[str, Writer], Mapping[str, str]]]] = {  # texts, items of each, an item
    "quote": (QUOTES[:4], 2, lambda text, writer: {
        "question": f"{writer.prose(8, 20)} \u201c{text}\u201d {writer.prose(20, 40)}", "answer": writer.prose(8, 20)}),
    "notice": (NOTICES, 3, lambda text, writer: {"prompt": f"# {text}\n{writer.prose(30, 80)}", "continuation": writer.prose(20, 50)}),
    "template": (TEMPLATES, 20, lambda text, writer: {"question": f"{text}\n{writer.prose(20, 60)}", "answer": writer.prose(8, 20)}),
    "instruction": (INSTRUCTIONS, 20, lambda text, writer: {"instruction": text, "input": writer.prose(20, 40), "output": writer.prose(20, 40)}),
    "quote as a field": (QUOTES[4:6], 1, lambda text, writer: {"passage": text, "question": writer.prose(15, 30), "answer": writer.prose(20, 40)}),
    "quote in 20 texts": (QUOTES[6:], 2, lambda text, writer: {"question": f"{writer.prose(8, 20)} {text} {writer.prose(20, 40)}", "answer": "No."})}


FAMILIES = (*FORMS, "short record", "ideographs", *(f"{name}, mirrored" for name in MIRRORED), *EASY, *BOILERPLATE)


class Plan(NamedTuple):
    """What will be planted: an item and the documents that shall hold it."""

    family: str
    item: Item
    forms: Sequence[str]


def build(carriers: Sequence[str], real: Mapping[str, Sequence[Mapping[str, Any]]], size: Size, seed: int = 0) -> Planted:
    """real: evaluation files that are there, name -> records. Carriers that hold words of a record by nature are left out."""
    rng = random.Random(seed)
    writer, planted = Writer(carriers, rng), Planted()
    pool = [planted.add(file, record) for file, records in sorted(real.items()) for record in records]
    rng.shuffle(pool)
    plans = [*_singles(planted, pool, size, writer), *_mirrored(planted, pool, size, writer)]
    shown = [(family, text, 20 if "20" in family else size.mirrors) for family, (texts, _, _) in BOILERPLATE.items() for text in texts]
    for family, (texts, count, make) in BOILERPLATE.items():
        for text in texts:
            for _ in range(count):
                planted.add(f"{family.split()[0]}.jsonl", make(text, writer))
    decoys = [_made(planted, writer, number) for number in range(2 * size.single)]
    free = clean(carriers, planted)
    rng.shuffle(free)
    place = itertools.cycle(free)
    for plan in plans:
        planted.documents += [Document(plan.family, FORMS[form](plan.item, next(place), rng), frozenset([plan.item.name])) for form in plan.forms]
    for family, text, count in shown:
        planted.documents += [Document(family, embed(text, next(place), rng), frozenset()) for _ in range(count)]
    for number, item in enumerate(decoys):
        found = item.text.split()
        family, piece = ("12 words", found[: GRAM - 1]) if number % 2 else ("shuffled", rng.sample(found, len(found)))
        texts = (embed(" ".join(piece), carrier, rng) for carrier in place)
        text = next(text for text in texts if not Runs.of(item.record).occur(words(text)))  # its 13th word may follow by chance
        planted.documents.append(Document(family, text, frozenset()))
    planted.documents += [Document("untouched", text, frozenset()) for text in free]
    rng.shuffle(planted.documents)
    return planted


def _made(planted: Planted, writer: Writer, number: int) -> Item:
    """A made item of one of three kinds: question and answer, question with short choices, question with a long solution."""
    if number % 3 == 0:
        return planted.add("qa.jsonl", {"id": number, "question": writer.prose(16, 40), "answer": writer.prose(16, 40)})
    if number % 3 == 1:
        return planted.add("solution.jsonl", {"question": writer.prose(20, 40), "answer": writer.prose(80, 150)})
    choices = [writer.prose(8, 8) for _ in range(4)]
    return planted.add("choice.jsonl", {"question": writer.prose(14, 24), "choices": choices, "answer": choices[number % 4]})


def _take(planted: Planted, pool: list[Item], writer: Writer, needs: Callable[[Item], bool], count: int) -> list[Item]:
    """Items that fit, a third of them real ones while there are any; none is taken twice."""
    found = [item for item in pool if needs(item)][: count // 3]
    for item in found:
        pool.remove(item)
    number = itertools.count()
    while len(found) < count:
        item = _made(planted, writer, next(number))
        found += [item] if needs(item) else []
    return found


def _singles(planted: Planted, pool: list[Item], size: Size, writer: Writer) -> Iterator[Plan]:
    for form in FORMS:
        for item in _take(planted, pool, writer, NEEDS.get(form, lambda item: checkable(item.text)), size.single):
            yield Plan(form, item, [form])
    for _ in range(size.single):
        yield Plan("short record", planted.add("short.jsonl", {"question": writer.prose(SHORTEST, GRAM - 1)}), ["inline"])
        yield Plan("ideographs", planted.add("ideographs.jsonl", {"question": writer.ideographs(30, 60), "answer": writer.ideographs(3, 9)}), ["inline"])


def _mirrored(planted: Planted, pool: list[Item], size: Size, writer: Writer) -> Iterator[Plan]:
    groups = {"either half": ("question only", "answer only"), "any form": ("own paragraph", "inline", "case, punctuation", "labelled", "question only")}
    for family in MIRRORED:
        forms = groups.get(family, (family,))
        for item in _take(planted, pool, writer, lambda item: all(NEEDS.get(form, lambda _: True)(item) for form in forms), size.mirrored):  # noqa: B023
            yield Plan(f"{family}, mirrored", item, [forms[number % len(forms)] for number in range(size.mirrors)])
