"""The story of one request, as `explain --request` tells it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from prefixscope.report.numbers import count, duration, instant, percent
from prefixscope.report.terminal.breaks import both_sides
from prefixscope.report.terminal.layout import Look, plain_table
from prefixscope.report.text import visible
from prefixscope.report.words_breaks import CAUSE_WORDS, CLASS_WORDS, REMEDIES, part_in_words
from prefixscope.results.breaks import RequestStory

__all__ = ["request_story"]

_RUNGS = ("last_token", "block_rounding", "engine_rule", "in_flight", "routing", "capacity")


def request_story(story: RequestStory, look: Look) -> RenderableType:
    """Sentences in the order of events: what was shared with whom, where it broke, what the rest was lost to."""
    return Group(*_sentences(story, look), "", _ladder(story))


def _sentences(story: RequestStory, look: Look) -> Iterator[RenderableType]:
    facts = story.facts
    name = visible(facts["request_id"]) if facts["request_id"] else f"row {facts['row']}"
    who = [instant(facts["time"])] + [
        f"{key} {visible(str(facts[key]))}" for key in ("session_id", "tenant") if facts[key]
    ]
    shared, prompt = facts["reusable_tokens"], facts["prompt_tokens"]
    if story.parent is None:
        yield Text(
            f"{name} ({', '.join(who)}) shares nothing of its {count(prompt)} prompt tokens with any earlier request."
        )
    else:
        ago = duration((facts["time"] - (story.parent_time_ns or 0)) / 1e9)
        yield Text(
            f"{name} ({', '.join(who)}) shares {count(shared)} of its {count(prompt)} prompt tokens with "
            f"{visible(story.parent)}, {ago} before."
        )
    cause = facts["break_cause"]
    if cause in CLASS_WORDS:
        yield Text(f"No fault ({cause}): {CLASS_WORDS[cause]}.")
    else:
        yield from _break(story, cause, look)


def _break(story: RequestStory, cause: str, look: Look) -> Iterator[RenderableType]:
    words = CAUSE_WORDS.get(cause, cause) + (f" ({visible(story.detail)})" if story.detail else "")
    where = f" in the {part_in_words(story.facts['break_part'])}" if story.facts["break_part"] else ""
    against = f", compared with {visible(story.candidate)}" if story.candidate else ""
    yield Text(f"It breaks{where} at token {story.facts['first_different_token']}{against}: {words}."
               if story.example is not None else f"{words[0].upper()}{words[1:]}{against}.")  # fmt: skip
    if story.example is not None and story.example.new is not None:
        yield from both_sides(story.example, look.width)
    if story.candidate_namespace is not None and story.candidate_namespace != story.namespace:
        yield Text(f"{visible(story.namespace)} and {visible(story.candidate_namespace)} share nothing.")
    if story.lost_tokens:
        reach = story.facts["reusable_tokens"] + story.lost_tokens
        yield Text(f"Without it {count(reach)} tokens would have been shared, {count(story.lost_tokens)} more.")
    if story.almost_tokens:
        yield Text(
            f"Behind the difference the two prompts have {count(story.almost_tokens)} tokens of equal text.",
            style="dim",
        )
    yield Text(REMEDIES.get(cause, ""), style="italic")


def _ladder(story: RequestStory) -> RenderableType:
    facts = story.facts
    table = plain_table(("", "left"), ("tokens", "right"), ("of prompt", "right"))
    prompt = facts["prompt_tokens"]

    def row(label: str, value: Any) -> None:
        table.add_row(label, count(value), percent(value, prompt))

    row("shared with earlier requests", facts["reusable_tokens"])
    for rung in _RUNGS:
        lost = facts.get(f"loss_{rung}")
        table.add_row(f" - {rung.replace('_', ' ')}", "not simulated" if lost is None else count(lost), "")
    row("expected from the cache", facts["expected_cached_tokens"])
    if facts.get("measured_cached_tokens") is not None:
        row("measured", facts["measured_cached_tokens"])
    return table
