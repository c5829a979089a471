"""The documentation tells the truth: shown outputs are what the commands print, links lead somewhere."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGES = [
    ROOT / "README.md",
    ROOT / "CHANGELOG.md",
    *sorted((ROOT / "docs").glob("*.md")),
    ROOT / "sample_logs/README.md",
]


def outputs() -> Any:
    spec = importlib.util.spec_from_file_location("make_outputs", ROOT / "docs" / "make_outputs.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


SHOWN = [
    (name, match[3], match[2], match[4])
    for name in outputs().PAGES
    if (ROOT / name).exists()
    for match in outputs().BLOCK.finditer((ROOT / name).read_text(encoding="utf-8"))
]


@pytest.mark.parametrize(("page", "command", "limit", "shown"), SHOWN, ids=[f"{s[0]}:{s[1]}" for s in SHOWN])
def test_shown_outputs_are_current(page: str, command: str, limit: str, shown: str) -> None:
    lines = [line.rstrip() for line in outputs().output_of(command).splitlines()]
    if limit and int(limit) < len(lines):
        lines = [*lines[: int(limit)], "..."]
    assert shown.splitlines() == lines, f"{page}: run python docs/make_outputs.py"


def test_the_readme_shows_real_output() -> None:
    assert any(page == "README.md" for page, *_ in SHOWN)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_relative_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
        if not re.match(r"[a-z]+:", target):
            assert (page.parent / target).exists(), f"{page.name}: {target}"
