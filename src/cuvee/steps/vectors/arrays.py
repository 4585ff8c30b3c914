"""Single arrays as .npy files of a step's folder."""

from __future__ import annotations

import io

import numpy as np

from cuvee.engine.store import Output, filesystem, is_local, read_bytes


def save(out: Output, name: str, array: np.ndarray) -> None:
    with out.create(name) as file:
        np.lib.format.write_array(file, np.ascontiguousarray(array), allow_pickle=False)


def load(url: str) -> np.ndarray:
    """The array of a .npy file; memory-mapped, read-only, where it is local."""
    if is_local(url):
        return np.load(filesystem(url)[1], mmap_mode="r", allow_pickle=False)
    return np.load(io.BytesIO(read_bytes(url)), allow_pickle=False)
