"""Every cause a prompt can break for, in the order in which they are tested. A new cause is one line here.

The order and the words are the vocabulary of docs/breaks.md. What only names a part (`tools_changed`,
`system_variant`, `content_changed`) comes after everything that is proven by a normal form of the two sides.
"""

from __future__ import annotations

from prefixscope.breaks.comparison import Comparison
from prefixscope.breaks.detectors.head import generation_prefix, special_tokens, template_date, template_kwargs
from prefixscope.breaks.detectors.messages import (
    content_format,
    history_truncated,
    multimodal_content,
    null_content,
    tool_arguments_reserialized,
)
from prefixscope.breaks.detectors.reasoning import reasoning_dropped
from prefixscope.breaks.detectors.texts import (
    content_changed,
    documents_reordered,
    system_variant,
    volatile_in_text,
    whitespace,
)
from prefixscope.breaks.detectors.tokens import retokenization
from prefixscope.breaks.detectors.tools import (
    tool_schema_key_order,
    tools_changed,
    tools_reordered,
    volatile_in_tool,
)
from prefixscope.breaks.found import Detector, Found

__all__ = ["CAUSES", "DETECTORS", "FAULTS", "NO_FAULTS", "RUNG_CAUSES", "SEPARATIONS", "UNPROVEN", "prove"]

SEPARATIONS = ("model", "adapter", "cache_salt", "prompt_logprobs")
"""What the engine keeps apart though the text is the same."""

NO_FAULTS = ("first_seen", "append_only", "rewound", "branched")
"""The prompt kept all it could be expected to share."""

RUNG_CAUSES = (
    "engine_rule", "not_stored", "ttl_expired", "cache_reset", "in_flight", "routed_elsewhere", "evicted",
    "shorter_than_block",
)  # fmt: skip
"""The prompt is unchanged; engine, lifetime, overlap, router or memory lost what it shared."""

DETECTORS: tuple[Detector, ...] = (
    Detector("special_tokens", special_tokens),
    Detector("template_kwargs", template_kwargs),
    Detector("template_date", template_date),
    Detector("tools_reordered", tools_reordered),
    Detector("tool_schema_key_order", tool_schema_key_order),
    Detector("volatile_in_tool", volatile_in_tool),
    Detector("tools_changed", tools_changed),
    Detector("retokenization", retokenization),
    Detector("history_truncated", history_truncated),
    Detector("documents_reordered", documents_reordered),
    Detector("volatile_in_text", volatile_in_text),
    Detector("tool_arguments_reserialized", tool_arguments_reserialized),
    Detector("null_content", null_content),
    Detector("content_format", content_format),
    Detector("whitespace", whitespace),
    Detector("reasoning_dropped", reasoning_dropped),
    Detector("template_generation_prefix", generation_prefix),
    Detector("multimodal_content", multimodal_content),
    Detector("system_variant", system_variant),
    Detector("content_changed", content_changed),
)

FAULTS = (
    "special_tokens", "template_kwargs", "template_date", "tools_reordered", "tool_schema_key_order", "tools_changed",
    "timestamp", "date", "volatile_id", "system_variant", "documents_reordered", "history_truncated",
    "tool_arguments_reserialized", "null_content", "content_format", "whitespace", "reasoning_dropped",
    "template_generation_prefix", "multimodal_content", "retokenization", "content_changed",
)  # fmt: skip
"""Causes in the prompt itself, in the order of the vocabulary."""

UNPROVEN = ("tools_changed", "system_variant", "content_changed")
"""Causes that only name the part: nothing but the rest of the prompts tells that they belong together."""

CAUSES = (*SEPARATIONS, *NO_FAULTS, *FAULTS, *RUNG_CAUSES, "not_compared")


def prove(comparison: Comparison) -> Found:
    """The first cause that is proven; the last one always is."""
    for detector in DETECTORS:
        found = detector.prove(comparison)
        if found is not None:
            return found
    raise AssertionError("content_changed holds for every difference")
