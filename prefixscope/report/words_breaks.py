"""The words for why prefixes break: a name, what it means, and one remedy for every cause."""

from __future__ import annotations

from collections.abc import Mapping

from prefixscope.report.numbers import instant, percent, plural, tokens
from prefixscope.report.text import visible
from prefixscope.report.words import readable
from prefixscope.results.breaks import CacheReset, Fault, WhatIf

__all__ = [
    "CAUSE_WORDS",
    "CLASS_WORDS",
    "NOTES",
    "NO_WHAT_IF",
    "REMEDIES",
    "fault_name",
    "part_in_words",
    "reset_in_words",
    "what_if_in_words",
]

CAUSE_WORDS: Mapping[str, str] = {
    "model": "the same text went to another model",
    "adapter": "adapters share no KV with each other or their base",
    "cache_salt": "the same text under another cache salt or isolating key",
    "prompt_logprobs": "log-probabilities of the prompt: such requests may not read the cache",
    "special_tokens": "special tokens doubled or missing",
    "template_kwargs": "a template option changed the head of the prompt",
    "template_date": "a date printed by the chat template itself",
    "tools_reordered": "tools listed in another order (same set)",
    "tool_schema_key_order": "the same tool schema with keys in another order",
    "tools_changed": "tools added, removed or edited",
    "timestamp": "a clock",
    "date": "a date",
    "volatile_id": "an id that differs per request",
    "system_variant": "another system prompt",
    "documents_reordered": "the same passages in another order",
    "history_truncated": "the oldest turns are dropped or summarised",
    "tool_arguments_reserialized": "JSON written in another way (equal as JSON)",
    "null_content": "null against empty or missing content",
    "content_format": "content as a text against a list of parts",
    "whitespace": "only white space differs",
    "reasoning_dropped": "reasoning of earlier turns is gone",
    "template_generation_prefix": "text of the generation prompt that the history does not repeat",
    "multimodal_content": "another image, audio or video behind the same placeholder",
    "retokenization": "the same text as other token ids",
    "content_changed": "the text itself changed",
    "shorter_than_block": "what is shared is shorter than one block",
    "engine_rule": "the engine's rule grants less than is shared",
    "not_stored": "answers are not kept by this engine",
    "ttl_expired": "the cache entry had expired",
    "cache_reset": "the cache was emptied in between",
    "in_flight": "the prefix was still being computed",
    "routed_elsewhere": "the prefix lay on another replica",
    "evicted": "the prefix had been evicted",
    "not_compared": "the request to compare with was no longer held, or time for comparing was used up",
}
"""What a cause is called."""

CLASS_WORDS: Mapping[str, str] = {
    "first_seen": "nothing like it before",
    "append_only": "everything before it was shared",
    "rewound": "sent again, or an earlier state of the same conversation",
    "branched": "equal up to a new turn",
}
"""The classes that are no faults."""

REMEDIES: Mapping[str, str] = {
    "model": "Route requests with the same text to the same model where the task allows it.",
    "adapter": "Merge adapters that could be one, or serve the shared part from the base model.",
    "cache_salt": "Give one salt to all who may share; a salt per request switches reuse off.",
    "prompt_logprobs": "Ask for prompt log-probabilities only where they are used.",
    "special_tokens": "Encode text that went through the chat template without adding special tokens again.",
    "template_kwargs": "Keep template options the same through a conversation, or group requests by option.",
    "template_date": "Pass a fixed date, or patch the template so that the date stands at the end.",
    "tools_reordered": "Sort the tools by name before sending.",
    "tool_schema_key_order": "Write schemas from one place, with keys in one order.",
    "tools_changed": "Keep the tool list the same through a conversation; announce changes in a message at the end.",
    "timestamp": "Move the clock behind the stable text, into the newest message, or round it to the day.",
    "date": "Move the date behind the stable text, into the newest message.",
    "volatile_id": "Leave the id out of the prompt, or move it behind the stable text.",
    "system_variant": "Put what varies at the end of the system prompt, or into the newest message.",
    "documents_reordered": "Sort passages by a stable key such as their id before they go into the prompt.",
    "history_truncated": "Drop turns in large steps and rarely, so that the shortened history is used again for long.",
    "tool_arguments_reserialized": "Send back the model's own bytes, or write JSON always with the same settings.",
    "null_content": "Choose one form for messages without text, empty or absent, and keep to it.",
    "content_format": "Send content always as a text, or always as parts.",
    "whitespace": "Send texts back as they came; do not trim or rewrap history.",
    "reasoning_dropped": "Never send reasoning back, or use a template option that keeps it.",
    "template_generation_prefix": "Use a template whose history repeats the words of its generation prompt.",
    "multimodal_content": "Put images that change behind the stable text.",
    "retokenization": "Continue from the generated token ids instead of their text.",
    "content_changed": "Look at both sides: whatever writes this text should write the same again.",
    "shorter_than_block": "Use a smaller block or match unit, or lengthen what is shared.",
    "engine_rule": "See docs/engines.md for what this engine keeps.",
    "not_stored": "Use an engine that keeps answers, if conversations go on.",
    "ttl_expired": "Ask for a longer lifetime, or send requests that belong together closer in time.",
    "cache_reset": "Do not reset the cache while traffic is running.",
    "in_flight": "Send the first of several requests with a long common prefix a little earlier.",
    "routed_elsewhere": "Route by session or by prefix.",
    "evicted": "Give the cache more memory; `prefixscope capacity` tells how much.",
}
"""One remedy per cause."""

NOTES: Mapping[str, str] = {
    "no_reset_in_log": "No time given with --reset-at lies between two requests of this log: it changes nothing.",
    "no_reset_recorded": "The recording given with --kv-events tells of no reset: it changes nothing.",
    "no_recorded_reset_in_log": (
        "No reset of the recording given with --kv-events lies between two requests of this log: it changes nothing."
    ),
    "what_if_needs_log": (
        "What removing a fault would give is computed from the log itself; an index or standard input is not enough."
    ),
}
"""Sentences for what a report could not compute, and for what of the options made no difference."""

NO_WHAT_IF: Mapping[str, str] = {
    "model": "KV of another model is of no use, so nothing can be computed for sharing it",
    "tools_changed": "which tools a request offers is the application's choice",
    "system_variant": "which of the system prompts is the right one is not in the log",
    "history_truncated": "with the dropped turns back, prompts could be longer than the model takes",
    "multimodal_content": "which picture a request shows is the application's choice",
    "content_changed": "which of the two texts is the right one is not in the log",
    "engine_rule": "its loss already is what the rule takes from what is shared",
    "not_stored": "its loss already is what an engine that keeps answers would find",
    "ttl_expired": "its loss already is what endless lifetimes would find",
    "cache_reset": "its loss already is what the cache would have held",
    "in_flight": "its loss already is what requests one after another would find",
    "routed_elsewhere": "its loss already is what one cache for all replicas would find",
    "evicted": "its loss already is what memory without limit would find; `prefixscope capacity` has every size",
    "shorter_than_block": "its loss already is what a unit of one token finds; `prefixscope blocks` has every size",
}
"""Why a cause has no what-if."""

_PARTS = {"template": "template", "generation prompt": "generation prompt", "tools": "tools", "answer": "answer"}
_WITH_PART = ("timestamp", "date", "volatile_id", "whitespace", "content_changed")


def part_in_words(part: str | None) -> str:
    """A part as it is said in a sentence.

    >>> part_in_words("system"), part_in_words("message user"), part_in_words("message 3 tool"), part_in_words(None)
    ('system prompt', 'user message', 'message 3 (tool)', '')
    """
    if part is None:
        return ""
    if part in _PARTS:
        return _PARTS[part]
    word, _, rest = part.partition(" ")
    if word in ("system", "developer"):
        return "system prompt"
    if word == "message":
        number, _, role = rest.rpartition(" ")
        if number.isdecimal():
            return f"message {number} ({visible(role)})"
        return f"message {rest}" if rest.isdecimal() else f"{visible(rest)} message".strip()
    return visible(part)


def fault_name(fault: Fault) -> str:
    """A fault in a few words.

    >>> fault_name(Fault("timestamp", "system", None, 3, 10, 0.1, 0, 1))
    'a clock in the system prompt'
    >>> fault_name(Fault("evicted", None, None, 1, 1, 0.1, 0, 1))
    'the prefix had been evicted'
    """
    words = CAUSE_WORDS.get(fault.cause) or readable(fault.cause)
    if fault.cause in _WITH_PART and fault.part is not None:
        words += f" in the {part_in_words(fault.part)}"
    if fault.detail and fault.cause not in _WITH_PART:
        words += f" ({_DETAILS.get(fault.detail) or visible(fault.detail)})"
    return words


_DETAILS = {
    "client": "the client dropped it: the log has no such field",
    "template": "the template dropped it: the log still has it",
    "dropped": "dropped",
    "summarised": "summarised",
}


def what_if_in_words(found: WhatIf) -> str:
    """A what-if in one sentence, with numerators and denominators.

    >>> what_if_in_words(WhatIf(("date",), "the date is taken out", 9, 1000, 100, 990, 500))
    'the date is taken out: cached 10.0 % -> 50.5 % of prompt (100 of 1,000 -> 500 of 990 tokens), 410 fewer to compute'
    """
    if not found.changed_requests:
        return f"{found.change}: no request of this log changes by it"
    before, after = (
        percent(found.cached_tokens, found.prompt_tokens),
        percent(found.cached_tokens_after, found.prompt_tokens_after),
    )
    amounts = (
        f"{tokens(found.cached_tokens)} of {tokens(found.prompt_tokens)} -> "
        f"{tokens(found.cached_tokens_after)} of {tokens(found.prompt_tokens_after)} tokens"
    )
    gained = found.gained_tokens
    change = f"{tokens(gained)} fewer to compute" if gained >= 0 else f"{tokens(-gained)} more to compute"
    return f"{found.change}: cached {before} -> {after} of prompt ({amounts}), {change}"


def reset_in_words(reset: CacheReset) -> str:
    """When a cache was emptied, how that is known, and what it cost.

    >>> reset_in_words(CacheReset(0, "told", 3, 2, 96))
    'The cache was emptied at 1970-01-01T00:00:00Z (as told): 2 requests lost 96 tokens by it.'
    """
    how = _RESET_KNOWN[reset.source].format(when=instant(reset.time_ns))
    return f"{how}: {plural(reset.requests, 'request')} lost {plural(reset.lost_tokens, 'token')} by it."


_RESET_KNOWN = {
    "told": "The cache was emptied at {when} (as told)",
    "events": "The cache was emptied at {when} (recorded KV events)",
    "measured": "The cache was emptied before {when} (measured: nothing from before was found again from then on)",
}
