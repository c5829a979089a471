"""LMCache behind vLLM: chunks of 256 tokens in CPU memory or storage."""

from __future__ import annotations

import numpy as np

from prefixscope.engines.profile import EngineOptions, EngineProfile, Fact, Rule
from prefixscope.engines.rules import findable_tokens
from prefixscope.engines.versions import parse_version
from prefixscope.errors import OptionError
from prefixscope.index.lineage import Int64, Lineage
from prefixscope.index.topology import Topology

__all__ = ["full_chunks", "lmcache", "unfull_chunks"]

DEFAULT_VERSION = "0.5"

FACTS = (
    Fact(
        "match rule",
        "full chunks of the whole prompt: min(S, P) // 256 * 256; one token less when that is the whole prompt",
        "vllm_v1_adapter.py: get_num_new_matched_tokens",
        "0.5.6",
        "source read",
    ),
    Fact("block size", "chunk_size 256", "config.py", "0.5.6", "source read"),
    Fact(
        "unfull chunk",
        "with save_unfull_chunk a prompt's partly filled last chunk is stored too and hits for the same prompt only",
        "config.py: save_unfull_chunk (default off)",
        "0.5.6",
        "source read",
    ),
    Fact(
        "generated tokens",
        "stored only with save_decode_cache (default off)",
        "config.py: save_decode_cache",
        "0.5.6",
        "source read",
    ),
    Fact(
        "together with the engine",
        "the request's cached tokens are the larger of the engine's own hit and LMCache's",
        "vllm_v1_adapter.py: need = hit - local",
        "0.5.6",
        "source read",
    ),
    Fact(
        "visibility",
        "after the engine has computed and saved a chunk",
        "vllm_v1_adapter.py",
        "0.5.6",
        "source read",
    ),
)


def full_chunks(lineage: Lineage, profile: EngineProfile) -> Int64:
    """`min(S, P)//C*C`, one token less where that is the whole prompt."""
    chunk = profile.match_unit
    found = np.minimum(findable_tokens(lineage, profile), lineage.prompt_tokens) // chunk * chunk
    return _spare_last(lineage, found)


def unfull_chunks(lineage: Lineage, profile: EngineProfile) -> Int64:
    """As `full_chunks`, and a prompt that was seen before as a whole hits with its partly filled last chunk as well."""
    tree = Topology.of(lineage)
    seen: set[int] = set()
    found = np.minimum(findable_tokens(lineage, profile), lineage.prompt_tokens)
    found = found // profile.match_unit * profile.match_unit
    for row, node in enumerate(tree.prompt_node):
        if node in seen:
            found[row] = lineage.prompt_tokens[row]
        seen.add(node)
    return _spare_last(lineage, found)


def _spare_last(lineage: Lineage, found: Int64) -> Int64:
    spared = np.where(found == lineage.prompt_tokens, found - 1, found)
    return np.where(lineage.reads_cache, np.maximum(spared, 0), 0).astype(np.int64)


def lmcache(version: str | None, options: EngineOptions) -> EngineProfile:
    """What LMCache alone would serve, with every chunk it ever stored still there."""
    known = "0.5"
    number = parse_version("lmcache", version or DEFAULT_VERSION, known)
    if number[:2] != (0, 5):
        raise OptionError(f"--engine lmcache@{version}: this version is not known (known: {known})")
    chunk = options.block_size or 256
    rule: Rule = unfull_chunks if options.save_unfull_chunk else full_chunks
    return EngineProfile(
        name="lmcache",
        version=version or DEFAULT_VERSION,
        block_size=chunk,
        match_unit=options.match_unit or chunk,
        match_unit_why=f"chunk_size ({chunk})",
        rule=rule,
        stores_output=options.save_decode_cache,
        partial_reuse=options.save_unfull_chunk,
        visible="prefill_end",
        unhashed_first=False,
        platform=options.platform or "nvidia",
        facts=FACTS,
        assumed=("LMCache's rules were read in its source, not seen running",),
    )
