"""Imports run one way; a module that reaches up or sideways fails here."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1] / "src" / "cuvee"
MAY_IMPORT = {
    "errors": set(),
    "kernels": {"errors"},
    "engine": {"errors"},
    "record": {"errors", "kernels"},
    "config": {"errors", "kernels"},
    "recipe": {"errors", "engine", "config"},
    "template": {"config"},
    "proxy": {"errors", "kernels", "config"},
    "steps": {"errors", "kernels", "engine", "record", "config", "proxy"},
    "readers": {"errors", "steps"},
    "report": {"errors", "kernels", "engine", "record", "config"},
    "standalone": {"errors", "kernels", "engine", "record", "config", "steps", "report"},
    "csv_files": {"errors", "engine", "config"},
    "tabular": {"errors", "kernels", "engine", "config", "csv_files", "steps"},
    "tabular_mix": {"errors", "kernels", "engine", "config", "csv_files", "steps", "tabular"},
    "summary": {"engine", "config", "steps"},
    "plan": {"errors", "kernels", "engine", "record", "config", "proxy", "steps"},
    "swarm_files": {"errors", "engine", "config", "csv_files", "steps"},
    "pipeline": {"errors", "kernels", "engine", "record", "config", "recipe", "steps", "report", "summary", "plan", "swarm_files"},
    "cli": {"errors", "engine", "config", "template", "pipeline", "standalone", "tabular", "tabular_mix"},
    "api": {"errors", "engine", "record", "config", "recipe", "steps"},
    "__init__": {"api"},
    "__main__": {"cli"},
}


def layer(module: str) -> str:
    return module.split(".")[1] if "." in module else "__init__"


def imports(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "cuvee":
            found |= {f"cuvee.{alias.name}" for alias in node.names} if node.module == "cuvee" else {node.module}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names if alias.name.split(".")[0] == "cuvee"}
    return {layer(module) for module in found}


@pytest.mark.parametrize("path", sorted(ROOT.rglob("*.py")), ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_run_one_way(path: Path) -> None:
    own = path.relative_to(ROOT).parts[0].removesuffix(".py")
    assert imports(path) - {own} <= MAY_IMPORT[own]
