"""KV groups of a model, read from its config.json: which layers attend to everything, slide, or carry a state.

The facts are the model's; how they become groups is vLLM's (v1/core/kv_cache_utils.py, platforms/interface.py:
_align_hybrid_block_size; read in 0.32.0).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from prefixscope.engines.layer_kinds import LayerKind, layer_kinds, text_config
from prefixscope.engines.profile import CacheGroup, EngineOptions
from prefixscope.engines.state_bytes import attention_token_bytes, state_bytes

__all__ = ["Layout", "ModelGroups", "attends_to_everything", "model_groups"]


@dataclass(frozen=True, slots=True)
class Layout:
    """How the engine holds the model: ranks of tensor parallelism, bytes per KV element, drafted tokens per step.

    `kernel_block`: the smallest block of the attention kernel, `context_parallel`: ranks that share a block's tokens.
    """

    tensor_parallel: int = 1
    kv_bytes: int = 2
    speculative_tokens: int = 0
    kernel_block: int = 16
    context_parallel: int = 1


@dataclass(frozen=True, slots=True)
class ModelGroups:
    """The groups, the reason for their block size in words, and what could not be read or is not modelled."""

    groups: tuple[CacheGroup, ...]
    why: str = ""
    assumed: tuple[str, ...] = ()


def model_groups(config: Mapping[str, Any], block_size: int, layout: Layout = Layout()) -> ModelGroups:
    """The KV groups of a model under a configured block size; plain full attention gives one group.

    >>> config = {"num_hidden_layers": 4, "sliding_window": 128, "layer_types": ["sliding_attention", "full_attention"]}
    >>> [(group.kind, group.block_size, group.window) for group in model_groups(config, 16).groups]
    [('full', 16, None), ('sliding_window', 16, 128)]
    """
    text = text_config(config)
    layers = layer_kinds(text)
    kinds = set(layers.kinds)
    assumed = [*layers.assumed]
    why = ""
    if "mamba" in kinds and "full" in kinds:
        block_size, why, doubts = _hybrid_block(text, block_size, layout)
        assumed += doubts
    sizes = dict.fromkeys(kinds, block_size)
    if {"full", "sliding_window"} <= kinds:
        sizes.update(_equal_pages(text, block_size, layout))
    for kind in sizes:
        if kind == "full":
            sizes[kind] *= layout.context_parallel
    order: tuple[LayerKind, ...] = ("full", "sliding_window", "chunked_local", "mamba")
    groups = tuple(CacheGroup(kind, sizes[kind], _window(kind, text)) for kind in order if kind in kinds)
    return ModelGroups(groups, why, tuple(assumed))


def attends_to_everything(options: EngineOptions) -> bool:
    """Whether every layer of the model is full attention, as far as the user's options tell."""
    groups = options.groups
    if not groups and options.model_config is not None:
        groups = model_groups(options.model_config, options.block_size or 16).groups
    return all(group.kind == "full" for group in groups)


def _window(kind: LayerKind, text: Mapping[str, Any]) -> int | None:
    if kind == "sliding_window":
        return int(text["sliding_window"])
    return int(text["attention_chunk_size"]) if kind == "chunked_local" else None


def _hybrid_block(text: Mapping[str, Any], block_size: int, layout: Layout) -> tuple[int, str, list[str]]:
    """`K * ceil(state / (K * token))`: a block of attention must be as large in bytes as one recurrent state."""
    state = state_bytes(text, layout.tensor_parallel, layout.speculative_tokens)
    token = attention_token_bytes(text, layout.tensor_parallel, layout.kv_bytes)
    if state is None or token is None:
        doubt = (
            "the size of this model's recurrent state is not known here, so the engine's block size may be larger than "
            f"{block_size}: give --match-unit, or the engine's own log line 'Setting attention block size to ...'"
        )
        return block_size, "", [doubt]
    latent = "kv_lora_rank" in text
    kernel = max(layout.kernel_block, block_size, 128 if latent else 0)
    grown = max(kernel * math.ceil(state / (kernel * token)), block_size)
    why = f"a block must hold one recurrent state of {state:,} bytes at {token:,} bytes per token and layer"
    return grown, why, []


def _equal_pages(text: Mapping[str, Any], block_size: int, layout: Layout) -> dict[LayerKind, int]:
    """Layers whose tokens take fewer bytes get larger blocks until all pages are equal, where that divides evenly."""
    full = attention_token_bytes(text, layout.tensor_parallel, layout.kv_bytes, everywhere=True)
    sliding = attention_token_bytes(text, layout.tensor_parallel, layout.kv_bytes)
    if full is None or sliding is None or max(full, sliding) % min(full, sliding):
        return {}
    larger = max(full, sliding)
    return {"full": block_size * larger // full, "sliding_window": block_size * larger // sliding}
