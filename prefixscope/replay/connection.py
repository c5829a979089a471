"""Whom the client talks to, how patiently, and what became of a call."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal
from urllib.parse import urlsplit

from prefixscope.errors import OptionError
from prefixscope.replay.measurement import Reading

__all__ = ["Address", "ClientLimits", "Outcome", "State"]

State = Literal["done", "refused", "unknown", "cut"]


@dataclass(frozen=True, slots=True)
class Address:
    """An endpoint: `root` has the control pages, `api` the OpenAI ones; neither holds a password or a query."""

    root: str
    api: str

    @classmethod
    def of(cls, url: str) -> Address:
        """From what the user wrote, with or without /v1.

        >>> Address.of("http://gpu-7:8000/v1/")
        Address(root='http://gpu-7:8000', api='http://gpu-7:8000/v1')
        """
        parts = urlsplit(url if "//" in url else f"http://{url}")
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise OptionError("--endpoint: write http://HOST:PORT/v1 or https://...")
        if parts.username is not None or parts.password is not None or parts.query:
            raise OptionError("--endpoint: no password, key or query in the address (--api-key-env names a variable)")
        root = f"{parts.scheme}://{parts.netloc}{parts.path}".rstrip("/").removesuffix("/v1")
        return cls(root, f"{root}/v1")


@dataclass(frozen=True, slots=True)
class ClientLimits:
    """How patient and how fast the client is. Seconds; `rate` calls per second at most; `attempts` per call.

    `first_token_s` waits for the first token (prefill and queue), `stall_s` between two pieces of a stream.
    """

    connect_s: float = 10.0
    first_token_s: float = 600.0
    stall_s: float = 120.0
    attempts: int = 8
    backoff_s: float = 0.5
    longest_backoff_s: float = 30.0
    rate: float | None = None
    concurrency: int = 512


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one call.

    `state`: done; refused (it never reached prefill); cut (prefill happened, the answer broke off); unknown (it may or
    may not have been prefilled). `sent_s` is when the last attempt's bytes were handed over, `accepted_s` when the head
    of the answer came back. `client_s` is this tool's own work. `token_s` are the times of every piece that brought
    generated tokens, with how many it brought.
    """

    state: State
    error: str | None
    attempts: int
    sent_s: float
    accepted_s: float | None
    first_token_s: float | None
    finished_s: float
    token_s: tuple[tuple[float, int], ...]
    client_s: float
    reading: Reading
