"""TensorRT-LLM's block hashes, for both of its cache managers. Unverified: formulas from source, never run upstream.

V1 (cpp/tensorrt_llm/batch_manager/blockKey.cpp): a 64-bit mix over token ids. V2 (kv_cache_manager_v2): a SHA-256
chain whose root carries adapter number and salt number. Of V2's mask byte only the bit of the salt has a check value.
"""

from __future__ import annotations

import hashlib

from prefixscope.engines.hashes.keys import ChainOptions, KeyIdentity, full_blocks, token_list
from prefixscope.errors import OptionError

__all__ = ["integer", "v1_chain", "v1_hash", "v2_chain", "v2_root"]

WORD = (1 << 64) - 1
HALF_WORD = (1 << 32) - 1
GOLDEN = 0x9E3779B9


def _combine32(seed: int, value: int) -> int:
    value = (((value >> 16) ^ value) * 0x45D9F3B) & HALF_WORD
    value = (((value >> 16) ^ value) * 0x45D9F3B) & HALF_WORD
    value ^= value >> 16
    return seed ^ ((((value + GOLDEN) & HALF_WORD) + (seed << 6) + (seed >> 2)) & WORD)


def _combine64(seed: int, value: int) -> int:
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & WORD
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & WORD
    value ^= value >> 31
    return seed ^ ((value + GOLDEN + (seed << 6) + (seed >> 2)) & WORD)


def v1_hash(parent: int, tokens: bytes, adapter_id: int | None, salt_id: int | None) -> int:
    """One link of V1's chain; `parent` is 0 for the first block, the only one the salt enters."""
    ids = token_list(tokens)
    seed = len(ids) ^ ((parent * 0xBF58476D1CE4E5B9) & WORD)
    if parent == 0 and salt_id is not None:
        seed = _combine64(seed, salt_id)
    for token in ids:
        seed = _combine32(seed, token)
    return seed if adapter_id is None else _combine64(seed, adapter_id)


def _numbers(identity: KeyIdentity) -> tuple[int | None, int | None]:
    if identity.media:
        raise OptionError("TensorRT-LLM's hashes of blocks with images are not known well enough to compute them")
    if identity.adapter_name is not None and identity.adapter_id is None:
        raise OptionError(f"TensorRT-LLM hashes the adapter's number; give the number of '{identity.adapter_name}'")
    if identity.salt is not None and identity.salt_id is None:
        raise OptionError("TensorRT-LLM hashes a number it keeps for the salt; give that number")
    for name, number in (("adapter", identity.adapter_id), ("salt", identity.salt_id)):
        if number is not None and not 0 <= number <= WORD:
            raise OptionError(f"the {name} number of TensorRT-LLM must fit in 64 bits, not {number}")
    return identity.adapter_id, identity.salt_id


def v1_chain(tokens: bytes, block_size: int, identity: KeyIdentity, options: ChainOptions) -> list[bytes]:
    """V1 hashes as 8 big-endian bytes each."""
    adapter_id, salt_id = _numbers(identity)
    parent, keys = 0, []
    for _, block in full_blocks(tokens, block_size):
        parent = v1_hash(parent, block, adapter_id, salt_id)
        keys.append(parent.to_bytes(8, "big"))
    return keys


def v2_root(adapter_id: int | None, salt_id: int | None) -> bytes:
    """sha256(mask byte || present numbers as LE uint64): bit 0 adapter, bit 1 salt."""
    mask = (adapter_id is not None) | (salt_id is not None) << 1
    present = [number for number in (adapter_id, salt_id) if number is not None]
    return hashlib.sha256(bytes([mask]) + b"".join(number.to_bytes(8, "little") for number in present)).digest()


def v2_chain(tokens: bytes, block_size: int, identity: KeyIdentity, options: ChainOptions) -> list[bytes]:
    """V2 digests of 32 bytes."""
    parent = v2_root(*_numbers(identity))
    digests = []
    for _, block in full_blocks(tokens, block_size):
        parent = hashlib.sha256(parent + block).digest()
        digests.append(parent)
    return digests


def integer(key: bytes) -> int:
    """V1's hash as the unsigned number of its events."""
    return int.from_bytes(key, "big")
