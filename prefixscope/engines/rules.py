"""The match rules that need nothing but sizes: cached tokens of every row as one vectorised expression.

All of them describe one infinite cache that serves requests one after another. A row that may not read the cache
(prompt log-probabilities in vLLM, for one) takes nothing from it, but fills it: later rows share with it.
"""

from __future__ import annotations

import numpy as np

from prefixscope.engines.profile import EngineProfile
from prefixscope.index.lineage import Int64, Lineage

__all__ = [
    "SIZE_RULES",
    "bigram_pages",
    "findable_tokens",
    "full_units",
    "lookahead_blocks",
    "router_blocks",
    "token_granular",
    "whole_symbols",
]


def findable_tokens(lineage: Lineage, profile: EngineProfile) -> Int64:
    """S as this engine sees it: against earlier sequences, or against earlier prompts where outputs are not kept.

    In a hash trace an equal id may stand for a partly filled block of the earlier request. An engine with full blocks
    never stored that one, so for every engine but the trace itself S ends where the earlier prompt ends.
    """
    shared = lineage.shared_tokens if profile.stores_output else lineage.shared_prompt_tokens
    if not profile.recomputes_last_token or not (lineage.unit > 1).any():
        return shared
    earlier = np.where(lineage.parent_row >= 0, lineage.prompt_tokens[lineage.parent_row], 0)
    return np.where(lineage.unit > 1, np.minimum(shared, earlier), shared)


def _granted(lineage: Lineage, profile: EngineProfile, tokens: Int64) -> Int64:
    """Nothing below zero, below the engine's minimum, or for rows that do not read the cache."""
    cached = np.maximum(tokens, 0)
    if profile.minimum_tokens:
        cached = np.where(cached >= profile.minimum_tokens, cached, 0)
    return np.where(lineage.reads_cache, cached, 0).astype(np.int64)


def full_units(lineage: Lineage, profile: EngineProfile) -> Int64:
    """`max(min(S, P-1)//U*U - E*U, 0)`: full units match, the last prompt token is always recomputed.

    vLLM 0.11 to 0.33 (v1/core/kv_cache_manager.py: max_cache_hit_length = num_tokens - 1), SGLang without EAGLE
    (schedule_batch.py: _compute_max_prefix_len), vLLM Ascend, TensorRT-LLM without partial reuse.
    """
    unit = profile.match_unit
    found = np.minimum(findable_tokens(lineage, profile), lineage.prompt_tokens - 1)
    return _granted(lineage, profile, found // unit * unit - profile.drop_units * unit)


def lookahead_blocks(lineage: Lineage, profile: EngineProfile) -> Int64:
    """`max((min(S, P) - L)//U*U, 0)`: a block's hash covers the L tokens after it, so they must be there and agree.

    vLLM 0.33 with EAGLE or MTP on a single node (v1/core/kv_cache_utils.py: lookahead block hashes).
    """
    unit = profile.match_unit
    found = np.minimum(findable_tokens(lineage, profile), lineage.prompt_tokens) - profile.lookahead_tokens
    return _granted(lineage, profile, found // unit * unit)


def bigram_pages(lineage: Lineage, profile: EngineProfile) -> Int64:
    """`min(S-1, P-2)//U*U`: with EAGLE, SGLang's keys are pairs of neighbouring tokens, so one token less matches."""
    unit = profile.match_unit
    found = np.minimum(findable_tokens(lineage, profile) - 1, lineage.prompt_tokens - 2)
    return _granted(lineage, profile, found // unit * unit)


def token_granular(lineage: Lineage, profile: EngineProfile) -> Int64:
    """`min(S, P-1)`: the longest common prefix to the token, but the last prompt token is recomputed.

    TensorRT-LLM with partial reuse, llama.cpp's server.
    """
    return _granted(lineage, profile, np.minimum(findable_tokens(lineage, profile), lineage.prompt_tokens - 1))


def router_blocks(lineage: Lineage, profile: EngineProfile) -> Int64:
    """`min(S, P)//U*U`: full blocks without the last-token rule, as a router that only hashes counts them."""
    unit = profile.match_unit
    found = np.minimum(findable_tokens(lineage, profile), lineage.prompt_tokens)
    return _granted(lineage, profile, found // unit * unit)


def whole_symbols(lineage: Lineage, profile: EngineProfile) -> Int64:
    """`min(S, P)`: one symbol of the log is one block, the partly filled last one included; no last-token rule."""
    return _granted(lineage, profile, np.minimum(findable_tokens(lineage, profile), lineage.prompt_tokens))


SIZE_RULES = frozenset({full_units, lookahead_blocks, bigram_pages, token_granular, router_blocks, whole_symbols})
"""The rules above: they read sizes and what is shared of each row, and nothing else."""
