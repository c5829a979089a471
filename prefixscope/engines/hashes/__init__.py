"""Block-hash chains, bit-exact: vLLM, SGLang, Dynamo, TensorRT-LLM, LMCache, and prefixscope's own.

    tokens + block size + identity + options  --block_chain(name)-->  one key per full block

Every analysis that needs an engine's hash takes it from here, so there is one implementation per hash.
"""

from prefixscope.engines.hashes.keys import ChainOptions, KeyIdentity, MediaSpan
from prefixscope.engines.hashes.registry import (
    ALGORITHMS,
    BlockChain,
    HashAlgorithm,
    assumptions,
    block_chain,
    default_algorithm,
)
from prefixscope.engines.hashes.roots import root_of

__all__ = [
    "ALGORITHMS",
    "BlockChain",
    "ChainOptions",
    "HashAlgorithm",
    "KeyIdentity",
    "MediaSpan",
    "assumptions",
    "block_chain",
    "default_algorithm",
    "root_of",
]
