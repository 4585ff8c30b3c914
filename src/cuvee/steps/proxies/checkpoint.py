"""Where a group of proxies stands, kept beside its step's files, so that a killed run goes on and does not start over.

The file is replaced whole and deleted when the group is done; what a kill leaves behind, the end of the step sweeps up.
"""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING, Any

import numpy as np

from cuvee.engine.store import exists, filesystem, join, read_bytes, write_bytes

if TYPE_CHECKING:
    from cuvee.proxy.train import Group, State

SECONDS = 300  # between two of them: what a kill costs at most


def url_of(folder: str, name: str) -> str:
    return join(folder, f".{name}.checkpoint.tmp")


def save(url: str, state: State, notes: Any) -> None:
    """notes: what else is known by now, as JSON values."""
    import jax

    leaves = {str(place): np.asarray(leaf) for place, leaf in enumerate(jax.tree.leaves((state.params, state.moments)))}
    buffer = io.BytesIO()
    np.savez(buffer, step=state.step, losses=np.array(jax.device_get(state.losses), np.float32), notes=json.dumps(notes), **leaves)
    write_bytes(url, buffer.getvalue())


def resume(url: str, group: Group) -> tuple[State, Any]:
    """The state that was kept, and its notes; an untrained group and None where none was."""
    import jax

    state = group.begin()
    if not exists(url):
        return state, None
    form = jax.tree.structure((state.params, state.moments))
    with np.load(io.BytesIO(read_bytes(url))) as kept:
        params, moments = jax.tree.unflatten(form, [kept[str(place)] for place in range(form.num_leaves)])
        found = type(state)(int(kept["step"]), params, moments, list(kept["losses"]))
        return group.put(found), json.loads(str(kept["notes"]))


def remove(url: str) -> None:
    fs, path = filesystem(url)
    if fs.exists(path):
        fs.rm(path)
