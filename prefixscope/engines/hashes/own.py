"""prefixscope's own chain: one key per block that is equal in every process, on every machine, in every release.

    root   = xxh3_128("prefixscope/1" 00, block size, then each value of the namespace)
    key(i) = xxh3_128(key(i-1), token bytes of block i, then id and relative place of each media item in it)

Integers are 4 or 8 little-endian bytes, texts UTF-8 behind their length, so different inputs give different bytes.
Nothing depends on Python's hash(), the platform's byte order or the order of a set.
"""

from __future__ import annotations

import struct

import xxhash

from prefixscope.engines.hashes.keys import ChainOptions, KeyIdentity, full_blocks

__all__ = ["chain", "root"]


def _text(value: str) -> bytes:
    encoded = value.encode("utf-8", "surrogatepass")
    return struct.pack("<I", len(encoded)) + encoded


def _namespace(identity: KeyIdentity) -> tuple[str, ...]:
    if identity.namespace:
        return identity.namespace
    named = (
        ("adapter", identity.adapter_name),
        ("adapter_id", None if identity.adapter_id is None else str(identity.adapter_id)),
        ("salt", identity.salt),
        ("salt_id", None if identity.salt_id is None else str(identity.salt_id)),
        ("extra_key", identity.extra_key),
    )
    return tuple(f"{name}={value}" for name, value in named if value is not None)


def root(block_size: int, identity: KeyIdentity) -> bytes:
    """The parent of first blocks: what must be equal before keys may be equal."""
    values = b"".join(_text(value) for value in _namespace(identity))
    digest: bytes = xxhash.xxh3_128_digest(b"prefixscope/1\x00" + struct.pack("<I", block_size) + values)
    return digest


def _media(identity: KeyIdentity, start: int, end: int) -> bytes:
    spans = [span for span in identity.media if span.overlaps(start, end)]
    return b"".join(_text(span.identifier) + struct.pack("<q", span.offset - start) for span in spans)


def chain(tokens: bytes, block_size: int, identity: KeyIdentity, options: ChainOptions) -> list[bytes]:
    """Keys of 16 bytes, one per full block."""
    hash_bytes = xxhash.xxh3_128_digest
    parent = root(block_size, identity)
    keys = []
    for start, block in full_blocks(tokens, block_size):
        media = _media(identity, start, start + block_size) if identity.media else b""
        parent = hash_bytes(parent + block + media)
        keys.append(parent)
    return keys
