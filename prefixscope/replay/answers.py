"""Reading an endpoint's answers: events of a stream, error messages, how long to wait."""

from __future__ import annotations

import email.utils
import json
import time
from collections.abc import AsyncIterator, Mapping
from typing import Any

import httpx

__all__ = ["BrokenError", "NotSentError", "RefusedError", "data_lines", "decoded", "message_of", "retry_after"]


class NotSentError(Exception):
    """The call never reached prefill and may be tried again; `wait_s` if the server said when."""

    def __init__(self, reason: str, wait_s: float | None = None) -> None:
        super().__init__(reason)
        self.wait_s = wait_s


class RefusedError(Exception):
    """The endpoint does not want this call; another one may be fine."""


class BrokenError(Exception):
    """The endpoint failed; nobody knows whether it prefilled."""


async def data_lines(response: httpx.Response) -> AsyncIterator[str]:
    async for line in response.aiter_lines():
        if line.startswith("data:"):
            yield line[5:].strip()


def decoded(data: str | bytes) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise BrokenError("the endpoint sent something that is not JSON") from error


def message_of(text: str) -> str:
    """The error's own words, at most 200 characters of them."""
    try:
        found = json.loads(text)
        error = found.get("error", found)
        message = error.get("message", "") if isinstance(error, Mapping) else str(error)
    except (ValueError, AttributeError, RecursionError):
        message = text
    return " ".join(str(message).split())[:200]


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds to wait as the server asked: a number, or an HTTP date."""
    value = headers.get("retry-after", "").strip()
    if value.isdigit():
        return float(value)
    try:
        when = email.utils.parsedate_to_datetime(value)
    except ValueError:
        return None
    return max(when.timestamp() - time.time(), 0.0)
