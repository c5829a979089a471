"""Short ways to ask for a chain in tests, and the identities they share."""

from __future__ import annotations

import struct

from prefixscope.engines.hashes import ChainOptions, KeyIdentity, MediaSpan, block_chain


def ids(*tokens: int) -> bytes:
    return struct.pack(f"<{len(tokens)}I", *tokens)


def hexes(name: str, tokens: bytes, size: int, identity: KeyIdentity | None = None, **options: object) -> list[str]:
    return block_chain(name, tokens, size, identity, ChainOptions(**options)).hex  # type: ignore[arg-type]


def integers(name: str, tokens: bytes, size: int, identity: KeyIdentity | None = None, **options: object) -> list[int]:
    chain = block_chain(name, tokens, size, identity, ChainOptions(**options))  # type: ignore[arg-type]
    assert chain.integers is not None
    return list(chain.integers)


TWO_BLOCKS = ids(*range(32))
SALTED = KeyIdentity(salt="tenant-a")
ADAPTED = KeyIdentity(adapter_name="ad1", adapter_path="/p/ad1", adapter_id=1)
PICTURED = KeyIdentity(media=(MediaSpan("imghash", 4, 5),))
