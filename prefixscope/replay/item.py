"""What is replayed: one logged request with its prompt as token ids, and what was sent for it."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from prefixscope.records import Json, LoggedRequest, Prompt

__all__ = ["ReplayItem", "SentRow", "ids_of", "replay_item", "tokens_of"]

ItemKind = Literal["chat", "text", "tokens"]
SYMBOL = 4


def tokens_of(ids: Iterable[int]) -> bytes:
    """Token ids as little-endian uint32.

    >>> tokens_of([1, 258]).hex()
    '0100000002010000'
    """
    return array("I", ids).tobytes()


def ids_of(tokens: bytes) -> list[int]:
    """The reverse of `tokens_of`.

    >>> ids_of(tokens_of([7, 8]))
    [7, 8]
    """
    values = array("I")
    values.frombytes(tokens)
    return values.tolist()


@dataclass(frozen=True, slots=True)
class ReplayItem:
    """One logged request to send again.

    `row` is its row number in the log. `body` are the logged fields in logged order (empty for token ids alone).
    `tokens` are the prompt's token ids as this tool rendered them, without any output. `model` is the name the
    endpoint knows the weights (or the adapter) by. `output_tokens` is the length of the logged answer, if known.
    """

    row: int
    kind: ItemKind
    body: Mapping[str, Json]
    tokens: bytes
    model: str
    session_id: str | None = None
    time_ns: int | None = None
    output_tokens: int | None = None
    request_id: str | None = None

    def __post_init__(self) -> None:
        assert self.tokens and len(self.tokens) % SYMBOL == 0

    @property
    def prompt_tokens(self) -> int:
        """P, the prompt's length in tokens."""
        return len(self.tokens) // SYMBOL


def replay_item(row: int, request: LoggedRequest, prompt: Prompt, model: str) -> ReplayItem | None:
    """The item of a logged request; None for rows without token ids (hashes, lengths), which nothing can replay.

    `model` is the name the endpoint serves it under (an adapter's own name for a request to that adapter).
    """
    tokens = prompt.tokens[: prompt.prompt_tokens * SYMBOL]
    if request.kind not in ("chat", "text", "tokens") or len(tokens) < prompt.prompt_tokens * SYMBOL or not tokens:
        return None
    logged = None if request.usage is None else request.usage.output_tokens
    ids = request.output_token_ids
    return ReplayItem(
        row=row,
        kind=request.kind,
        body=request.body,
        tokens=tokens,
        model=model,
        session_id=request.session_id,
        time_ns=request.time_ns,
        output_tokens=logged if ids is None else len(ids),
        request_id=request.request_id,
    )


@dataclass(frozen=True, slots=True)
class SentRow:
    """One request as the endpoint got it, since the last cold start: what predictions are made of.

    `tokens` are the prompt's ids and the known generated ids without the last sampled one; `prompt_tokens` P and
    `sequence_tokens` T as everywhere. `stored`: True when the endpoint surely prefilled it, False when it surely did
    not, None when nobody knows (it failed halfway). Times are seconds of one clock.
    """

    namespace: tuple[str, ...]
    tokens: bytes
    prompt_tokens: int
    sequence_tokens: int
    stored: bool | None = True
    sent_s: float = 0.0
    accepted_s: float | None = None
    first_token_s: float | None = None
    finished_s: float = 0.0
