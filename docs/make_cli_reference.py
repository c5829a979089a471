"""Writes docs/cli.md from the commands themselves, the source of `--help`: python docs/make_cli_reference.py."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from typer.main import get_command

from prefixscope.cli.main import app

TARGET = Path(__file__).with_name("cli.md")

HEAD = """\
# Command line reference

Made from the program's own `--help` by `python docs/make_cli_reference.py`; a test fails when it is out of date.

The report goes to standard output, progress and warnings to standard error. With `--json -` or `--requests -` standard
output holds that and nothing else. Files are opened before the work under a temporary name, renamed at the end, and
never overwritten without `--force`. Colours are off where standard output is no terminal, or with `NO_COLOR`; the width
is then `COLUMNS`, or 80. Exit codes: 0 done; 1 an error, told in one sentence; 2 wrong usage; 3 a gate failed
(`--fail-under`, `--strict`); 130 interrupted.

In JSON, what was not computed is null, never 0: the losses of rungs that were not simulated, `breaks`, and
`pools[].capacity` in `blocks`.
"""


def reference() -> str:
    """The whole page."""
    parts = [HEAD]
    commands: dict[str, Any] = getattr(get_command(app), "commands", {})
    for name, command in commands.items():
        parts.append(_command(name, command))
    return "\n".join(parts)


def _command(name: str, command: Any) -> str:
    arguments = [parameter for parameter in command.params if parameter.param_type_name == "argument"]
    options = [parameter for parameter in command.params if parameter.param_type_name == "option"]
    usage = " ".join(["prefixscope", name, *map(_placeholder, arguments), "[OPTIONS]"])
    lines = [f"## {name}", "", command.help.strip(), "", "```", usage, "```", ""]
    lines += [f"- `{_placeholder(argument)}`: {argument.help}" for argument in arguments]
    panels: dict[str, list[Any]] = {}
    for option in options:
        panels.setdefault(option.rich_help_panel or "Options", []).append(option)
    for panel, members in panels.items():
        lines += ["", f"**{panel}**", "", *(_option(option) for option in members)]
    return "\n".join(lines) + "\n"


def _placeholder(argument: Any) -> str:
    name = f"{argument.metavar}..." if argument.nargs == -1 else str(argument.metavar)
    return name if argument.required else f"[{name}]"


def _option(option: Any) -> str:
    names = ", ".join(f"`{name}`" for name in sorted(option.opts, key=len, reverse=True))
    value = "" if option.is_flag else f" `{option.metavar}`"
    default = option.default
    shown = f" Default: {default}." if isinstance(default, str) else ""
    return f"- {names}{value}: {option.help}{shown}"


if __name__ == "__main__":
    TARGET.write_text(reference(), encoding="utf-8")
