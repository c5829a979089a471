"""SGLang's page hashes, as its storage tiers and KV events use them (its radix tree compares tokens, not hashes).

Source: cpp_utils/hash_binding.cpp and mem_cache/utils.py of SGLang 0.5.23: h(i) = sha256(h(i-1) || token ids as LE
uint32), the parent of a first page being absent or the seed of its namespace. Ids of 2^32 and more, which SGLang tags
and writes in 8 bytes, cannot occur in uint32 tokens. Images must already be the pad values SGLang puts in the ids.
"""

from __future__ import annotations

import hashlib

from prefixscope.engines.hashes.keys import ChainOptions, KeyIdentity, full_blocks
from prefixscope.errors import OptionError

__all__ = ["event_chain", "event_integer", "event_seed", "page_hash", "storage_chain", "storage_seed"]


def storage_seed(extra_key: str | None, salt: str | None) -> bytes:
    """The parent of first pages in storage: empty without a namespace (mem_cache/utils.py:storage_namespace_seed).

    `extra_key` is the request's own key followed by its LoRA id.
    """
    if extra_key is None and salt is None:
        return b""
    seed = hashlib.sha256(b"sglang-cache-namespace-v1")
    for value in (extra_key, salt):
        if value is None:
            seed.update(b"\x00")
        else:
            encoded = value.encode("utf-8")
            seed.update(b"\x01" + len(encoded).to_bytes(8, "little") + encoded)
    return seed.digest()


def event_seed(salt: str | None) -> bytes:
    """The parent of first pages in KV events: only the salt separates, the extra key does not enter."""
    if salt is None:
        return b""
    return hashlib.sha256(b"sglang-cache-salt-v1\x00" + salt.encode("utf-8")).digest()


def page_hash(parent: bytes, words: bytes) -> bytes:
    """One link of the chain; `parent` is empty for a first page without a namespace."""
    return hashlib.sha256(parent + words).digest()


def _pairs(window: bytes) -> bytes:
    """Tokens a b c -> a b b c: the units of SGLang's EAGLE keys are pairs of neighbours."""
    return b"".join(window[at : at + 8] for at in range(0, len(window) - 4, 4))


def _chain(tokens: bytes, page_size: int, parent: bytes, eagle: bool) -> list[bytes]:
    digests = []
    for _, page in full_blocks(tokens, page_size, beyond=1 if eagle else 0):
        parent = page_hash(parent, _pairs(page) if eagle else page)
        digests.append(parent)
    return digests


def _refuse_media(identity: KeyIdentity) -> None:
    if identity.media:
        raise OptionError("SGLang replaces images by pad values in the token ids; give those ids instead")


def storage_chain(tokens: bytes, page_size: int, identity: KeyIdentity, options: ChainOptions) -> list[bytes]:
    """Keys of the pages in SGLang's storage tiers."""
    _refuse_media(identity)
    if identity.adapter_name is not None:
        raise OptionError("SGLang appends the adapter's id to the extra key; give the joined text as the extra key")
    return _chain(tokens, page_size, storage_seed(identity.extra_key, identity.salt), options.eagle)


def event_chain(tokens: bytes, page_size: int, identity: KeyIdentity, options: ChainOptions) -> list[bytes]:
    """Digests of the pages in SGLang's KV events; adapter and extra key do not enter them."""
    _refuse_media(identity)
    return _chain(tokens, page_size, event_seed(identity.salt), options.eagle)


def event_integer(digest: bytes) -> int:
    """The signed number KV events carry for a digest: its first 8 bytes (hash_str_to_int64)."""
    return int.from_bytes(digest[:8], "big", signed=True)
