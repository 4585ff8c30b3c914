"""From one recipe file, many raw text datasets become a pre-training mixture that can be trusted.

`cuvee.load("recipe.yaml")` gives what a run has left; `cuvee.open_stream(WORK)` only the tokens in training order.
"""

from typing import Any

__all__ = ["load", "open_stream"]


def __getattr__(name: str) -> Any:
    """The interface is imported when it is asked for: `cuvee --help` must not wait for it."""
    if name == "load":
        from cuvee.api import load

        return load
    if name == "open_stream":
        from cuvee.api import Stream

        return Stream.open
    raise AttributeError(f"module 'cuvee' has no attribute '{name}'")
