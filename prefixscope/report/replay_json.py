"""A replay as JSON: the shared head, what was sent, and everything that was found out, request by request."""

from __future__ import annotations

from typing import Any

from prefixscope.report.json import encode, input_document, json_head, plain
from prefixscope.results import InputReport
from prefixscope.results.replay import Plan, ReplayReport, SampleReport

__all__ = ["latency_json", "replay_json"]


def replay_json(read: InputReport, sample: SampleReport, plan: Plan, report: ReplayReport | None) -> dict[str, Any]:
    """The document of `replay`; `replay` is null for a dry run, where nothing was sent."""
    document = json_head("replay") | {"input": input_document(read), "sample": plain(sample), "plan": plain(plan)}
    return document | {"replay": None if report is None else plain(report)}


def latency_json(latency: Any, why: str) -> bytes:
    """The fitted latency as a file; where no fit was possible the file says why."""
    if latency is None:
        return encode({"schema": None, "latency": None, "why": why})
    return str(latency.to_json()).encode()
