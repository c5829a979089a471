"""The prefixes many requests share, with what each saves beyond the one that encloses it."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import RenderableType
from rich.text import Text

from prefixscope.report.numbers import count, percent, tokens
from prefixscope.report.terminal.layout import Look, plain_table, section
from prefixscope.report.text import shortened, visible
from prefixscope.results import Prefix

__all__ = ["top_prefixes"]


def top_prefixes(prefixes: Sequence[Prefix], prompt_tokens: int, look: Look) -> RenderableType | None:
    """A table of the prefixes that save most; None where nothing is shared."""
    if not prefixes:
        return None
    has_text = any(prefix.preview for prefix in prefixes)
    several = len({prefix.namespace for prefix in prefixes}) > 1 and (look.is_wide or not has_text)
    names = [("namespace", "left")] if several else []
    texts = [("text where it goes on", "left")] if has_text else []
    table = plain_table(
        ("tokens", "right"), ("requests", "right"), ("saves", "right"), ("of prompt", "right"), *names, *texts
    )
    room = max(look.width - 46, 12)
    name_room = room // 2 if has_text else room
    text_room = room - name_room - 2 if several else room
    for prefix in prefixes:
        row = [count(prefix.tokens), count(prefix.requests), tokens(prefix.saved_tokens)]
        row.append(percent(prefix.saved_tokens, prompt_tokens))
        extra = [Text(shortened(visible(prefix.namespace), name_room), "dim")] if several else []
        if has_text:
            extra.append(Text(shortened(visible(prefix.preview or ""), text_room), "italic"))
        table.add_row(*row, *extra)
    return section("top prefixes (saves: tokens beyond the enclosing prefix)", table)
