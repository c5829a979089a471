"""Causes in the tool list: its order, the key order of schemas, its content; and a clock in a tool's text."""

from __future__ import annotations

from prefixscope.breaks.comparison import Comparison
from prefixscope.breaks.forms import canonical, printed
from prefixscope.breaks.found import Found
from prefixscope.breaks.header import context_of
from prefixscope.breaks.sides import Place
from prefixscope.breaks.volatile import volatile_walk
from prefixscope.records import Json

__all__ = ["tool_schema_key_order", "tools_changed", "tools_reordered", "volatile_in_tool"]


def _differing(comparison: Comparison) -> tuple[list[Json], list[Json]] | None:
    """Both tool lists where the first difference is theirs."""
    lists = comparison.tools
    if lists is None or comparison.place.kind not in ("tools", "template"):
        return None
    return lists


def _key(tools: list[Json]) -> str:
    return ",".join(sorted(name_of(tool) for tool in tools))


def name_of(tool: Json) -> str:
    """The name of a tool as logged.

    >>> name_of({"type": "function", "function": {"name": "find_order"}}), name_of({"name": "x"})
    ('find_order', 'x')
    """
    if not isinstance(tool, dict):
        return ""
    function = tool.get("function")
    return str((function if isinstance(function, dict) else tool).get("name", ""))


def tools_reordered(comparison: Comparison) -> Found | None:
    """Equal as a set, in another order."""
    lists = _differing(comparison)
    if lists is None:
        return None
    new, old = ([canonical(tool) for tool in tools] for tools in lists)
    if new == old or sorted(new) != sorted(old):
        return None
    return Found("tools_reordered", _place(comparison), key=_key(lists[0]), moved=True)


def tool_schema_key_order(comparison: Comparison) -> Found | None:
    """Equal as JSON, one by one, with keys in another order."""
    lists = _differing(comparison)
    if lists is None or [canonical(tool) for tool in lists[0]] != [canonical(tool) for tool in lists[1]]:
        return None
    return Found("tool_schema_key_order", _place(comparison), key=_key(lists[0]), moved=True)


def volatile_in_tool(comparison: Comparison) -> Found | None:
    """A clock, date or id in a tool's text: without it the lists are equal."""
    lists = _differing(comparison)
    if lists is None:
        return None
    walked = volatile_walk(printed(lists[0]), printed(lists[1]))
    if not walked.stretches or not walked.complete:
        return None
    first = walked.stretches[0]
    context = context_of(printed(lists[0]), first.new_start)
    return Found(
        first.kind, _place(comparison), key=context, context=context, explains=lambda a, b: volatile_walk(a, b).proven
    )


def tools_changed(comparison: Comparison) -> Found | None:
    """Tools added, removed or edited."""
    lists = _differing(comparison)
    if lists is None:
        return None
    new, old = ({name_of(tool) for tool in tools} for tools in lists)
    # names of tools are text of the prompt: the detail, which an index keeps, has none
    words = [word for word, names in (("added", new - old), ("removed", old - new)) if names] or ["edited"]
    detail = " and ".join(words)
    return Found("tools_changed", _place(comparison), key=detail, detail=detail, moved=True)


def _place(comparison: Comparison) -> Place:
    return comparison.place if comparison.place.kind == "tools" else Place("tools")
