"""Envelopes: the request body in one field of the row, the response in another, time and ids around them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from prefixscope.logs import fields
from prefixscope.logs.fields import first_present, parsed_object
from prefixscope.logs.requests import OTHER_PROMPT_FIELDS, PROMPT_FIELDS, arrival_times, openai_requests
from prefixscope.logs.rows import LogFormat, Row
from prefixscope.records import Json, LoggedRequest

__all__ = ["Envelope", "OpenAIBatch"]

_BODY_FIELDS = ("request", "request_body", "body", "req")


def _looks_like_body(value: Json) -> bool:
    if isinstance(value, str):
        return value.lstrip().startswith(("{", '"{'))
    return isinstance(value, dict) and any(name in value for name in (*PROMPT_FIELDS, *OTHER_PROMPT_FIELDS))


class Envelope(LogFormat):
    """`{ts, request: {...}, response: {...}}` or `{timestamp_ms, request_body: "<JSON text>", response_body: ...}`."""

    name = "envelope"
    family = "openai"
    description = "{request, response} or {request_body, response_body} around OpenAI bodies, as objects or strings"
    how = (
        "Let the gateway, proxy or middleware in front of the engine write one JSON object a line: "
        '{"ts": ISO time or epoch, "request_id", "session_id", "path", "status", "request": body as received, '
        '"response": body as sent}. Streaming answers carry usage only with `stream_options: {"include_usage": true}` '
        "in the request (vLLM: `--enable-force-include-usage`). vLLM fills `cached_tokens` with "
        "`--enable-prompt-tokens-details`, SGLang with `--enable-cache-report`."
    )
    signature = "a request body under `request`, `request_body` or `body`"
    has_cached_tokens = True
    has_session = True
    has_adapter = True
    verified = False

    def recognises(self, value: Mapping[str, Json]) -> bool:
        """A body-like value under one of the usual names, and no prompt of its own."""
        if any(name in value for name in PROMPT_FIELDS) or "custom_id" in value:
            return False
        return any(_looks_like_body(value.get(name)) for name in _BODY_FIELDS)

    def times(self, value: Mapping[str, Json]) -> Iterator[tuple[str, Any]]:
        """`ts`, `timestamp`, `timestamp_ms` or another common name."""
        return arrival_times(value)

    def read(self, row: Row) -> tuple[LoggedRequest, ...]:
        """The body as it was received, without the envelope's fields."""
        logged = first_present(row.value, _BODY_FIELDS)
        if logged is None or logged in ("", "-"):
            status = fields.status_of(first_present(row.value, fields.STATUS))
            return row.skip("failed_before_prefill" if status is not None and status >= 400 else "no_prompt")
        body = parsed_object(logged)
        if not isinstance(body, dict):
            return row.skip("unreadable_request_body")
        return openai_requests(row, body, wrapped=True)


class OpenAIBatch(Envelope):
    """Input file of the OpenAI Batch API (and of vLLM's `run-batch`)."""

    name = "openai-batch"
    description = "OpenAI Batch input: {custom_id, method, url, body}; order only, no time per request"
    how = "The input file itself: what is uploaded to the Batch API or given to `vllm run-batch -i FILE`."
    signature = "`custom_id` and `body`"
    has_time = False
    has_cached_tokens = False
    has_session = False
    has_adapter = False
    verified = True

    def recognises(self, value: Mapping[str, Json]) -> bool:
        """`custom_id` with a `body`."""
        return "custom_id" in value and isinstance(value.get("body"), dict | str)
