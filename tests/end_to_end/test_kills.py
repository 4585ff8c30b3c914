"""Killed at any moment, a run goes on where it stopped and leaves the bytes of an undisturbed one."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

from tests.end_to_end import small

pytestmark = pytest.mark.slow
SEED = 20260401
FEW = [("worker", 0), ("driver", 0), ("driver", 1)]
ALL = [(what, number) for what in ("worker", "driver") for number in range(10)]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """A finished run: its folder and its files."""
    folder = tmp_path_factory.mktemp("undisturbed")
    small.finish(small.write_recipe(folder), "--workers", "2")
    return folder, small.files(folder / "work")


def disturb(undisturbed, what: str, number: int, tmp_path) -> None:
    folder, expected = undisturbed
    rng = np.random.default_rng([SEED, what == "driver", number])
    recipe = small.write_recipe(folder, f"{what}{number}.yaml", str(tmp_path / "work"))
    begun = int(rng.integers(1, small.steps(folder / "work")))
    for attempt in range(5):  # a kill that came after the end is no kill: try a step earlier
        shutil.rmtree(tmp_path / "work", ignore_errors=True)
        process = small.start(recipe, "--workers", "2")
        landed = small.kill(process, what, tmp_path / "work", max(1, begun - attempt), rng.uniform(0, 0.3))
        left = not (tmp_path / "work" / "stream.json").exists()
        output = process.communicate()[0]
        if landed and left:
            break
    assert landed and left, "no kill landed while work was left"
    assert (process.returncode != 0) == (what == "driver"), output  # a dead worker is replaced; a dead driver is gone
    small.finish(recipe, "--workers", "2")
    assert small.files(tmp_path / "work") == expected


@pytest.mark.parametrize("what, number", FEW)
def test_a_killed_run_leaves_the_bytes_of_an_undisturbed_one(undisturbed, what, number, tmp_path):
    disturb(undisturbed, what, number, tmp_path)


@pytest.mark.torture
@pytest.mark.parametrize("what, number", ALL)
def test_the_full_campaign(undisturbed, what, number, tmp_path):
    disturb(undisturbed, what, number, tmp_path)
