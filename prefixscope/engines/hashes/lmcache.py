"""LMCache's chunk hashes (0.5.6: v1/token_database.py and v1/multiprocess/token_hasher.py).

In process they borrow vLLM's hash functions but chain on the first 8 bytes of each digest as a number, and write "no
extra keys" as an empty tuple. The multiprocess server hashes bytes with BLAKE3. Neither hashes adapter, salt or
images: those are other fields of LMCache's key. Its default "builtin" is Python's own hash() and can't be reproduced
outside the process. Only full chunks are hashed here (`save_unfull_chunk` is off by default).
"""

from __future__ import annotations

import struct

from prefixscope.engines.hashes import vllm
from prefixscope.engines.hashes.keys import ChainOptions, KeyIdentity, full_blocks, token_list
from prefixscope.errors import OptionError

__all__ = ["blake3_chain", "blake3_root", "chain", "integer"]


def chain(algorithm: str, tokens: bytes, chunk_size: int, identity: KeyIdentity, options: ChainOptions) -> list[bytes]:
    """Chunk hashes as 8 big-endian bytes; version and seed of `options` are those of the vLLM it runs in."""
    hash_value = vllm.HASH_FUNCTIONS[algorithm]
    parent = vllm.root_hash(algorithm, options)[:8]
    keys = []
    for _, chunk in full_blocks(tokens, chunk_size):
        parent = hash_value((int.from_bytes(parent, "big"), tuple(token_list(chunk)), ()))[:8]
        keys.append(parent)
    return keys


def blake3_root() -> bytes:
    """The parent of first chunks: the hash of one token 0 behind a parent 0 written as a signed 64-bit number."""
    return _blake3(bytes(8) + bytes(4))


def _blake3(content: bytes) -> bytes:
    try:
        from blake3 import blake3
    except ImportError as error:
        raise OptionError("LMCache's multiprocess hashes need the package blake3 (pip install blake3)") from error
    digest: bytes = blake3(content).digest()
    return digest


def blake3_chain(tokens: bytes, chunk_size: int, identity: KeyIdentity, options: ChainOptions) -> list[bytes]:
    """Chunk digests (32 bytes) of the multiprocess server: blake3(parent || BE uint32 tokens)."""
    parent = blake3_root()
    digests = []
    for _, chunk in full_blocks(tokens, chunk_size):
        ids = token_list(chunk)
        parent = _blake3(parent + struct.pack(f">{len(ids)}I", *ids))
        digests.append(parent)
    return digests


def integer(key: bytes) -> int:
    """The chunk hash as the unsigned number in LMCache's keys (in process)."""
    return int.from_bytes(key[:8], "big")
