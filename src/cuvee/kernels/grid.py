"""Domains as topic x quality band: which topic and which band each of them is."""
import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

_NAME = re.compile(r"(t\d+)\.q(\d+)")


class Grid(NamedTuple):
    """topics, bands: (domains,) numbers from 0, int64; bands in order of quality, worst first. Not all pairs need be there."""

    topics: np.ndarray
    bands: np.ndarray


def grid_of(topics: Sequence, bands: Sequence) -> Grid | None:
    """Each domain's topic and its band; bands in order. None where topics and bands are not fewer than the domains, or only one of either."""
    rows, columns = (np.unique(values, return_inverse=True)[1].reshape(-1).astype(np.int64) for values in (np.array(topics), np.array(bands)))
    kinds = len(np.unique(rows)), len(np.unique(columns))
    return Grid(rows, columns) if min(kinds) > 1 and sum(kinds) <= len(rows) else None


def topic_and_band(name: str) -> tuple[str, int] | None:
    """`t07.q5` -> t07, 5; None for a name of another form."""
    found = _NAME.fullmatch(name)
    return None if found is None else (found[1], int(found[2]))


def named_grid(names: Sequence[str]) -> Grid | None:
    """The grid of domains that are all named like `t07.q5`; None where one is not."""
    found = [topic_and_band(name) for name in names]
    if not all(found):
        return None
    return grid_of(*zip(*((int(topic[1:]), band) for topic, band in found)))
