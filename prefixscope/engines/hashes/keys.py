"""What enters a block key besides tokens, and how the blocks of a prompt are cut: shared by all hash algorithms."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from prefixscope.errors import OptionError
from prefixscope.records import Identity, Json, LoggedRequest

__all__ = ["ChainFunction", "ChainOptions", "KeyIdentity", "MediaSpan", "block_bounds", "full_blocks", "token_list"]

TOKEN_BYTES = 4
"""Bytes per token id: token ids travel as little-endian uint32."""


@dataclass(frozen=True, slots=True)
class MediaSpan:
    """An image, sound or video among the tokens: its content id and the placeholder tokens it covers."""

    identifier: str
    offset: int
    length: int

    def overlaps(self, start: int, end: int) -> bool:
        """Whether any placeholder lies in tokens [start, end)."""
        return self.offset < end and start < self.offset + self.length


@dataclass(frozen=True, slots=True)
class KeyIdentity:
    """What separates equal tokens, in the ingredients engines hash. Each algorithm reads the fields it knows.

    `adapter_name`, `adapter_path`, `adapter_id`: the LoRA adapter as the engine was told of it (vLLM >= 0.31 hashes
    name and path, TensorRT-LLM the number). `salt`: `cache_salt` as sent; `salt_id` the number TensorRT-LLM keeps for
    it. `extra_key`: SGLang's `extra_key`, Dynamo's `cache_namespace`. `media`: spans sorted by offset.
    `namespace`: everything that must be equal before KV may be shared; only the chain `prefixscope` reads it.
    """

    adapter_name: str | None = None
    adapter_path: str | None = None
    adapter_id: int | None = None
    salt: str | None = None
    salt_id: int | None = None
    extra_key: str | None = None
    media: tuple[MediaSpan, ...] = ()
    namespace: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        request: LoggedRequest,
        identity: Identity,
        *,
        adapter_paths: Mapping[str, str] | None = None,
        adapter_ids: Mapping[str, int] | None = None,
        media: tuple[MediaSpan, ...] = (),
    ) -> KeyIdentity:
        """The ingredients of a logged request. Paths and numbers of adapters are by the name the engine knows.

        Salt and extra key are read from the request itself: an `Identity` only has keyed hashes of them, which differ
        from run to run. Keys made from them are as telling about a salt as the engine's own hashes are.

        >>> from prefixscope.records import Source
        >>> request = LoggedRequest(Source("a", 1), "tokens", {"cache_salt": "red"})
        >>> made = KeyIdentity.of(request, Identity("qwen", adapter="de@3", salt="9f"), adapter_paths={"de": "/de"})
        >>> made.adapter_name, made.adapter_path, made.salt
        ('de', '/de', 'red')
        """
        name = None
        if identity.adapter is not None:
            name = request.adapter or identity.adapter.partition("@")[0]
        salt, extra_key = _text(request.body.get("cache_salt")), _text(request.body.get("extra_key"))
        extra = (f"extra_key={extra_key}" if item.startswith("extra_key=") else item for item in identity.extra)
        return cls(
            adapter_name=name,
            adapter_path=None if name is None else (adapter_paths or {}).get(name),
            adapter_id=None if name is None else (adapter_ids or {}).get(name),
            salt=salt,
            extra_key=extra_key,
            media=media,
            namespace=replace(identity, salt=salt, extra=tuple(extra)).namespace,
        )


def _text(value: Json) -> str | None:
    if value is None or value in ("", []):
        return None
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True, separators=(",", ":"))


@dataclass(frozen=True, slots=True)
class ChainOptions:
    """How the engine was set up, as far as its hashes depend on it.

    `version`: the engine's version ("0.32"); None is the newest one whose rules were read. `seed`: the engine's
    PYTHONHASHSEED; None means it was not set. `lookahead`: following tokens each vLLM block hash covers (0.33 with
    EAGLE or MTP: 1, or the number of speculative tokens for a many-headed MTP). `eagle`: SGLang and Dynamo hash pairs
    or windows of block + 1 tokens.
    """

    version: str | None = None
    seed: str | None = None
    lookahead: int = 0
    eagle: bool = False

    def __post_init__(self) -> None:
        if self.lookahead < 0:
            raise OptionError(f"lookahead must be 0 or more, not {self.lookahead}")


ChainFunction = Callable[[bytes, int, KeyIdentity, ChainOptions], list[bytes]]
"""tokens (little-endian uint32), block size in tokens, identity, options -> one key per full block."""


def block_bounds(count: int, block_size: int, beyond: int = 0) -> Iterator[tuple[int, int]]:
    """First and end token of each full block of `count` tokens behind which `beyond` tokens follow.

    >>> list(block_bounds(8, 4)), list(block_bounds(8, 4, beyond=1))
    ([(0, 4), (4, 8)], [(0, 4)])
    """
    if block_size < 1:
        raise OptionError(f"a block must hold at least one token, not {block_size}")
    for start in range(0, count - block_size - beyond + 1, block_size):
        yield start, start + block_size


def full_blocks(tokens: bytes, block_size: int, beyond: int = 0) -> Iterator[tuple[int, bytes]]:
    """First token and bytes of each full block, with the `beyond` tokens that must follow it.

    >>> [(start, len(block) // 4) for start, block in full_blocks(bytes(4 * 9), 4, beyond=1)]
    [(0, 5), (4, 5)]
    """
    for start, end in block_bounds(len(tokens) // TOKEN_BYTES, block_size, beyond):
        yield start, tokens[start * TOKEN_BYTES : (end + beyond) * TOKEN_BYTES]


def token_list(tokens: bytes) -> list[int]:
    """Token ids as Python ints, for the algorithms that serialise them one by one."""
    ids: list[int] = np.frombuffer(tokens, dtype="<u4").tolist()
    return ids
