"""What was measured, beside what was predicted for the same requests."""

from __future__ import annotations

from rich.console import RenderableType
from rich.text import Text

from prefixscope.report.numbers import percent, plural, tokens
from prefixscope.report.terminal.layout import plain_table, section
from prefixscope.report.text import visible
from prefixscope.report.words import verdict_in_words
from prefixscope.results import Measured

__all__ = ["measured_part"]


def measured_part(measured: Measured, unexplained: int | None) -> RenderableType:
    """Two lines to compare, the difference, the verdict, and how many requests carry no measurement."""
    table = plain_table(("", "left"), ("prompt", "right"), ("cached", "right"), ("of prompt", "right"))
    predicted, whole = measured.predicted_cached_tokens, measured.predicted_prompt_tokens
    table.add_row("predicted", tokens(whole), tokens(predicted), percent(predicted, whole))
    cached, whole = measured.cached_tokens, measured.prompt_tokens
    table.add_row("measured", tokens(whole), tokens(cached), percent(cached, whole))
    if unexplained is not None:
        table.add_row("unexplained", "", tokens(unexplained), percent(unexplained, whole))
    verdict = verdict_in_words(measured.verdict)
    sentence = f"{verdict[:1].upper()}{verdict[1:]}."
    if measured.unit_of_all is not None and measured.unit_of_all > 1:
        sentence += (
            f" Every measured count is a multiple of {measured.unit_of_all:,}: a hint of the match unit in force."
        )
    if measured.unknown_requests:
        unknown = measured.unknown_requests
        sentence += (
            f" {plural(unknown, 'request')} without a usable measurement {'is' if unknown == 1 else 'are'} left out."
        )
    title = f"measured against predicted ({visible(measured.source)}, {plural(measured.requests, 'request')})"
    return section(title, table, Text(sentence))
