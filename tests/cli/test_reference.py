"""The reference page is current, and every command and option has help."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from prefixscope.cli.main import app, option_names
from prefixscope.engines import ENGINES

DOCS = Path(__file__).resolve().parents[2] / "docs"
COMMANDS: dict[str, Any] = getattr(get_command(app), "commands", {})


def script() -> Any:
    spec = importlib.util.spec_from_file_location("make_cli_reference", DOCS / "make_cli_reference.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_current() -> None:
    page = (DOCS / "cli.md").read_text(encoding="utf-8")
    assert page == script().reference(), "run: python docs/make_cli_reference.py"


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_and_option_has_help(name: str) -> None:
    command = COMMANDS[name]
    assert command.help
    assert command.help.strip().endswith(".")
    for parameter in command.params:
        assert parameter.help, parameter.name
        assert parameter.help.endswith("."), parameter.name
        assert parameter.param_type_name == "argument" or parameter.is_flag or parameter.metavar, parameter.name


def test_every_command_and_option_is_on_the_page() -> None:
    page = (DOCS / "cli.md").read_text(encoding="utf-8")
    for name in COMMANDS:
        assert f"\n## {name}\n" in page
    for name in option_names():
        assert not name.startswith("-") or f"`{name}`" in page, name


def test_the_help_names_the_engines_that_exist() -> None:
    option = next(parameter for parameter in COMMANDS["analyze"].params if parameter.name == "engine")
    listed = re.search(r"rules apply: (.*?)\. ", option.help)
    assert listed is not None
    assert set(listed[1].split(", ")) == set(ENGINES)


def test_command_files_stay_thin() -> None:
    """Beside one line per option, a command passes them on and shows what comes back."""
    folder = DOCS.parent / "prefixscope" / "cli"
    for name in COMMANDS:
        lines = (folder / f"{name}.py").read_text(encoding="utf-8").splitlines()
        others = [line for line in lines if not re.fullmatch(r"    \w+: [a-z]\.\w+( = .*)?,", line)]
        assert len(others) <= 70 and len(lines) <= 110, name
