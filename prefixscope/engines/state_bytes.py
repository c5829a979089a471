"""Bytes of one recurrent state, and of one attention token, per layer and rank: what sizes a hybrid model's blocks.

Shapes as in vLLM's model_executor/layers/mamba/mamba_utils.py (read in 0.32.0).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["attention_token_bytes", "state_bytes"]

Config = Mapping[str, Any]
WIDTHS = {"float32": 4, "bfloat16": 2, "float16": 2, "fp8": 1}


def attention_token_bytes(text: Config, ranks: int, kv_bytes: int, everywhere: bool = False) -> int | None:
    """Key and value bytes of one token in one layer on one rank; None where config.json does not say.

    `everywhere` asks for the layers that attend to everything, where a model gives them heads of another size.
    """
    if text.get("kv_lora_rank"):
        return (int(text["kv_lora_rank"]) + int(text.get("qk_rope_head_dim", 0))) * kv_bytes
    heads = text.get("num_attention_heads")
    kv_heads = text.get("num_key_value_heads") or heads
    size = text.get("head_dim") or (text["hidden_size"] // heads if heads and text.get("hidden_size") else None)
    if everywhere:
        kv_heads = text.get("num_global_key_value_heads") or kv_heads
        size = text.get("global_head_dim") or size
    if not kv_heads or not size:
        return None
    return 2 * max(1, int(kv_heads) // ranks) * int(size) * kv_bytes


def state_bytes(text: Config, ranks: int, speculative_tokens: int) -> int | None:
    """One layer's recurrent state on one rank (convolution tail and matrix state); None for shapes not known here."""
    model = WIDTHS.get(str(text.get("torch_dtype") or text.get("dtype") or "bfloat16"), 2)
    if text.get("linear_num_value_heads"):
        return _gated_delta(text, ranks, speculative_tokens, model)
    linear = text.get("linear_attn_config")
    if isinstance(linear, Mapping) and linear.get("num_heads"):
        return _kimi_delta(linear, ranks, speculative_tokens, model)
    if (text.get("mamba_num_heads") or text.get("mamba_n_heads")) and _first(text, "ssm_state_size", "mamba_d_state"):
        return _mamba2(text, ranks, speculative_tokens, model)
    return None


def _first(text: Config, *names: str) -> int:
    """The first of these numbers that the config gives, else 0."""
    return next((int(text[name]) for name in names if text.get(name)), 0)


def _gated_delta(text: Config, ranks: int, drafted: int, width: int) -> int:
    keys, key_size = int(text["linear_num_key_heads"]), int(text["linear_key_head_dim"])
    values, value_size = int(text["linear_num_value_heads"]), int(text["linear_value_head_dim"])
    tail = int(text.get("linear_conv_kernel_dim", 4)) - 1 + drafted
    matrix = WIDTHS.get(str(text.get("mamba_ssm_dtype")), width)
    convolution = (2 * keys * key_size + values * value_size) // ranks * tail
    return convolution * width + values // ranks * value_size * key_size * matrix


def _kimi_delta(linear: Config, ranks: int, drafted: int, width: int) -> int:
    heads, size = int(linear["num_heads"]), int(linear["head_dim"])
    tail = int(linear.get("short_conv_kernel_size", 4)) - 1 + drafted
    return 3 * heads * size // ranks * tail * width + heads // ranks * size * size * 4


def _mamba2(text: Config, ranks: int, drafted: int, width: int) -> int:
    heads = _first(text, "mamba_num_heads", "mamba_n_heads")
    size = _first(text, "mamba_head_dim", "mamba_d_head")
    inner = _first(text, "mamba_d_ssm", "mamba_intermediate") or heads * size
    size = size or inner // heads
    state = _first(text, "ssm_state_size", "mamba_d_state")
    groups = _first(text, "n_groups", "mamba_n_groups") or 1
    groups += 0 if groups % ranks == 0 else ranks - groups
    tail = (_first(text, "conv_kernel", "mamba_d_conv") or 4) - 1 + drafted
    matrix = WIDTHS.get(str(text.get("mamba_ssm_cache_dtype")), width)
    return (inner + 2 * groups * state) // ranks * tail * width + heads // ranks * size * state * matrix
