"""The parent of first blocks, where an algorithm has one that may be shown."""

from __future__ import annotations

from prefixscope.engines.hashes import lmcache, own, tensorrt_llm, vllm
from prefixscope.engines.hashes.keys import ChainOptions, KeyIdentity

__all__ = ["root_of"]


def root_of(name: str, block_size: int, identity: KeyIdentity, options: ChainOptions) -> bytes | None:
    """The key that first blocks are chained to; None where there is none, or where it would tell of a secret.

    vLLM (NONE_HASH) and LMCache start every chain from one value. TensorRT-LLM's V2 and `prefixscope` put the identity
    into theirs: with a salt or an extra key such a root is a hash of that secret and of nothing else worth guessing, so
    it is kept back. SGLang without a namespace and Dynamo start from nothing.

    >>> root_of("vllm-sha256", 16, KeyIdentity(), ChainOptions()).hex()[:8]
    '066b1e89'
    """
    if name == "lmcache-blake3":
        return lmcache.blake3_root()
    if name.startswith("vllm-"):
        return vllm.root_hash(name.removeprefix("vllm-"), options)
    if name.startswith("lmcache-"):
        return vllm.root_hash(name.removeprefix("lmcache-"), options)[:8]
    if identity.salt is not None or identity.extra_key is not None:
        return None
    if name == "tensorrt-llm-v2":
        return tensorrt_llm.v2_root(identity.adapter_id, identity.salt_id)
    return own.root(block_size, identity) if name == "prefixscope" else None
