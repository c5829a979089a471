"""Who may import whom: the table of the design, enforced by reading every import."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[1] / "prefixscope"

BASE = {"errors", "records", "results", "user_cache"}
ALLOWED: dict[str, set[str]] = {
    "errors": set(),
    "user_cache": set(),
    "__main__": {"cli"},
    "records": {"errors"},
    "results": {"errors", "records"},
    "logs": BASE,
    "models": BASE,
    "index": BASE,
    "output": BASE,
    "report": BASE,
    "engines": BASE | {"index"},
    "breaks": BASE | {"index"},
    "reuse": BASE | {"engines", "index"},
    "capacity": BASE | {"engines", "index"},
    "routing": BASE | {"engines", "index", "capacity"},
    "ingest": BASE | {"logs", "engines", "models", "index", "breaks"},
    "replay": BASE | {"engines", "index", "reuse", "capacity", "ingest"},
    "scale": BASE | {"index", "ingest"},
    "exports": BASE | {"index", "reuse"},
    "compare": BASE,
    "query": BASE | {"index", "reuse"},
    "follow": BASE | {"index", "reuse", "ingest"},
    "api": BASE
    | {"logs", "models", "index", "engines", "breaks", "reuse", "capacity", "routing", "ingest", "replay", "scale"}
    | {"exports", "compare", "query", "follow"},
}
ALLOWED["cli"] = set(ALLOWED) | {"api", "report", "output"}


def room_of(path: Path) -> str:
    """The package or top-level module a file belongs to."""
    first = path.relative_to(PACKAGE).parts[0]
    return first.removesuffix(".py")


def imported_rooms(path: Path) -> set[tuple[str, int]]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: relative import"
            names = [node.module or ""]
            if node.module == "prefixscope":
                names = [f"prefixscope.{alias.name}" for alias in node.names]
        for name in names:
            parts = name.split(".")
            if parts[0] == "prefixscope" and len(parts) > 1:
                found.add((parts[1], node.lineno))
    return found


FILES = sorted(path for path in PACKAGE.rglob("*.py") if path != PACKAGE / "__init__.py")


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_go_downwards_only(path: Path) -> None:
    room = room_of(path)
    assert room in ALLOWED, f"{room} has no row in the import table"
    for target, line in imported_rooms(path):
        if target == "__version__":
            continue
        assert target == room or target in ALLOWED[room], f"{path}:{line}: {room} may not import {target}"


def test_importing_the_package_loads_nothing_heavy() -> None:
    heavy = ("transformers", "numba", "pyarrow", "duckdb", "jinja2", "numpy")
    code = f"import sys, prefixscope; print([name for name in {heavy!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=PACKAGE.parent)
    assert done.stdout.strip() == "[]"
