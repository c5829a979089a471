"""The documents of `explain` and `lint`, and what both and `analyze` say of breaks."""

from __future__ import annotations

from typing import Any

from prefixscope.report.json import input_document, json_head, plain
from prefixscope.report.numbers import instant
from prefixscope.report.words_breaks import NO_WHAT_IF, REMEDIES
from prefixscope.results.breaks import BreaksReport, CacheReset, RequestStory

__all__ = ["breaks_list", "explain_json"]


def breaks_list(report: BreaksReport | None) -> list[dict[str, Any]] | None:
    """Every fault with its remedy; None where breaks were not looked for."""
    if report is None:
        return None
    return [plain(fault) | {"remedy": REMEDIES.get(fault.cause)} for fault in report.faults]


def _reset(reset: CacheReset) -> dict[str, Any]:
    document: dict[str, Any] = plain(reset)
    del document["time_ns"]
    return {"time": instant(reset.time_ns)} | document


def explain_json(report: BreaksReport, story: RequestStory | None = None, command: str = "explain") -> dict[str, Any]:
    """The document of `explain` and `lint`; `request` is the story of the request asked for."""
    document = json_head(command) | {"input": input_document(report.input)}
    document |= {
        "requests": report.requests,
        "prompt_tokens": report.prompt_tokens,
        "causes": plain(report.causes),
        "breaks": breaks_list(report),
        "lost_tokens": report.lost_tokens,
        "almost_tokens": report.almost_tokens,
        "not_compared": report.not_compared,
        "inferred_sessions": report.inferred_sessions,
        "below_unit": report.below_unit,
        "isolation": plain(report.isolation),
        "what_if": [plain(found) | {"gained_tokens": found.gained_tokens} for found in report.what_ifs],
        "without_what_if": {cause: NO_WHAT_IF[cause] for cause in report.without_what_if},
        "resets": [_reset(reset) for reset in report.resets],
        "notes": list(report.notes),
    }
    if story is not None:
        told = plain(story)
        if story.facts["time"] is not None:
            told["facts"]["time"] = instant(story.facts["time"])
        document["request"] = told
    return document
