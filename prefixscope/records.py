"""What goes in: the frozen records that cross package borders on the way from a log line to the prefix tree.

    log line -> LoggedRequest -> Conversation -> Prompt -> leaf of the prefix tree

Times are integer nanoseconds UTC. Token ids travel as `bytes` of little-endian uint32, never as lists.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

__all__ = [
    "LARGEST_BLOCK",
    "MEDIA_TOKEN",
    "Conversation",
    "Identity",
    "Json",
    "LoggedRequest",
    "Part",
    "Prompt",
    "Source",
    "Usage",
]

Json = Any
"""A decoded JSON value. Objects keep the key order of the log."""

MEDIA_TOKEN = 1 << 31
"""Tokens with this bit stand for a piece of an image, of audio or video; no vocabulary reaches so far."""

LARGEST_BLOCK = 1 << 20
"""No engine has blocks of a million tokens; larger numbers are slips, and sums over them would leave 64 bits."""

RequestKind = Literal["chat", "text", "tokens", "hashes", "lengths"]
OutputKnowledge = Literal["ids", "text", "length", "unknown"]
PartKind = Literal["template", "tools", "system", "message", "generation"]


@dataclass(frozen=True, slots=True)
class Source:
    """Where a request was logged: the path as the user named it, and the 1-based line."""

    file: str
    line: int


@dataclass(frozen=True, slots=True)
class Usage:
    """Token counts the log itself carries, normalised. None is unknown, which is not zero."""

    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    output_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class LoggedRequest:
    """One prompt of one logged API call, before rendering.

    `kind` says where the prompt is found in `body` (the request's own fields in logged key order):

    - chat: `messages` (and `tools`, `documents`, `chat_template_kwargs`, ...)
    - text: `prompt`, a string
    - tokens: `prompt_token_ids`, a list of ints; or `prompt_embeds`, one text that stands for as many tokens as `usage`
      says
    - hashes: `hash_ids`, one int per `unit` tokens, with `input_length`
    - lengths: only `input_length` is known

    `tier` grades the evidence: 1 token ids, 2 templated prompt text, 3 raw wire body, 4 re-serialised messages,
    5 hash ids, 6 lengths or usage only. `unit` is the number of tokens one symbol stands for (1 but for hashes).
    `hash_scope` names the session whose ids these are, when hash ids are local to it.
    `response` is the answer as logged: a string, an assistant message, or None.
    `prompts_in_call` is how many prompts the API call held; a call with several becomes one record per prompt.
    """

    source: Source
    kind: RequestKind
    body: Mapping[str, Json]
    request_id: str | None = None
    time_ns: int | None = None
    first_token_ns: int | None = None
    finished_ns: int | None = None
    model: str | None = None
    adapter: str | None = None
    response: Json = None
    output_token_ids: tuple[int, ...] | None = None
    usage: Usage | None = None
    session_id: str | None = None
    tenant: str | None = None
    replica: str | None = None
    status: int | None = None
    tier: int = 3
    unit: int = 1
    n: int = 1
    prompts_in_call: int = 1
    hash_scope: str | None = None


@dataclass(frozen=True, slots=True)
class Conversation:
    """What is handed to the chat template, after the engine's own wire conversion."""

    messages: tuple[Mapping[str, Json], ...]
    tools: tuple[Json, ...] | None = None
    documents: tuple[Json, ...] | None = None
    options: Mapping[str, Json] = field(default_factory=dict)
    add_generation_prompt: bool = True
    continue_final_message: bool = False


@dataclass(frozen=True, slots=True)
class Identity:
    """What decides whether two equal token sequences may share KV.

    `namespace` holds everything that must be equal; `pool` names who shares memory. Tokenizer and template act
    through the token ids: their fingerprints are recorded, they do not separate.
    """

    base_model: str
    adapter: str | None = None
    tokenizer: str | None = None
    template: str | None = None
    position: str | None = None
    salt: str | None = None
    extra: tuple[str, ...] = ()

    @property
    def namespace(self) -> tuple[str, ...]:
        """The values that must all be equal before KV may be shared, in a fixed order.

        >>> Identity("qwen", adapter="a@1").namespace == Identity("qwen").namespace
        False
        """
        return (
            self.base_model,
            self.position or "",
            "" if self.adapter is None else f"adapter={self.adapter}",
            "" if self.salt is None else f"salt={self.salt}",
            *self.extra,
        )

    @property
    def pool(self) -> str:
        """Who shares KV memory: the base model's deployment (its replicas are told apart by the row's `replica`)."""
        return self.base_model


@dataclass(frozen=True, slots=True)
class Part:
    """A stretch of the rendered prompt *text* and where it came from; `index` counts messages or tools from 0."""

    kind: PartKind
    index: int | None
    start_char: int
    end_char: int


@dataclass(frozen=True, slots=True)
class Prompt:
    """One request as the engine sees it: token ids of everything whose identity is known.

    `tokens` are little-endian uint32 ids of the prompt and of the known generated tokens without the last sampled
    one. `prompt_tokens` P and `sequence_tokens` T = P + O - 1 (P when nothing was generated) count tokens, also where
    the ids of the output are unknown: then `tokens` ends early and the rest of T occupies memory but matches nothing.
    For hash rows every symbol of `tokens` stands for `unit` tokens.
    """

    tokens: bytes
    prompt_tokens: int
    sequence_tokens: int
    identity: Identity
    output: OutputKnowledge = "unknown"
    unit: int = 1
    text: str | None = None
    parts: tuple[Part, ...] = ()
    reads_cache: bool = True
    n: int = 1

    def __post_init__(self) -> None:
        assert len(self.tokens) % 4 == 0
        assert 0 <= self.prompt_tokens <= self.sequence_tokens
