"""A log with a fault removed: every request is written anew before its prompt is made, and all is computed again.

A rewrite looks at one request alone and does the same to all of them, as the client's or gateway's fix would: a clock
is taken out, tools are sorted, null becomes empty. Nothing is estimated. Causes for which no such rule exists (another
system prompt, dropped turns, other tools) have no what-if, and that is said; what the engine, the router or the memory
took has none either, for its loss already is the difference of two computed states.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from prefixscope.breaks.causes import FAULTS, RUNG_CAUSES, SEPARATIONS
from prefixscope.breaks.forms import REASONING_KEYS, thoughts_of
from prefixscope.breaks.header import Spot, without_spots
from prefixscope.breaks.rewriting import (
    RULES,
    answer_key,
    at_the_end,
    messages_together,
    numbered_calls,
    repeating,
    with_thoughts,
)
from prefixscope.records import Json, LoggedRequest

__all__ = ["CHANGES", "OTHER_WAYS", "UNCHANGEABLE", "Rewrite", "Spot", "rewrite_for", "thoughts_in"]

CHANGES: Mapping[str, str] = {
    "timestamp": "the clock is taken out",
    "date": "the date is taken out",
    "volatile_id": "the id is taken out",
    "template_date": "the template prints one fixed date",
    "template_kwargs": "all requests use the template's default options",
    "tools_reordered": "tools are sorted by name",
    "tool_schema_key_order": "keys of tool schemas are sorted",
    "documents_reordered": "documents are sorted",
    "tool_arguments_reserialized": "arguments of tool calls are written in one way",
    "null_content": "null and missing contents are empty texts",
    "content_format": "lists of text parts become one text",
    "whitespace": "runs of white space become one blank, texts are trimmed",
    "reasoning_dropped": "reasoning is never sent back",
    "special_tokens": "the beginning-of-text token is not doubled",
    "prompt_logprobs": "no log-probabilities of the prompt are asked for",
    "adapter": "adapters share KV with their base and each other",
    "cache_salt": "salts and other isolating keys are not set",
    "template_generation_prefix": "the history repeats the words of the generation prompt",
    "retokenization": "answers go back as the same token ids (logged ids are left out where the text is logged)",
}
"""Causes with a what-if, and what is changed."""

OTHER_WAYS: Mapping[str, str] = {
    "timestamp": "the clock stands at the end of the newest message",
    "date": "the date stands at the end of the newest message",
    "volatile_id": "the id stands at the end of the newest message",
    "reasoning_dropped": "reasoning that the log has of an answer is always sent back",
}
"""A second way to remove a cause: text is moved or kept, not left out."""

UNCHANGEABLE = tuple(cause for cause in (*SEPARATIONS, *FAULTS, *RUNG_CAUSES) if cause not in CHANGES)
"""Causes that no rule removes from a log."""

_PLACED = ("timestamp", "date", "volatile_id")
"""Causes that are cut out at their spots."""

TOGETHER = frozenset({"adapter", "cache_salt"})
"""Causes that are undone in the identity of a request, not in its body."""


@dataclass(frozen=True, slots=True)
class Rewrite:
    """Removes causes from a request. `spots` are the places of clocks, dates and ids; picklable for workers.

    `keeps`: the other way, where text is moved to the end or put back. `thoughts` are the reasoning of answers, by
    their text.

    >>> from prefixscope.records import Source
    >>> request = LoggedRequest(Source("log", 1), "chat", {"messages": [{"role": "user", "content": None}]})
    >>> Rewrite(("null_content",))(request).body["messages"]
    [{'role': 'user', 'content': ''}]
    """

    causes: tuple[str, ...]
    spots: tuple[Spot, ...] = ()
    keeps: bool = False
    thoughts: Mapping[str, Mapping[str, Json]] = field(default_factory=dict)

    def __call__(self, request: LoggedRequest) -> LoggedRequest:
        """The request as it would be without the causes; what can't be read is left as it is."""
        cut = tuple(spot for spot in self.spots if spot.cause in _PLACED)
        if cut:
            taken: list[str] = []
            request = replace(request, body=without_spots(request, cut, taken))
            if self.keeps and taken:
                request = at_the_end(request, "\n".join(taken))
        if any(spot.cause == "volatile_id" and spot.part == "message" and not spot.context for spot in cut):
            request = messages_together(numbered_calls)(request)
        for spot in self.spots:
            if spot.cause == "template_generation_prefix":
                request = repeating(spot.context)(request)
        for cause in self.causes:
            if cause == "reasoning_dropped" and self.keeps:
                request = with_thoughts(self.thoughts)(request)
            elif cause in RULES:
                request = RULES[cause](request)
        return request


def rewrite_for(
    causes: Sequence[str],
    spots: Sequence[Spot],
    keeps: bool = False,
    thoughts: Mapping[str, Mapping[str, Json]] | None = None,
) -> Rewrite:
    """The rewrite for some causes; of the places only those of these causes count."""
    return Rewrite(tuple(causes), tuple(spot for spot in spots if spot.cause in causes), keeps, thoughts or {})


def thoughts_in(requests: Iterable[LoggedRequest]) -> Mapping[str, Mapping[str, Json]]:
    """The reasoning of every answer that the log has with it, as the fields that bring it back, by `answer_key`."""
    found: dict[str, Mapping[str, Json]] = {}
    for request in requests:
        answer = request.response
        messages = [{"role": "assistant", "content": answer} if isinstance(answer, str) else answer]
        logged = request.body.get("messages")
        messages += logged if isinstance(logged, list) else []
        for message in messages:
            if isinstance(message, dict) and message.get("role", "assistant") == "assistant" and thoughts_of(message):
                fields = {name: message[name] for name in ("content", *REASONING_KEYS) if name in message}
                found.setdefault(answer_key(message), fields)
    return found
