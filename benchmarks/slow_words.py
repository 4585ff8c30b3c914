"""Words and runs of words in plain Python: what decontamination should find, by a way that shares nothing with it."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

GRAM, SHORTEST, DISTINCT = 13, 8, 6  # words of an n-gram and of the shortest record; distinct ones (docs/design.md, section 5)
WORD = re.compile(r"[\u3400-\u9fff]|(?:(?![\u3400-\u9fff])[^\W_])+(?:'[^\W\d_]+)*")


def leaves(record: Any) -> Iterator[str]:
    if isinstance(record, str):
        yield record
    elif isinstance(record, Mapping):
        for key, value in record.items():
            if not key.endswith("_id"):
                yield from leaves(value)
    elif isinstance(record, (list, tuple)):
        for value in record:
            yield from leaves(value)


def words(text: str) -> list[str]:
    return WORD.findall(unicodedata.normalize("NFC", text).lower().replace("’", "'"))


def checkable(text: str) -> bool:
    """Whether some 13 words of it are a feature."""
    found = words(text)
    runs = (found[start : start + GRAM] for start in range(len(found) - GRAM + 1))
    return any(len(set(run)) >= DISTINCT and any(word.isalpha() for word in run) for run in runs)


class Runs(NamedTuple):
    """Word n-grams of a record: 13 words, or all of a shorter one."""

    length: int
    known: set[tuple[str, ...]]

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> Runs:
        found = words("\n".join(leaves(record)))
        length = min(GRAM, max(SHORTEST, len(found)))
        return cls(length, set(windows(found, length)))

    def occur(self, found: list[str]) -> bool:
        return not self.known.isdisjoint(windows(found, self.length))


def windows(found: Sequence[str], length: int) -> Iterator[tuple[str, ...]]:
    return zip(*(found[start:] for start in range(length)))
