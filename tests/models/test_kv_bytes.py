"""Bytes of KV from published config values; every expected number is written out by hand."""

from __future__ import annotations

import json
from typing import Any

import pytest

from prefixscope.errors import ModelError, OptionError
from prefixscope.models.kv_bytes import KvOptions, kv_layout
from tests.shared import SHARED, needs_shared

BF16 = {"torch_dtype": "bfloat16"}


def decoder(model_type: str, layers: int, hidden: int, heads: int, **fields: Any) -> dict[str, Any]:
    return {
        "model_type": model_type,
        "num_hidden_layers": layers,
        "hidden_size": hidden,
        "num_attention_heads": heads,
        **BF16,
        **fields,
    }


LLAMA_2_7B = decoder("llama", 32, 4096, 32, num_key_value_heads=32, torch_dtype="float16")
LLAMA_31_8B = decoder("llama", 32, 4096, 32, num_key_value_heads=8)
LLAMA_31_70B = decoder("llama", 80, 8192, 64, num_key_value_heads=8)
QWEN_25_7B = decoder(
    "qwen2", 28, 3584, 28, num_key_value_heads=4, sliding_window=131072, use_sliding_window=False, max_window_layers=28
)
QWEN_3_8B = decoder("qwen3", 36, 4096, 32, num_key_value_heads=8, head_dim=128, use_sliding_window=False)
MIXTRAL = decoder("mixtral", 32, 4096, 32, num_key_value_heads=8, sliding_window=None)
MISTRAL_V1 = decoder("mistral", 32, 4096, 32, num_key_value_heads=8, sliding_window=4096)
FALCON_7B = decoder("falcon", 32, 4544, 71, multi_query=True, new_decoder_architecture=False)
STARCODER = {"model_type": "gpt_bigcode", "n_layer": 40, "n_embd": 6144, "n_head": 48, "multi_query": True,
             "torch_dtype": "float32"}  # fmt: skip
DEEPSEEK_V3 = decoder(
    "deepseek_v3", 61, 7168, 128, num_key_value_heads=128, kv_lora_rank=512, qk_rope_head_dim=64, qk_nope_head_dim=128,
    v_head_dim=128,
)  # fmt: skip
DEEPSEEK_V32 = {**DEEPSEEK_V3, "model_type": "deepseek_v32", "index_head_dim": 128, "index_n_heads": 64}
GEMMA_2_9B = decoder("gemma2", 42, 3584, 16, num_key_value_heads=8, head_dim=256, sliding_window=4096)
GEMMA_3_12B = {
    "model_type": "gemma3",
    **BF16,
    "text_config": {
        "model_type": "gemma3_text",
        "num_hidden_layers": 48,
        "hidden_size": 3840,
        "num_attention_heads": 16,
        "num_key_value_heads": 8,
        "head_dim": 256,
        "sliding_window": 1024,
        "sliding_window_pattern": 6,
    },
}
GPT_OSS_20B = decoder(
    "gpt_oss", 24, 2880, 64, num_key_value_heads=8, head_dim=64, sliding_window=128,
    layer_types=["sliding_attention", "full_attention"] * 12,
)  # fmt: skip
LLAMA_4_SCOUT = {
    "model_type": "llama4",
    **BF16,
    "text_config": decoder(
        "llama4_text", 48, 5120, 40, num_key_value_heads=8, head_dim=128, attention_chunk_size=8192, no_rope_layers=[]
    ),
}
QWEN_3_NEXT = decoder(
    "qwen3_next", 48, 2048, 16, num_key_value_heads=2, head_dim=256, full_attention_interval=4,
    linear_num_key_heads=16, linear_num_value_heads=32, linear_key_head_dim=128, linear_value_head_dim=128,
    linear_conv_kernel_dim=4,
)  # fmt: skip
NEMOTRON_H_8B = decoder(
    "nemotron_h", 52, 4096, 32, num_key_value_heads=8, head_dim=128, mamba_num_heads=128, mamba_head_dim=64,
    ssm_state_size=128, n_groups=8, conv_kernel=4,
    hybrid_override_pattern="M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M-",
)  # fmt: skip

KNOWN = [
    ("MHA", LLAMA_2_7B, 2 * 32 * 32 * 128 * 2),
    ("GQA", LLAMA_31_8B, 2 * 32 * 8 * 128 * 2),
    ("GQA, 70B", LLAMA_31_70B, 2 * 80 * 8 * 128 * 2),
    ("GQA, window switched off", QWEN_25_7B, 2 * 28 * 4 * 128 * 2),
    ("GQA, head_dim given", QWEN_3_8B, 2 * 36 * 8 * 128 * 2),
    ("MoE", MIXTRAL, 2 * 32 * 8 * 128 * 2),
    ("MQA", FALCON_7B, 2 * 32 * 1 * 64 * 2),
    ("MQA, float32", STARCODER, 2 * 40 * 1 * 128 * 4),
    ("MLA", DEEPSEEK_V3, 61 * 576 * 2),
    ("MLA with indexer", DEEPSEEK_V32, 61 * (1152 + 132)),
    ("window in every layer", MISTRAL_V1, 0),
    ("window in every second layer", GEMMA_2_9B, 2 * 21 * 8 * 256 * 2),
    ("window in five of six layers", GEMMA_3_12B, 2 * 8 * 8 * 256 * 2),
    ("window 128", GPT_OSS_20B, 2 * 12 * 8 * 64 * 2),
    ("chunks in three of four layers", LLAMA_4_SCOUT, 2 * 12 * 8 * 128 * 2),
    ("gated delta net", QWEN_3_NEXT, 2 * 12 * 2 * 256 * 2),
    ("Mamba-2", NEMOTRON_H_8B, 2 * 4 * 8 * 128 * 2),
]


@pytest.mark.parametrize(("config", "expected"), [k[1:] for k in KNOWN], ids=[k[0] for k in KNOWN])
def test_bytes_per_token(config: dict[str, Any], expected: int) -> None:
    layout = kv_layout(config)
    assert layout.bytes_per_token == expected
    assert layout.block_bytes(16) == 16 * expected
    assert "layers" in layout.formula


def test_windows_count_per_sequence_only_as_far_as_they_reach() -> None:
    mistral = kv_layout(MISTRAL_V1)
    assert mistral.window_bytes_per_token == 131072
    assert mistral.sequence_bytes(100) == 100 * 131072
    assert mistral.sequence_bytes(100_000, 16) == (4096 + 16) * 131072
    gemma = kv_layout(GEMMA_3_12B)
    assert gemma.window_bytes_per_token == 2 * 40 * 8 * 256 * 2
    oss = kv_layout(GPT_OSS_20B)
    assert oss.sequence_bytes(4096, 16) == 4096 * 24576 + (128 + 16) * 24576
    scout = kv_layout(LLAMA_4_SCOUT)
    assert scout.window_bytes_per_token == 2 * 36 * 8 * 128 * 2


def test_recurrent_states() -> None:
    qwen = kv_layout(QWEN_3_NEXT)
    one = (8192 * 3 + 32 * 128 * 128) * 2
    assert qwen.state_bytes_per_sequence == 36 * one
    # One state is 1,097,728 bytes, a token of attention 2,048: 536 tokens, in steps of 16.
    assert qwen.aligned_block_size(16) == 544
    assert kv_layout(QWEN_3_NEXT, KvOptions(tensor_parallel=2)).state_bytes_per_sequence == 36 * one
    float32 = kv_layout(QWEN_3_NEXT, KvOptions(state_dtype="float32"))
    assert float32.state_bytes_per_sequence == 36 * (8192 * 3 * 2 + 32 * 128 * 128 * 4)
    nemotron = kv_layout(NEMOTRON_H_8B)
    assert nemotron.state_bytes_per_sequence == 24 * ((8192 + 2 * 8 * 128) * 3 + 128 * 64 * 128) * 2
    assert kv_layout(LLAMA_31_8B).aligned_block_size(16) == 16


@pytest.mark.parametrize(
    ("config", "dtype", "expected"),
    [
        (LLAMA_31_8B, "fp8", 65536),
        (LLAMA_31_8B, "int8_per_token_head", 2 * 32 * 8 * (128 + 4)),
        (LLAMA_31_8B, "nvfp4", 2 * 32 * 8 * (64 + 8)),
        (LLAMA_31_8B, "float16", 131072),
        (DEEPSEEK_V3, "fp8", 61 * 576),
        (DEEPSEEK_V3, "fp8_ds_mla", 61 * 656),
        (DEEPSEEK_V3, "nvfp4_ds_mla", 61 * 352),
        (DEEPSEEK_V32, "fp8_ds_mla", 61 * (656 + 132)),
    ],
)
def test_kv_types(config: dict[str, Any], dtype: str, expected: int) -> None:
    assert kv_layout(config, KvOptions(dtype=dtype)).bytes_per_token == expected


def test_ranks() -> None:
    def total(config: dict[str, Any], **options: int) -> int:
        return kv_layout(config, KvOptions(**options)).bytes_per_token  # type: ignore[arg-type]

    assert total(LLAMA_31_70B, tensor_parallel=8) == total(LLAMA_31_70B)
    assert total(LLAMA_31_70B, tensor_parallel=16) == 2 * total(LLAMA_31_70B), "each head is kept twice"
    assert total(QWEN_25_7B, tensor_parallel=8) == 2 * total(QWEN_25_7B)
    assert total(DEEPSEEK_V3, tensor_parallel=8) == 8 * 70272, "a latent is kept by every rank"
    assert total(DEEPSEEK_V3, tensor_parallel=8, decode_context_parallel=8) == 70272
    assert total(LLAMA_31_70B, pipeline_parallel=4) == total(LLAMA_31_70B)
    with pytest.raises(ModelError, match="can't be split over 3"):
        total(LLAMA_31_8B, tensor_parallel=3)
    with pytest.raises(OptionError, match="must divide"):
        total(LLAMA_31_8B, tensor_parallel=4, decode_context_parallel=3)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({**LLAMA_31_8B, "model_type": "brand_new"}, "'brand_new' is not known"),
        ({}, "model_type None is not known"),
        ({**LLAMA_31_8B, "num_hidden_layers": None}, "num_hidden_layers"),
        ({**LLAMA_31_8B, "torch_dtype": None}, "number type None"),
        ({**FALCON_7B, "hidden_size": 4545}, "not a multiple of 71 heads"),
        ({**GPT_OSS_20B, "layer_types": ["full_attention"] * 3}, "3 layer_types for 24 layers"),
        ({**GPT_OSS_20B, "layer_types": ["mystery"] * 24}, "layer type 'mystery'"),
        ({**GPT_OSS_20B, "sliding_window": None}, "sliding_window"),
        ({**NEMOTRON_H_8B, "hybrid_override_pattern": "MZ"}, "hybrid_override_pattern"),
        ({**DEEPSEEK_V3, "kv_lora_rank": None}, "kv_lora_rank"),
    ],
)
def test_what_is_not_understood_is_an_error(config: dict[str, Any], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        kv_layout(config)


def test_types_that_do_not_fit_the_attention_are_errors() -> None:
    with pytest.raises(ModelError, match="not for layers with keys and values"):
        kv_layout(LLAMA_31_8B, KvOptions(dtype="fp8_ds_mla"))
    with pytest.raises(ModelError, match="not for latent attention"):
        kv_layout(DEEPSEEK_V3, KvOptions(dtype="nvfp4"))
    with pytest.raises(OptionError, match="--kv-dtype int3"):
        KvOptions(dtype="int3")
    with pytest.raises(ModelError, match="can't become tokens"):
        kv_layout(MISTRAL_V1).tokens_in(10**9)


@needs_shared
def test_the_small_model_of_the_cases() -> None:
    config = json.loads((SHARED / "cases" / "bytes_model" / "config.json").read_text())
    assert kv_layout(config).bytes_per_token == 131072
    assert kv_layout(config).tokens_in(2**30) == 8192
