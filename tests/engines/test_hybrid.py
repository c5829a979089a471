"""Models with several KV groups: scenarios that ran on vLLM 0.32's own classes, and its KVCacheManager as judge."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from prefixscope.engines import CacheGroup, EngineOptions, EngineProfile, resolve
from prefixscope.engines.profile import GroupKind
from tests.engines.group_oracle import BlockCache
from tests.engines.judges import VLLM, VLLM_033, KvManager, needs_vllm, needs_vllm_033
from tests.engines.traffic import Asked, conversations, lineage_of

Group = tuple[GroupKind, int, int | None]
FULL: Group = ("full", 16, None)
SLIDING: Group = ("sliding_window", 16, 32)
MAMBA: Group = ("mamba", 16, None)


def profile_of(groups: list[Group], spec: str = "vllm@0.32", **options: Any) -> EngineProfile:
    return resolve(spec, EngineOptions(groups=tuple(CacheGroup(*group) for group in groups), **options))


def cached(requests: list[Asked], groups: list[Group], **options: Any) -> list[int]:
    profile = profile_of(groups, **options)
    return profile.rule(lineage_of(requests), profile).tolist()


def siblings(shared: int, count: int, own: int = 48) -> list[list[int]]:
    return [[*range(shared), *range(10_000 * (i + 1), 10_000 * (i + 1) + own)] for i in range(count)]


def family(extension: int = 64) -> list[Asked]:
    """X (208 tokens), X again, X extended, and three siblings that share 160 tokens with it."""
    first, *others = siblings(160, 4)
    prompts = [first, first, [*first, *range(900, 900 + extension)], *others]
    return [Asked(prompt) for prompt in prompts]


@pytest.mark.parametrize(
    ("retention", "expected"),
    [
        ("dense", [0, 192, 208, 160, 160, 160]),
        (0, [0, 192, 192, 0, 160, 160]),
        (64, [0, 192, 192, 128, 160, 160]),
        ("default", [0, 192, 192, 0, 160, 160]),
    ],
)
def test_sliding_window_retention(retention: Any, expected: list[int]) -> None:
    assert cached(family(), [FULL, SLIDING], retention=retention) == expected


def test_older_versions_keep_every_state_by_default() -> None:
    assert cached(family(), [FULL, SLIDING], spec="vllm@0.28") == [0, 192, 208, 160, 160, 160]
    assert cached(family(), [FULL, SLIDING], spec="vllm@0.29") == [0, 192, 192, 0, 160, 160]


def test_prompt_on_a_block_boundary() -> None:
    prompt = list(range(192))
    requests = [Asked(prompt), Asked(prompt), Asked([*prompt, *range(900, 940)])]
    assert cached(requests, [FULL, SLIDING], retention=0) == [0, 176, 176]


def test_sliding_window_alone_has_no_junctions() -> None:
    first, *others = siblings(160, 3)
    requests = [Asked(first), Asked(first), *map(Asked, others)]
    assert cached(requests, [SLIDING], retention=0) == [0, 192, 0, 0]
    assert cached(requests[:3], [SLIDING], retention="dense") == [0, 192, 160]


def test_groups_with_different_blocks() -> None:
    prompt = list(range(200))
    requests = [Asked(prompt), Asked(prompt), Asked([*prompt, *range(900, 960)])]
    assert cached(requests, [("full", 32, None), SLIDING]) == [0, 192, 192]


@pytest.mark.parametrize(
    ("retention", "expected"), [("dense", [0, 192, 208, 0, 160, 160]), (0, [0, 192, 192, 0, 160, 160])]
)
def test_recurrent_layers(retention: Any, expected: list[int]) -> None:
    assert cached(family(), [FULL, MAMBA], retention=retention) == expected


@pytest.mark.parametrize("groups", [[FULL, SLIDING], [FULL, MAMBA]])
def test_generated_tokens_of_models_with_states(groups: list[Group]) -> None:
    first = Asked(list(range(200)), list(range(500, 540)))
    requests = [first, Asked(first.prompt + first.output + list(range(900, 930)))]
    assert cached(requests, groups, retention="dense") == [0, 224]
    assert cached(requests, groups, retention=0) == [0, 192]


GEMMA = {
    "num_hidden_layers": 4,
    "sliding_window": 64,
    "layer_types": ["sliding_attention", "full_attention"] * 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
}


def config_profile(config: dict[str, Any], tmp_path: Path, **options: Any) -> EngineProfile:
    """As a user has it: a config.json on disk, and the platform's own block size unless said."""
    file = tmp_path / "config.json"
    file.write_text(json.dumps(config))
    return resolve("vllm@0.32", EngineOptions(model_config=json.loads(file.read_text()), platform="cpu", **options))


def run(profile: EngineProfile, requests: list[Asked]) -> list[int]:
    return profile.rule(lineage_of(requests), profile).tolist()


@pytest.mark.parametrize(("retention", "expected"), [(0, [0, 416, 0, 320, 320]), ("dense", [0, 416, 320, 320, 320])])
def test_gemma_like_model_on_a_running_engine(retention: Any, expected: list[int], tmp_path: Path) -> None:
    first, *others = siblings(320, 4, own=100)
    profile = config_profile(GEMMA, tmp_path, block_size=32, retention=retention)
    assert run(profile, [Asked(first), Asked(first), *map(Asked, others)]) == expected


@pytest.mark.parametrize("retention", [0, "dense"])
def test_gemma_like_conversation_on_a_running_engine(retention: Any, tmp_path: Path) -> None:
    turn = Asked(list(range(300)), list(range(1000, 1008)))
    requests = [turn]
    for number in (1, 2):
        before = requests[-1]
        requests.append(
            Asked(
                [*before.prompt, *before.output, *range(2000 * number, 2000 * number + 50)],
                list(range(5000 * number, 5000 * number + 8)),
            )
        )
    profile = config_profile(GEMMA, tmp_path, block_size=32, retention=retention)
    assert run(profile, requests) == [0, 288, 352]


def test_llama_on_a_running_cpu_engine(tmp_path: Path) -> None:
    profile = config_profile({"num_hidden_layers": 2, "num_attention_heads": 4, "hidden_size": 64}, tmp_path)
    assert profile.block_size == 128
    prompt = list(range(300))
    assert run(profile, [Asked(prompt), Asked(prompt), Asked(prompt)]) == [0, 256, 256]
    turn = Asked(list(range(200)), list(range(1000, 1008)))
    assert run(profile, [turn, Asked(turn.prompt + turn.output + list(range(2000, 2060)))]) == [0, 128]
    assert run(profile, [Asked(list(range(384))), Asked(list(range(384)))]) == [0, 256]
    assert run(profile, [Asked(prompt), Asked(prompt, reads=False), Asked(prompt)]) == [0, 0, 256]


def scenario(groups: list[Group], requests: list[Asked], profile: EngineProfile) -> dict[str, Any]:
    kept = profile.grouping
    return {
        "groups": groups,
        "retention": kept.retention if kept else None,
        "budget": kept.max_batched_tokens if kept else 0,
        "eagle": profile.speculative != "none",
        "lookahead": profile.lookahead_tokens,
        "requests": [{"prompt": r.prompt, "output": r.output, "reads": r.reads} for r in requests],
    }


@pytest.mark.parametrize("ahead", [0, 1])
@pytest.mark.parametrize("retention", ["dense", 0, 64])
@pytest.mark.parametrize(
    "groups",
    [
        [SLIDING],
        [MAMBA],
        [FULL, SLIDING],
        [FULL, ("sliding_window", 16, 50)],
        [("full", 32, None), SLIDING],
        [FULL, MAMBA],
    ],
)
def test_against_a_cache_of_single_blocks(groups: list[Group], retention: Any, ahead: int) -> None:
    speculative = "eagle" if ahead else "none"
    profile = profile_of(groups, "vllm@0.33", retention=retention, speculative=speculative)
    assert profile.grouping is not None
    assert profile.lookahead_tokens == ahead
    oracle = BlockCache(profile.grouping, ahead)
    requests = conversations(seed=len(groups) + 7 * ahead, count=100, skips=0.05)
    expected = [oracle.serve(request) for request in requests]
    assert sum(expected) > 0
    assert profile.rule(lineage_of(requests), profile).tolist() == expected


@pytest.fixture(scope="module")
def judge() -> Iterator[KvManager]:
    manager = KvManager(VLLM)
    yield manager
    manager.close()


@pytest.fixture(scope="module")
def judge_033() -> Iterator[KvManager]:
    manager = KvManager(VLLM_033)
    yield manager
    manager.close()


@needs_vllm
@pytest.mark.parametrize("block_size", [16, 32, 128])
@pytest.mark.parametrize("speculative", ["none", "eagle"])
def test_plain_models_against_the_kv_cache_manager(block_size: int, speculative: str, judge: KvManager) -> None:
    """300 random multi-turn requests at each block size, with and without a dropped block."""
    requests = conversations(block_size, count=300, longest=6 * block_size, aligned_to=block_size, skips=0.05)
    groups: list[Group] = [("full", block_size, None)]
    profile = profile_of(groups, speculative=speculative)
    answer = judge.cached(scenario(groups, requests, profile))
    assert sum(answer) > 0
    assert profile.rule(lineage_of(requests), profile).tolist() == answer


MODELS: list[list[Group]] = [
    [SLIDING],
    [FULL, SLIDING],
    [FULL, ("sliding_window", 16, 50)],
    [("full", 32, None), ("sliding_window", 16, 64)],
    [FULL, ("sliding_window", 32, 40)],
    [FULL, MAMBA],
    [MAMBA],
    [FULL, ("chunked_local", 16, 64)],
    [FULL, SLIDING, MAMBA],
    [FULL, SLIDING, ("sliding_window", 16, 80)],
    [SLIDING, ("sliding_window", 16, 80)],
]


def judged(spec: str, judge: KvManager, number: int) -> int:
    """Compares every retention, with and without a drop, on random traffic; returns how many requests hit."""
    groups, hits = MODELS[number], 0
    chunked = any(kind == "chunked_local" for kind, _, _ in groups)
    for retention in ("dense", 0, 64):
        for speculative in ("none", "eagle"):
            if chunked and (speculative == "eagle" or retention == 64):
                continue  # the engine refuses this
            budget = 70 if number % 2 else None
            profile = profile_of(groups, spec, retention=retention, speculative=speculative, max_batched_tokens=budget)
            requests = conversations(seed=1000 + number, count=80, skips=0.03)
            answer = judge.cached(scenario(groups, requests, profile))
            assert profile.rule(lineage_of(requests), profile).tolist() == answer, profile.grouping
            hits += sum(hit > 0 for hit in answer)
    return hits


@needs_vllm
@pytest.mark.parametrize("number", range(len(MODELS)))
def test_models_with_states_against_the_kv_cache_manager(number: int, judge: KvManager) -> None:
    assert judged("vllm@0.32", judge, number) > 50


@needs_vllm_033
@pytest.mark.parametrize("number", range(len(MODELS)))
def test_models_with_states_against_the_kv_cache_manager_of_033(number: int, judge_033: KvManager) -> None:
    assert judged("vllm@0.33", judge_033, number) > 50


@needs_vllm
def test_salts_and_adapters_against_the_kv_cache_manager(judge: KvManager) -> None:
    prompt = list(range(50))
    red = {"name": "a", "id": 1, "path": "/p/a"}
    asked: list[dict[str, Any]] = [
        {"prompt": prompt, "salt": "A"},
        {"prompt": prompt, "salt": "B"},
        {"prompt": prompt},
        {"prompt": prompt, "salt": "A"},
        {"prompt": prompt, "lora": red},
        {"prompt": prompt, "lora": {**red, "id": 2}},
        {"prompt": prompt, "lora": {**red, "path": "/q"}},
        {"prompt": prompt},
    ]
    answer = judge.cached({"groups": [FULL], "retention": None, "requests": asked})
    spaces = [(r.get("salt"), (r["lora"]["name"], r["lora"]["path"]) if "lora" in r else None) for r in asked]
    requests = [Asked(prompt, space=space) for space in spaces]
    profile = resolve("vllm@0.32")
    assert answer == [0, 0, 0, 48, 0, 48, 0, 48]
    assert profile.rule(lineage_of(requests), profile).tolist() == answer
