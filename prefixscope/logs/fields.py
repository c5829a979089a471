"""Names under which logs carry what is not part of the request body, and how such values are read."""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from typing import Any

import orjson

from prefixscope.records import Json

__all__ = [
    "COUNT_END",
    "METADATA",
    "are_token_ids",
    "first_present",
    "named_field",
    "parsed_object",
    "status_of",
    "text_of",
    "token_ids",
]

COUNT_END = 2**40
"""Counts of tokens lie below this (2^40 is more than any request has), so that sums over a log fit into 64 bits."""

TIME = (
    "timestamp", "ts", "time", "timestamp_ms", "start", "start_time", "created_at", "request_time", "received_at",
    "request_created_at",
)  # fmt: skip
FIRST_TOKEN = ("first_token_at", "first_token_time")
FINISHED = ("finished_at", "end", "end_time", "finished")
FIRST_TOKEN_AFTER = (("ttft_ms", 10**6), ("ttft_s", 10**9), ("ttft", 10**9))
FINISHED_AFTER = (("duration_s", 10**9), ("duration_ms", 10**6), ("latency_ms", 10**6), ("total_time_ms", 10**6))
REQUEST_ID = ("request_id", "id", "custom_id")
SESSION = ("session_id", "session", "conversation_id", "thread_id")
TENANT = ("tenant", "user_id", "organization", "team")
REPLICA = ("replica", "replica_id", "worker_id", "instance")
STATUS = ("status", "status_code", "http_status", "response_status")
PATH = ("path", "endpoint", "url", "uri")
ADAPTER = ("adapter", "adapter_name", "lora_name")
OUTPUT_IDS = ("output_token_ids",)
OUTPUT_TOKENS = ("output_tokens",)

METADATA = frozenset({
    *TIME, *FIRST_TOKEN, *FINISHED, *REQUEST_ID, *SESSION, *TENANT, *REPLICA, *STATUS, *PATH, *ADAPTER,
    *OUTPUT_IDS, *OUTPUT_TOKENS, *(name for name, _ in FIRST_TOKEN_AFTER + FINISHED_AFTER),
    "response", "usage", "error", "method", "output",
})  # fmt: skip
"""Top-level fields of a native row that are not handed on with the request body."""


def first_present(value: Mapping[str, Json], names: tuple[str, ...]) -> Json:
    """The first of these fields that is there and not null."""
    found = named_field(value, names)
    return None if found is None else found[1]


def named_field(value: Mapping[str, Json], names: tuple[str, ...]) -> tuple[str, Any] | None:
    """Name and value of the first of these fields that is there and not null."""
    for name in names:
        held = value.get(name)
        if held is not None:
            return name, held
    return None


def text_of(value: Json) -> str | None:
    """An id or name as text; None for anything that is neither text nor a number.

    >>> text_of(7), text_of(""), text_of([1])
    ('7', '', None)
    """
    if isinstance(value, str):
        return value
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return str(value)


def adapter_of(value: Json) -> str | None:
    """An adapter's name; an object gives `name@version` (or its path)."""
    if isinstance(value, dict):
        name = text_of(first_present(value, ("name", "lora_name", "path")))
        version = text_of(value.get("version"))
        return name if name is None or version is None else f"{name}@{version}"
    return text_of(value) or None


def status_of(value: Json) -> int | None:
    """An HTTP status as an int; None where it is no such number.

    >>> status_of("429"), status_of("ok"), status_of(True)
    (429, None, None)
    """
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) == 3:
        return int(value)
    if isinstance(value, int) and not isinstance(value, bool) and 100 <= value <= 999:
        return value
    return None


def are_token_ids(value: Json) -> bool:
    """Whether this is a list of integers from 0 to 2^32 - 1.

    >>> are_token_ids([0, 2**32 - 1]), are_token_ids([-1]), are_token_ids([True]), are_token_ids([1.0])
    (True, False, False, False)
    """
    if not isinstance(value, list) or (value and set(map(type, value)) != {int}):
        return False
    try:
        array("I", value)
    except OverflowError:
        return False
    return True


def token_ids(value: Json) -> tuple[int, ...] | None:
    """The ids of a list, or None where it holds anything else."""
    return tuple(value) if are_token_ids(value) else None


def parsed_object(value: Json) -> Json:
    """A JSON object that may be logged as a string, even one encoded twice; anything else comes back unchanged."""
    from prefixscope.logs.lines import decode_line

    for _ in range(3):
        if not isinstance(value, str):
            return value
        text = value.strip()
        if text.startswith("{"):
            decoded = decode_line(text.encode())
            return decoded.values[0] if len(decoded.values) == 1 and decoded.fault is None else value
        if not text.startswith('"'):
            return value
        try:
            value = orjson.loads(text)
        except orjson.JSONDecodeError:
            return value
    return value
