"""The story of one request, as `explain --request` tells it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from prefixscope.report.numbers import count, duration, instant, percent, plural, tokens
from prefixscope.report.terminal.breaks import both_sides
from prefixscope.report.terminal.layout import Look, plain_table
from prefixscope.report.text import visible
from prefixscope.report.words_breaks import CAUSE_WORDS, CLASS_WORDS, REMEDIES, part_in_words, reset_in_words
from prefixscope.results.breaks import MemoryBetween, RequestStory

__all__ = ["request_story"]

_RUNGS = ("last_token", "block_rounding", "engine_rule", "in_flight", "routing", "capacity")


def request_story(story: RequestStory, look: Look) -> RenderableType:
    """Sentences in the order of events: what was shared with whom, where it broke, what the rest was lost to."""
    return Group(*_sentences(story, look), "", _ladder(story))


def _sentences(story: RequestStory, look: Look) -> Iterator[RenderableType]:
    facts = story.facts
    name = visible(facts["request_id"]) if facts["request_id"] else f"row {facts['row']}"
    who = [] if facts["time"] is None else [instant(facts["time"])]
    who += [f"{key} {visible(str(facts[key]))}" for key in ("session_id", "tenant") if facts[key]]
    name += f" ({', '.join(who)})" if who else ""
    shared, prompt = facts["reusable_tokens"], facts["prompt_tokens"]
    if story.parent is None:
        yield Text(f"{name} shares nothing of its {count(prompt)} prompt tokens with any earlier request.")
    else:
        ago = f", {_ago(story)} before" if facts["time"] is not None else ""
        yield Text(
            f"{name} shares {count(shared)} of its {count(prompt)} prompt tokens with {visible(story.parent)}{ago}."
        )
    cause = facts["break_cause"]
    if cause in CLASS_WORDS:
        yield Text(f"No fault ({cause}): {CLASS_WORDS[cause]}.")
    else:
        yield from _break(story, cause, look)


def _break(story: RequestStory, cause: str, look: Look) -> Iterator[RenderableType]:
    words = CAUSE_WORDS.get(cause, cause) + (f" ({visible(story.detail)})" if story.detail else "")
    against = f", compared with {visible(story.candidate)}" if story.candidate else ""
    if cause in NOT_THE_PROMPT:
        yield Text(f"Nothing in the prompt broke. {words[0].upper()}{words[1:]}.")
        if story.memory is not None and cause in RUNG_WORDS:
            yield Text(RUNG_WORDS[cause](story, story.memory))
        if story.taken_tokens:
            yield Text(f"It took {plural(story.taken_tokens, 'token')}.")
    else:
        where = f" in the {part_in_words(story.facts['break_part'])}" if story.facts["break_part"] else ""
        yield Text(f"It breaks{where} at token {story.facts['first_different_token']}{against}: {words}."
                   if story.example is not None else f"{words[0].upper()}{words[1:]}{against}.")  # fmt: skip
        yield from _in_the_prompt(story, look)
    yield Text(REMEDIES.get(cause, ""), style="italic")


def _in_the_prompt(story: RequestStory, look: Look) -> Iterator[RenderableType]:
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


def _ago(story: RequestStory) -> str:
    return duration((story.facts["time"] - (story.parent_time_ns or 0)) / 1e9)


def _between(story: RequestStory, memory: MemoryBetween) -> str:
    said = (
        f"Between the two, {plural(memory.requests, 'request')} stored {plural(memory.stored_tokens, 'token')} in the "
        "same memory"
    )
    return f"{said}, which holds {tokens(memory.memory_tokens)}." if memory.memory_tokens else f"{said}."


def _expired(story: RequestStory, memory: MemoryBetween) -> str:
    life = "" if memory.lifetime_s is None else f"; entries live {duration(memory.lifetime_s)} after their last use"
    return f"{visible(story.parent or '')} used it last, {_ago(story)} before{life}."


def _emptied(story: RequestStory, memory: MemoryBetween) -> str:
    return "" if memory.reset is None else reset_in_words(memory.reset)


def _elsewhere(story: RequestStory, memory: MemoryBetween) -> str:
    here, there = (visible(name) if name else "(not logged)" for name in (memory.replica, memory.parent_replica))
    return f"It went to replica {here}; {visible(story.parent or '')}, which shares most with it, went to {there}."


def _overlapping(story: RequestStory, memory: MemoryBetween) -> str:
    if memory.parent_finished_ns is None or memory.parent_finished_ns <= story.facts["time"]:
        return f"{visible(story.parent or '')} had not made it visible yet."
    left = duration((memory.parent_finished_ns - story.facts["time"]) / 1e9)
    return f"{visible(story.parent or '')} was still running, for {left} more."


RUNG_WORDS: Mapping[str, Callable[[RequestStory, MemoryBetween], str]] = {
    "evicted": _between,
    "ttl_expired": _expired,
    "cache_reset": _emptied,
    "routed_elsewhere": _elsewhere,
    "in_flight": _overlapping,
}
"""What is said of the one that left the prefix, where the prompt is not to blame."""
NOT_THE_PROMPT = (*RUNG_WORDS, "engine_rule", "not_stored", "shorter_than_block")


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
