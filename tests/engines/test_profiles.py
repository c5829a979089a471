"""Profiles: names, versions, block sizes by backend, match units from config.json, and the page made of them."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from prefixscope.engines import ENGINES, EngineOptions, EngineProfile, resolve
from prefixscope.engines.config import Layout, model_groups
from prefixscope.engines.document import document
from prefixscope.engines.layer_kinds import layer_kinds
from prefixscope.engines.platforms import SUPPORT
from prefixscope.engines.vllm import hash_keys
from prefixscope.errors import OptionError
from prefixscope.index.lineage import Lineage
from tests.engines.judges import mocked, needs_dynamo
from tests.engines.traffic import Asked, lineage_of

ROOT = Path(__file__).resolve().parents[2]
NAMES = ["vllm", "vllm-ascend", "sglang", "tensorrt-llm", "dynamo-router", "lmcache", "llama-cpp"]
NAMES += ["openai", "anthropic", "deepseek", "gemini", "qwen", "trace"]


def test_every_promised_engine_is_there() -> None:
    assert sorted(ENGINES) == sorted(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_defaults_resolve_with_facts(name: str) -> None:
    profile = resolve(name)
    assert profile.name == name
    assert {"match rule"} <= {fact.subject for fact in profile.facts}
    assert all(fact.source and fact.versions and fact.statement for fact in profile.facts)


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("vlm", "known: vllm, vllm-ascend, sglang"),
        ("vllm@0.10", "known: 0.11 to 0.33 and later"),
        ("vllm@new", "not a version"),
        ("vllm@", "no version"),
        ("vllm-ascend@0.11", "known: 0.23 to 0.26"),
        ("sglang@0.4", "known: 0.5"),
        ("tensorrt-llm@2.0", "known: 1.0 to 1.2"),
        ("openai@4", "known: 5.5, 5.6"),
        ("trace@1", "no versions"),
    ],
)
def test_unknown_names_and_versions_are_told(spec: str, words: str) -> None:
    with pytest.raises(OptionError, match=words.replace("(", "\\(")):
        resolve(spec)


@pytest.mark.parametrize(
    ("version", "unhashed_first", "retention"),
    [
        ("0.11", False, None),
        ("0.26.1", False, None),
        ("0.27", True, None),
        ("0.28", True, None),
        ("0.29", True, 0),
        ("0.31", True, 0),
        ("0.33", True, 0),
        ("0.40", True, 0),
    ],
)
def test_vllm_versions(version: str, unhashed_first: bool, retention: int | None) -> None:
    config = {"num_hidden_layers": 2, "sliding_window": 64, "layer_types": ["full_attention", "sliding_attention"]}
    profile = resolve(f"vllm@{version}", EngineOptions(model_config=config))
    assert profile.unhashed_first is unhashed_first
    assert profile.grouping is not None
    assert profile.grouping.retention == retention


def test_versions_not_read_are_told() -> None:
    assert resolve("vllm@0.33").assumed == ()
    assert "0.40 was not" in resolve("vllm@0.40").assumed[0]
    assert "0.5.9 was not" in resolve("sglang@0.5.9").assumed[0]
    assert "0.26 was not" in resolve("vllm-ascend@0.26").assumed[0]


def test_hash_keys_by_version() -> None:
    assert [hash_keys(v).lora for v in ((0, 11), (0, 17), (0, 30), (0, 31))] == [
        "int id", "name", "name", "tagged name and path",
    ]  # fmt: skip
    assert [hash_keys(v).events for v in ((0, 23), (0, 25))] == ["array", "map"]
    assert [hash_keys(v).fixed_seed for v in ((0, 28), (0, 29))] == [False, True]


def test_ascend_forces_blocks_of_128_and_says_so() -> None:
    forced = resolve("vllm-ascend", EngineOptions(block_size=16))
    assert forced.block_size == forced.match_unit == 128
    assert any("replaces block size 16 by 128" in sentence for sentence in forced.assumed)
    assert resolve("vllm-ascend").assumed == ()
    assert resolve("vllm-ascend", EngineOptions(speculative="eagle")).drop_units == 1
    lineage = Lineage.from_lengths([128, 128, 129, 129], [0, 128, 128, 129], [-1, 0, 1, 2])
    assert forced.rule(lineage, forced).tolist() == [0, 0, 128, 128]


@pytest.mark.parametrize(
    ("spec", "backend", "default"),
    [
        ("vllm", "flashmla", 64),
        ("vllm", "cutlass_mla", 128),
        ("vllm", "flash_attn", 16),
        ("sglang", "trtllm_mha", 64),
        ("sglang", "flashmla", 64),
        ("sglang", "fa3", 1),
    ],
)
def test_block_size_follows_the_backend(spec: str, backend: str, default: int) -> None:
    assert resolve(spec, EngineOptions(backend=backend)).match_unit == default


def test_platforms() -> None:
    assert resolve("vllm", EngineOptions(platform="cpu")).block_size == 128
    assert resolve("sglang", EngineOptions(platform="ascend")).block_size == 128
    with pytest.raises(OptionError, match="multiples of 32"):
        resolve("vllm", EngineOptions(platform="cpu", block_size=16))
    with pytest.raises(OptionError, match="vllm-ascend"):
        resolve("vllm", EngineOptions(platform="ascend"))
    with pytest.raises(OptionError, match=r"known: .*flashmla"):
        resolve("vllm", EngineOptions(backend="flashmal"))


def test_a_doubtful_block_size_is_used_and_told() -> None:
    profile = resolve("vllm", EngineOptions(block_size=784 + 1))
    assert profile.block_size == 785
    assert any("multiples of 16" in sentence for sentence in profile.assumed)
    assert resolve("vllm", EngineOptions(block_size=784)).assumed == ()


def test_hash_rows_need_a_multiple_of_their_unit() -> None:
    coarse = resolve("vllm", EngineOptions(unit=512))
    assert coarse.lower_bound
    assert any("lower bound" in sentence for sentence in coarse.assumed)
    exact = resolve("vllm", EngineOptions(unit=512, block_size=1024))
    assert not exact.lower_bound
    assert not resolve("trace", EngineOptions(unit=512)).lower_bound


QWEN3_NEXT: dict[str, Any] = {
    "num_hidden_layers": 48, "full_attention_interval": 4, "hidden_size": 2048, "torch_dtype": "bfloat16",
    "num_attention_heads": 16, "num_key_value_heads": 2, "head_dim": 256,
    "linear_num_key_heads": 16, "linear_num_value_heads": 32, "linear_key_head_dim": 128,
    "linear_value_head_dim": 128, "linear_conv_kernel_dim": 4,
}  # fmt: skip


@pytest.mark.parametrize(
    ("state", "ranks", "drafted", "expected"),
    [(None, 1, 0, 544), ("float32", 1, 0, 1056), ("float32", 4, 0, 528), ("float32", 1, 2, 1072)],
)
def test_blocks_of_hybrid_models_hold_one_state(state: str | None, ranks: int, drafted: int, expected: int) -> None:
    """Sizes that engines have logged for such models: 528, 544, 1056, and 1072 with drafted tokens."""
    config = {**QWEN3_NEXT, **({"mamba_ssm_dtype": state} if state else {})}
    groups = model_groups(config, 16, Layout(tensor_parallel=ranks, speculative_tokens=drafted)).groups
    assert [(group.kind, group.block_size) for group in groups] == [("full", expected), ("mamba", expected)]
    options = EngineOptions(model_config=config, tensor_parallel=ranks, speculative_tokens=drafted)
    profile = resolve("vllm", options)
    assert profile.match_unit == profile.block_size == expected
    assert "one recurrent state" in profile.match_unit_why
    assert resolve("vllm", EngineOptions(model_config=config, match_unit=67)).match_unit == 67


def test_unknown_state_sizes_are_told_and_not_guessed() -> None:
    config = {"num_hidden_layers": 4, "layers_block_type": ["mamba", "attention"] * 2}
    profile = resolve("vllm", EngineOptions(model_config=config))
    assert any("give --match-unit" in sentence for sentence in profile.assumed)


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"num_hidden_layers": 2}, "ff"),
        ({"num_hidden_layers": 2, "sliding_window": 9, "use_sliding_window": False}, "ff"),
        ({"num_hidden_layers": 2, "sliding_window": 4096}, "ss"),
        ({"num_hidden_layers": 6, "sliding_window": 9, "sliding_window_pattern": 6}, "sssssf"),
        ({"num_hidden_layers": 4, "sliding_window": 9, "model_type": "gemma2"}, "sfsf"),
        ({"num_hidden_layers": 3, "sliding_window": 9, "use_sliding_window": True, "max_window_layers": 2}, "ffs"),
        ({"num_hidden_layers": 4, "attention_chunk_size": 8192}, "cccf"),
        ({"hybrid_override_pattern": "M-M*"}, "mmf"),
        ({"num_hidden_layers": 4, "attn_layer_period": 4, "attn_layer_offset": 2}, "mmfm"),
        ({"num_hidden_layers": 3, "attn_layer_indices": [1]}, "mfm"),
        ({"num_hidden_layers": 4, "full_attention_interval": 4}, "mmmf"),
        ({"num_hidden_layers": 2, "attn_type_list": [0, 1]}, "mf"),
        ({"num_hidden_layers": 4, "linear_attn_config": {"kda_layers": [1, 2, 3], "full_attn_layers": [4]}}, "mmmf"),
        ({"num_hidden_layers": 1, "model_type": "falcon_h1"}, "fm"),
        ({"num_hidden_layers": 2, "model_type": "mamba2"}, "mm"),
        ({"layer_types": ["linear_attention", "full_attention"]}, "mf"),
        ({"layer_types": ["sliding_attention", "full_attention"]}, "ff"),
        ({"layer_types": ["new_attention"]}, "f"),
    ],
)
def test_layers_as_config_files_name_them(config: dict[str, Any], expected: str) -> None:
    assert "".join(kind[0] for kind in layer_kinds(config).kinds) == expected


def test_multimodal_configs_keep_the_language_model_inside() -> None:
    inner = {"num_hidden_layers": 2, "sliding_window": 9}
    assert model_groups({"text_config": inner, "num_hidden_layers": 7}, 16).groups[0].kind == "sliding_window"


def test_other_engines_say_that_states_are_not_modelled() -> None:
    options = EngineOptions(model_config=QWEN3_NEXT)
    for name in ("sglang", "tensorrt-llm", "llama-cpp"):
        assert any("upper bound" in sentence for sentence in resolve(name, options).assumed), name


MINUTE = 60 * 10**9


def hosted(spec: str, requests: list[Asked], minutes: list[float], **options: Any) -> list[int]:
    profile: EngineProfile = resolve(spec, EngineOptions(**options))
    lineage = lineage_of(requests, time_ns=np.array([round(m * MINUTE) for m in minutes], np.int64))
    return profile.rule(lineage, profile).tolist()


def test_openai_steps_minimum_and_lifetime() -> None:
    prompt = list(range(1300))
    requests = [Asked(prompt[:size]) for size in (1300, 1023, 1100, 1300)]
    assert hosted("openai", requests, [0, 1, 2, 3]) == [0, 0, 1024, 1280]
    # Every use renews the life; after five minutes of silence the prefix is gone.
    assert hosted("openai", [Asked(prompt)] * 4, [0, 4, 8, 14]) == [0, 1280, 1280, 0]
    assert hosted("openai", [Asked(prompt)] * 2, [0, 60], lifetime_s=86400.0) == [0, 1280]


def test_a_shorter_prefix_can_outlive_a_longer_one() -> None:
    long, other = list(range(3000)), [*range(2000), *range(9000, 9500)]
    assert hosted("openai", [Asked(long), Asked(other), Asked(long)], [0, 4, 8]) == [0, 1920, 1920]


def test_deepseek_units_need_two_witnesses() -> None:
    common = list(range(1000))
    requests = [Asked([*common, *range(5000 + 100 * i, 5060 + 100 * i)]) for i in range(3)]
    assert hosted("deepseek", requests, [0, 1, 2]) == [0, 0, 1000]
    turn = Asked(common, list(range(7000, 7100)))
    assert hosted("deepseek", [turn, Asked([*turn.sequence, 1, 2])], [0, 1]) == [0, 1099]
    assert hosted("deepseek@v3.2", requests, [0, 1, 2]) == [0, 960, 960]


def test_anthropic_minimum_by_model() -> None:
    prompt = list(range(2000))
    requests = [Asked(prompt), Asked([*prompt, 1, 2])]
    assert hosted("anthropic", requests, [0, 1]) == [0, 2000]
    assert hosted("anthropic@4096", requests, [0, 1]) == [0, 0]
    assert hosted("anthropic", requests, [0, 6]) == [0, 0]


def test_the_page_is_current() -> None:
    assert (ROOT / "docs" / "engines.md").read_text() == document()


def test_the_matrix_names_known_engines_once_per_cell() -> None:
    assert {cell.engine for cell in SUPPORT} <= set(ENGINES)
    keys = [(cell.engine, cell.platform, cell.feature) for cell in SUPPORT]
    assert len(keys) == len(set(keys))
    assert {"nvidia", "ascend", "cpu"} == {cell.platform for cell in SUPPORT}


@needs_dynamo
@pytest.mark.parametrize("backend", ["vllm", "sglang"])
@pytest.mark.parametrize("block_size", [16, 64])
def test_random_traces_on_dynamo_mock_engines(backend: str, block_size: int) -> None:
    draw = random.Random(block_size)
    chains: list[list[int]] = []
    fresh = iter(range(1, 10**6))
    rows = []
    for _ in range(200):
        chain = list(draw.choice(chains))[: draw.randrange(1, 9)] if chains and draw.random() < 0.7 else []
        chain += [next(fresh) for _ in range(draw.randrange(0 if chain else 1, 5))]
        chains.append(chain)
        cut = draw.choice([0, 0, draw.randrange(block_size)])
        rows.append({"input_length": len(chain) * block_size - cut, "hash_ids": chain})
    scenario = {"backend": backend, "block_size": block_size, "requests": rows}
    answer = mocked(scenario)
    tokens = [
        [symbol * block_size + place for symbol in row["hash_ids"] for place in range(block_size)][
            : row["input_length"]
        ]
        for row in rows
    ]
    profile = resolve(backend, EngineOptions(block_size=block_size))
    assert sum(answer) > 0
    assert profile.rule(lineage_of([Asked(prompt) for prompt in tokens]), profile).tolist() == answer
