from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.commands import call, cuvee

VERBS = ("init", "check", "plan", "run", "status", "report", "export", "dedup", "decontaminate", "fit", "predict", "mix")


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_says_what_it_does(verb):
    done = cuvee(verb, "--help")
    assert done.code == 0 and done.out.startswith(f"Usage: cuvee {verb} ") and done.out.count("\n") > 5


def test_help_imports_nothing_heavy():
    code = "import sys; from cuvee import cli; sys.argv = ['cuvee', '--help']\ntry: cli.main()\nexcept SystemExit: pass\n"
    code += "print(sorted({name.split('.')[0] for name in sys.modules} & {'numpy', 'pyarrow', 'numba', 'jax', 'pydantic', 'yaml', 'fsspec'}))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.strip().endswith("[]") and "decontaminate" in out


@pytest.mark.parametrize("arguments, code, said", [
    (["nothing"], 2, "No such command"), (["dedup", "a.jsonl"], 2, "-o"), (["dedup", "-o", "x"], 2, "FILES"), (["decontaminate", "a.jsonl", "-o", "x"], 2, "--evals"),
    (["dedup", "a.jsonl", "-o", "x", "--threshold", "much"], 2, "'--threshold'"), (["dedup", "a.jsonl", "-o", "x", "--no-such"], 2, "--no-such"),
    (["run", "missing.yaml"], 2, "missing.yaml"), (["check", "missing.yaml"], 2, "missing.yaml")])
def test_a_wrong_call_is_exit_2_and_says_why(arguments, code, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = cuvee(*arguments)
    assert done.code == code and said in done.err and "Traceback" not in done.err and not (tmp_path / "x").exists()


def test_init_writes_a_recipe_once_and_prints_every_key(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert cuvee("init").code == 0 and "\nsources:" in Path("recipe.yaml").read_text()
    again = cuvee("init")
    assert again.code == 2 and "exists already" in again.err
    assert "max_shingles" in cuvee("init", "--schema").out


def test_a_summary_line_names_what_went(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in ("ONE, two three!", "ONE, two three!", "one two three")) + "broken\n")
    done = call("dedup", [path], tmp_path / "out")
    assert done.out == f"3 rows, 1 kept (1 exact, 1 normalised); 1 quarantined; {tmp_path}/out\n"


def test_the_module_and_the_script_are_the_same_program(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "x"}\n')
    for number, command in enumerate(([sys.executable, "-m", "cuvee"], [os.path.join(os.path.dirname(sys.executable), "cuvee")])):
        done = subprocess.run([*command, "dedup", str(path), "-o", str(tmp_path / str(number)), "--workers", "1"], capture_output=True, text=True)
        assert done.returncode == 0 and done.stdout.startswith("1 rows, 1 kept (none removed)")
    assert subprocess.run([sys.executable, "-m", "cuvee", "dedup", str(tmp_path / "b.jsonl"), "-o", str(tmp_path / "c")], capture_output=True).returncode == 2
