"""Match rules against known cases, measurements and slow oracles that compare tokens one by one."""

from __future__ import annotations

import json
from typing import Any

import pytest

from prefixscope.engines import EngineOptions, EngineProfile, resolve
from prefixscope.engines.profile import Speculative
from prefixscope.index.lineage import Lineage
from tests.engines.traffic import Asked, conversations, lineage_of
from tests.shared import SHARED, needs_shared


def cached(spec: str, requests: list[Asked], **options: Any) -> list[int]:
    profile = resolve(spec, EngineOptions(**options))
    return profile.rule(lineage_of(requests), profile).tolist()


def case(name: str) -> dict[str, Any]:
    return json.loads((SHARED / "cases" / f"{name}.json").read_text())


def asked(case_: dict[str, Any]) -> list[Asked]:
    adapters = case_["setup"].get("adapters", {})
    found = []
    for request in case_["requests"]:
        ids = request.get("prompt_token_ids") or list(range(*request.get("prompt_token_ids_range", (0, 0))))
        space = (request.get("cache_salt"), request.get("model") if request.get("model") in adapters else None)
        reads = request.get("prompt_logprobs") is None
        found.append(Asked(ids, request.get("output_token_ids", []), space, reads))
    return found


@needs_shared
def test_short_prefix_at_every_block_size() -> None:
    known = case("01-short-shared-prefix-vs-block-size")
    for size, expected in known["expect"]["cached_tokens_by_block_size"].items():
        assert cached("vllm", asked(known), block_size=int(size)) == expected


@needs_shared
@pytest.mark.parametrize(
    "name",
    [
        "02-prompt-exact-multiple-of-block",
        "23-double-bos",
        "25-cache-salt-separates",
        "26-lora-adapters-separate",
        "34-prompt-logprobs-skip-reading",
    ],
)
@pytest.mark.parametrize("version", ["0.11", "0.26", "0.28", "0.30", "0.32", "0.33"])
def test_cases_of_plain_vllm(name: str, version: str) -> None:
    known = case(name)
    assert cached(f"vllm@{version}", asked(known)) == known["expect"]["cached_tokens"]


@needs_shared
def test_sglang_pages() -> None:
    known = case("03-sglang-token-granularity")
    assert cached("sglang", asked(known)) == known["expect"]["cached_tokens"]
    assert cached("sglang", asked(known), block_size=16) == known["expect"]["cached_tokens_page_16"]


@needs_shared
def test_several_groups_align_to_their_least_common_multiple() -> None:
    known = case("04-hybrid-groups-lcm-alignment")
    assert cached("vllm", asked(known), match_unit=4096) == known["expect"]["cached_tokens"]


@needs_shared
def test_eagle_drops_and_looks_ahead() -> None:
    known = case("05-eagle-drops-last-block")
    assert cached("vllm@0.32", asked(known), speculative="eagle") == known["expect"]["cached_tokens"]
    without = known["expect"]["cached_tokens_without_eagle"]
    assert cached("vllm@0.32", asked(known)) == without
    assert cached("vllm@0.33", asked(known), speculative="eagle") == without == [0, 96, 16]


@needs_shared
def test_samples_and_answers() -> None:
    samples = case("31-n-greater-than-one")
    assert cached("vllm", asked(samples)) == samples["expect"]["cached_tokens_per_api_request"]
    answers = case("51-answers-are-cached-too")
    assert cached("vllm", asked(answers)) == answers["expect"]["cached_tokens_vllm"]
    assert cached("sglang", asked(answers)) == [0, 69]
    assert cached("sglang", asked(answers), block_size=16, strip_thinking=True) == [0, 32]


@needs_shared
def test_measured_match_units() -> None:
    """Every measurement is a resend of one prompt (G8: a prompt of 961 tokens after one of 958)."""
    rows = [row for row in json.loads((SHARED / "vectors/match_unit_measurements.json").read_text()) if row["measured"]]
    assert len(rows) == 13
    for row in rows:
        tokens = row["prompt_tokens"]
        earlier = row.get("earlier_prompt_tokens", tokens)
        lineage = Lineage.from_lengths([earlier, tokens], [0, earlier], [-1, 0])
        speculative: Speculative = "mtp" if row["eagle"] else "none"
        profile = resolve("vllm@0.32", EngineOptions(match_unit=row["unit"], speculative=speculative))
        assert profile.rule(lineage, profile)[1] == row["cached"], row


@pytest.mark.parametrize(
    ("tokens", "expected"),
    [(15, 0), (16, 0), (17, 16), (31, 16), (32, 16), (33, 32), (48, 32), (49, 48), (64, 48)],
)
def test_identical_resend(tokens: int, expected: int) -> None:
    prompt = list(range(tokens))
    assert cached("vllm", [Asked(prompt), Asked(prompt)]) == [0, expected]


def test_extension_and_divergence() -> None:
    assert cached("vllm", [Asked(list(range(50))), Asked(list(range(80)))]) == [0, 48]
    forked = [*range(40), *range(900, 940)]
    assert cached("vllm", [Asked(list(range(80))), Asked(forked)]) == [0, 32]


@pytest.mark.parametrize(("outputs", "expected"), [(11, 16), (12, 16), (13, 32), (28, 32), (29, 48)])
def test_next_turn_after_generated_tokens(outputs: int, expected: int) -> None:
    first = Asked(list(range(20)), list(range(500, 500 + outputs)))
    following = Asked(first.prompt + first.output + list(range(900, 910)))
    assert cached("vllm", [first, following]) == [0, expected]


@pytest.mark.parametrize(("tokens", "expected"), [(31, 0), (32, 0), (33, 16), (48, 16), (49, 32), (64, 32), (65, 48)])
def test_eagle_drop_on_resend(tokens: int, expected: int) -> None:
    prompt = list(range(tokens))
    assert cached("vllm@0.32", [Asked(prompt), Asked(prompt)], speculative="eagle") == [0, expected]


def test_eagle_drop_on_extension() -> None:
    requests = [Asked(list(range(64))), Asked(list(range(100)))]
    assert cached("vllm@0.32", requests, speculative="eagle") == [0, 48]


@pytest.mark.parametrize(
    ("page", "eagle", "expected"),
    [
        (1, False, [129, 130, 100]),
        (16, False, [128, 128, 96]),
        (64, False, [128, 128, 64]),
        (1, True, [128, 129, 99]),
        (16, True, [128, 128, 96]),
    ],
)
def test_sglang_as_its_radix_cache_was_run(page: int, eagle: bool, expected: list[int]) -> None:
    """130 tokens inserted, then: resend, extension, divergence at token 100, each against the first only."""
    first = list(range(130))
    others = [first, [*first, 900, 901], [*first[:100], *range(700, 740)]]
    options: dict[str, Any] = {"block_size": page, "speculative": "eagle" if eagle else "none"}
    assert [cached("sglang", [Asked(first), Asked(other)], **options)[1] for other in others] == expected


def shared_tokens(a: list[int], b: list[int]) -> int:
    return next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


def oracle(requests: list[Asked], profile: EngineProfile, stored: str = "sequence") -> list[int]:
    """Every unit of every prompt is looked for, token by token, among all that was stored before."""
    kept: list[list[int]] = []
    found = []
    unit, ahead = profile.match_unit, profile.lookahead_tokens
    for request in requests:
        units = 0
        last = len(request.prompt) - (1 if ahead == 0 else 0)
        while (end := (units + 1) * unit) <= last and end + ahead <= len(request.prompt):
            if not any(old[: end + ahead] == request.prompt[: end + ahead] for old in kept if len(old) >= end + ahead):
                break
            units += 1
        found.append(max(units - profile.drop_units, 0) * unit if request.reads else 0)
        kept.append(getattr(request, stored))
    return found


@pytest.mark.parametrize("block_size", [1, 7, 16, 32])
@pytest.mark.parametrize("spec", ["vllm@0.32", "vllm@0.33"])
@pytest.mark.parametrize("speculative", ["none", "eagle"])
def test_rules_against_comparing_tokens(spec: str, speculative: Speculative, block_size: int) -> None:
    requests = conversations(seed=block_size, count=120, aligned_to=block_size, skips=0.1)
    profile = resolve(spec, EngineOptions(match_unit=block_size, speculative=speculative))
    expected = oracle(requests, profile)
    assert sum(expected) > 0
    assert profile.rule(lineage_of(requests), profile).tolist() == expected


def test_sglang_eagle_against_comparing_pairs() -> None:
    """A page of pairs (t0 t1)(t1 t2)... matches when one more token than the page matches."""
    requests = conversations(seed=5, count=120)
    for page in (1, 16):
        pages = resolve("sglang", EngineOptions(block_size=page, speculative="eagle"))
        expected = []
        for row, request in enumerate(requests):
            best = 0
            for old in requests[:row]:
                pairs = max(shared_tokens(old.sequence, request.prompt) - 1, 0)
                best = max(best, min(pairs, len(request.prompt) - 2) // page * page)
            expected.append(max(best, 0))
        assert pages.rule(lineage_of(requests), pages).tolist() == expected


def test_tensorrt_llm_partial_reuse_on_and_off() -> None:
    requests = conversations(seed=11, count=120)
    lineage = lineage_of(requests)
    expected = [
        max((min(shared_tokens(old.sequence, r.prompt), len(r.prompt) - 1) for old in requests[:row]), default=0)
        for row, r in enumerate(requests)
    ]
    partial = resolve("tensorrt-llm")
    assert partial.rule(lineage, partial).tolist() == expected
    whole = resolve("tensorrt-llm", EngineOptions(partial_reuse=False))
    assert whole.match_unit == 32
    assert whole.rule(lineage, whole).tolist() == [tokens // 32 * 32 for tokens in expected]


def test_router_can_be_one_block_above_the_engine() -> None:
    prompt = list(range(256))
    twice = [Asked(prompt), Asked(prompt)]
    assert cached("dynamo-router", twice, block_size=64) == [0, 256]
    assert cached("vllm", twice, block_size=64) == [0, 192]
    # With EAGLE a block's hash covers the token after it, which the last block does not have.
    assert cached("dynamo-router", twice, block_size=64, speculative="eagle") == [0, 192]


def test_lmcache_chunks() -> None:
    prompt = list(range(600))
    answered = Asked(prompt, list(range(1000, 1400)))
    assert cached("lmcache", [Asked(prompt), Asked(prompt)]) == [0, 512]
    assert cached("lmcache", [Asked(prompt[:512]), Asked(prompt[:512])]) == [0, 511]
    following = Asked([*answered.sequence, 7, 8, 9])
    assert cached("lmcache", [answered, following]) == [0, 512]
    assert cached("lmcache", [answered, following], save_decode_cache=True) == [0, 768]


def test_lmcache_unfull_chunk_only_for_the_same_prompt() -> None:
    prompt = list(range(600))
    requests = [Asked(prompt), Asked([*prompt, 7]), Asked(prompt), Asked(prompt[:590])]
    assert cached("lmcache", requests, save_unfull_chunk=True) == [0, 512, 599, 512]


def test_llama_cpp_slots() -> None:
    """As measured on its server with two slots, where no host cache brings a displaced prompt back."""
    a, b, c = list(range(100)), list(range(1000, 1100)), list(range(2000, 2100))
    assert cached("llama-cpp", [Asked(a), Asked(a)], slots=2) == [0, 99]
    assert cached("llama-cpp", [Asked(a), Asked(b), Asked(c), Asked(a)], slots=2) == [0, 0, 0, 0]
    assert cached("llama-cpp", [Asked(a), Asked(b), Asked(c), Asked(a)]) == [0, 0, 0, 99]
    turn = Asked(list(range(64)), list(range(500, 520)))
    assert cached("llama-cpp", [turn, Asked(turn.prompt + turn.output + [9])], slots=1) == [0, 83]
    # A fork overwrites what the slot held after the common prefix.
    fork = [*a[:57], *range(3000, 3043)]
    assert cached("llama-cpp", [Asked(a), Asked(fork), Asked(a)], slots=1) == [0, 57, 57]


def test_trace_counts_whole_symbols() -> None:
    lineage = Lineage.from_lengths([1000, 1000, 1500], [0, 1000, 512], [-1, 0, 1])
    profile = resolve("trace", EngineOptions(unit=512))
    assert profile.block_size == 512
    assert profile.rule(lineage, profile).tolist() == [0, 1000, 512]


def test_outputs_store_nothing_in_a_trace() -> None:
    first = Asked(list(range(20)), list(range(500, 540)))
    assert cached("trace", [first, Asked(first.prompt + first.output)]) == [0, 20]


def test_ten_requests_of_the_worked_example() -> None:
    shared = list(range(1024))
    requests = [Asked(shared + list(range(10_000 * (i + 1), 10_000 * (i + 1) + 128))) for i in range(10)]
    assert sum(cached("vllm", requests)) == 9216
    same = [Asked(list(range(1152))) for _ in range(10)]
    assert sum(cached("vllm", same)) == 9 * 1136
