"""NVIDIA Dynamo's block hashes, which its KV router matches on (lib/tokens of Dynamo 1.6.1).

Local hash: xxh3_64(LE uint32 tokens || sorted LE uint64 media hashes, seed), where the seed carries adapter and
namespace. Sequence hash: S(0) = L(0), S(i) = xxh3_64(S(i-1) || L(i), 1337). Places of media inside a block are ignored.
"""

from __future__ import annotations

import struct

import xxhash

from prefixscope.engines.hashes.keys import ChainOptions, KeyIdentity, full_blocks
from prefixscope.errors import OptionError

__all__ = ["integer", "local_chain", "local_hashes", "sequence_chain", "sequence_hashes"]

BASE_SEED = 1337
WORD = 1 << 64


def _seed(identity: KeyIdentity) -> int:
    seed = BASE_SEED
    if identity.adapter_name is not None:
        seed += xxhash.xxh3_64_intdigest(identity.adapter_name.encode("utf-8"), seed=0)
    if identity.extra_key is not None:
        seed += xxhash.xxh3_64_intdigest(identity.extra_key.encode("utf-8"), seed=1)
    return seed % WORD


def _media_words(identity: KeyIdentity, start: int, end: int) -> bytes:
    numbers = []
    for span in identity.media:
        if not span.overlaps(start, end):
            continue
        try:
            number = int(span.identifier, 16)
        except ValueError:
            number = WORD
        if not 0 <= number < WORD:
            raise OptionError(f"Dynamo's media hashes are 64-bit numbers in hex, not '{span.identifier}'")
        numbers.append(number)
    return struct.pack(f"<{len(numbers)}Q", *sorted(numbers))


def local_hashes(tokens: bytes, block_size: int, identity: KeyIdentity, eagle: bool = False) -> list[int]:
    """Hash of each full block by itself; `eagle`: windows of block + 1 tokens, one block apart."""
    seed = _seed(identity)
    hash_bytes = xxhash.xxh3_64_intdigest
    blocks = full_blocks(tokens, block_size, beyond=1 if eagle else 0)
    if not identity.media:
        return [hash_bytes(block, seed=seed) for _, block in blocks]
    return [hash_bytes(block + _media_words(identity, start, start + block_size), seed=seed) for start, block in blocks]


def sequence_hashes(local: list[int]) -> list[int]:
    """The chain over local hashes: which block behind which prefix."""
    chained = local[:1]
    for own in local[1:]:
        chained.append(xxhash.xxh3_64_intdigest(struct.pack("<QQ", chained[-1], own), seed=BASE_SEED))
    return chained


def _as_keys(numbers: list[int]) -> list[bytes]:
    return [number.to_bytes(8, "big") for number in numbers]


def local_chain(tokens: bytes, block_size: int, identity: KeyIdentity, options: ChainOptions) -> list[bytes]:
    """Local hashes as 8 big-endian bytes each."""
    return _as_keys(local_hashes(tokens, block_size, identity, options.eagle))


def sequence_chain(tokens: bytes, block_size: int, identity: KeyIdentity, options: ChainOptions) -> list[bytes]:
    """Sequence hashes as 8 big-endian bytes each."""
    return _as_keys(sequence_hashes(local_hashes(tokens, block_size, identity, options.eagle)))


def integer(key: bytes) -> int:
    """The unsigned number Dynamo's interfaces show."""
    return int.from_bytes(key, "big")
