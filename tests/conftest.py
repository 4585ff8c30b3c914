"""Fixtures that many tests share."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings

# Compiling a kernel takes longer than any deadline; in CI the same examples are drawn every time.
settings.register_profile("cuvee", deadline=None, derandomize=bool(os.environ.get("CI")))
settings.load_profile("cuvee")

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of larger cases and data that are kept outside this repository; the test skips where there is none."""
    folder = Path(os.environ.get("CUVEE_SHARED", ROOT.parent / "shared"))
    if not folder.is_dir():
        pytest.skip(f"needs the shared folder ({folder}); set CUVEE_SHARED to its path")
    return folder


@pytest.fixture(scope="session")
def made(tmp_path_factory):
    """tests.steps.swarms.Made: a small token store, its work folder and recipe. A test may add to the folder and changes nothing."""
    from tests.steps import swarms

    return swarms.make(tmp_path_factory.mktemp("swarms"))
