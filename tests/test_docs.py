"""Every snippet of the how-tos runs: bash and python blocks in order, in a folder with a finished small recipe."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from cuvee.recipe import load
from tests.conftest import ROOT
from tests.end_to_end import small

pytestmark = pytest.mark.slow
PAGES = sorted(path.name for path in (ROOT / "docs").glob("*.md") if re.search(r"^```(bash|python)$", path.read_text(), re.MULTILINE))


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("docs")
    small.finish(small.write_recipe(folder), "--workers", "2")
    return folder


def snippets(page: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", (ROOT / "docs" / page).read_text(), re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", PAGES)
def test_the_snippets_of_a_page_run(page, finished, tmp_path):
    if "ray" in page:
        pytest.importorskip("ray")
    shutil.copytree(finished, tmp_path, dirs_exist_ok=True)
    recipe = yaml.safe_load((tmp_path / "recipe.yaml").read_text()) | {"work": "work"}
    (tmp_path / "recipe.yaml").write_text(yaml.safe_dump(recipe))
    environment = os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    lacks = False
    for script in snippets(page, "bash"):
        lacks |= bool(re.search(r"^import torch$", script, re.MULTILINE)) and importlib.util.find_spec("torch") is None
        if lacks:
            break  # what follows needs what this leaves
        done = subprocess.run(["bash", "-euo", "pipefail", "-c", script], cwd=tmp_path, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, f"{script}\n{done.stdout}{done.stderr}"
    with contextlib.chdir(tmp_path):
        names: dict[str, object] = {"__name__": page}
        for script in snippets(page, "python"):
            exec(compile(script, page, "exec"), names)
    if lacks:
        pytest.skip(f"{page}: the snippets from the first that needs torch on were left out")


def test_yaml_snippets_hold_known_keys_only(tmp_path):
    sections = {}
    for text in snippets("recipe.md", "yaml"):
        sections |= yaml.safe_load(text)
    (tmp_path / "r.yaml").write_text(yaml.safe_dump({"work": "w", **sections}))
    assert len(load(str(tmp_path / "r.yaml")).sources) == 3


@pytest.mark.parametrize("page", ["README.md", *sorted(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md"))])
def test_links_to_files_lead_somewhere(page):
    targets = re.findall(r"\]\(([^)#:]+)[^)]*\)", (ROOT / page).read_text())
    assert [target for target in targets if not (ROOT / page).parent.joinpath(target).exists()] == []
