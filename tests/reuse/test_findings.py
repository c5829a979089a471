"""The first finding, against the plain count; block sizes of models with several KV groups; overlap on hash rows."""

from __future__ import annotations

import random

import numpy as np
import pytest

from prefixscope.engines import CacheGroup, EngineOptions, EngineProfile, resolve
from prefixscope.index.lineage import Lineage
from prefixscope.report.finding_words import finding_in_words
from prefixscope.results import EngineUsed
from prefixscope.reuse.findings import WORTH_SAYING, least_shared_tokens, short_prefixes
from prefixscope.reuse.in_flight import in_flight
from prefixscope.reuse.sweep import sweep, with_block_size
from tests.engines.traffic import Asked, lineage_of


def a_log(seed: int) -> Lineage:
    """Rows that all share different lengths with the first."""
    draw = random.Random(seed)
    lengths = [draw.choice([0, 5, 20, 100, 130, 400]) for _ in range(draw.randint(1, 40))]
    prompts = [600, *(shared + draw.randint(1, 50) for shared in lengths)]
    return Lineage.from_lengths(prompts, [0, *lengths], [-1, *(0 if shared else -1 for shared in lengths)])


PROFILES = [
    resolve("vllm"),
    resolve("vllm-ascend"),
    resolve("vllm@0.32", EngineOptions(speculative="eagle", block_size=64)),
    resolve("vllm", EngineOptions(speculative="mtp", block_size=128)),
    resolve("openai"),
    resolve("sglang"),
    resolve("tensorrt-llm"),
]


@pytest.mark.parametrize("profile", PROFILES, ids=lambda profile: f"{profile.name}-{profile.match_unit}")
def test_the_finding_counts_what_is_too_short(profile: EngineProfile) -> None:
    told = 0
    for seed in range(60):
        lineage = a_log(seed)
        counted = np.ones(len(lineage), np.bool_)
        counted[: seed % 3] = False
        if not counted.any():
            continue
        finding = short_prefixes("m", lineage, profile, counted, sweep(lineage, profile, counted, (16, 64)))
        shared = [int(value) for value, one in zip(lineage.reusable_tokens, counted, strict=True) if one and value]
        least = least_shared_tokens(profile)
        lost = sum(value for value in shared if value < least)
        if not lost or lost < WORTH_SAYING * sum(shared) or least == 1:
            assert finding is None
            continue
        assert finding is not None
        told += 1
        assert (finding.lost_tokens, finding.reusable_tokens) == (lost, sum(shared))
        assert (finding.short_requests, finding.sharing_requests) == (sum(v < least for v in shared), len(shared))
        assert all(finding.shared_lengths[name] in shared for name in ("p10", "p50", "p90"))
        assert sum(value <= finding.shared_lengths["p50"] for value in shared) * 2 >= len(shared)
        assert finding.shared_lengths["p100"] == max(shared)
        # Nothing is granted below the least, so what the finding calls lost is lost.
        granted = profile.rule(lineage, profile)
        assert not granted[lineage.reusable_tokens < least].any()
        engine = EngineUsed(profile.name, profile.version, profile.block_size, profile.match_unit, "none", (), "x")
        sentences = finding_in_words(finding, engine)
        assert f"{lost:,}" in sentences[0].replace(" k", "") or lost > 9999
    assert (told > 5) == (least_shared_tokens(profile) > 16)


def test_block_sizes_of_a_model_with_groups_are_walked_with_those_blocks() -> None:
    groups = (CacheGroup("full", 16), CacheGroup("sliding_window", 16, 32))
    profile = resolve("vllm@0.32", EngineOptions(groups=groups, retention="dense"))
    lineage = lineage_of([Asked(list(range(208))), Asked(list(range(208))), Asked([*range(100), *range(900, 990)])])
    counted = np.ones(3, np.bool_)
    rows = {row.block_size: row for row in sweep(lineage, profile, counted, (8, 16, 64))}
    for size, row in rows.items():
        scaled = tuple(CacheGroup(group.kind, size, group.window) for group in groups)
        alone = resolve("vllm@0.32", EngineOptions(groups=scaled, retention="dense"))
        assert row.cached_tokens == int(alone.rule(lineage, alone).sum()), size
    assert [rows[size].accepted for size in (8, 16, 64)] == [False, True, True]
    uneven = resolve("vllm@0.32", EngineOptions(groups=(CacheGroup("full", 32), CacheGroup("sliding_window", 16, 32))))
    assert [row.block_size for row in sweep(lineage, uneven, counted, (1, 2, 64))] == [2, 32, 64]
    assert (
        with_block_size(uneven, 64).grouping
        == resolve(
            "vllm@0.32", EngineOptions(groups=(CacheGroup("full", 64), CacheGroup("sliding_window", 32, 32)))
        ).grouping
    )


def test_overlap_on_hash_rows_never_shares_more_than_is_there() -> None:
    unit = np.full(3, 512, np.int64)
    lineage = Lineage.from_lengths([700, 700, 900], [0, 700, 512], [-1, 0, 0], unit=unit)
    profile = resolve("sglang", EngineOptions(block_size=512, unit=512))
    found = in_flight(lineage, profile, service_ns=0)
    assert found is not None
    assert (found.visible_tokens <= lineage.shared_tokens).all()
    assert found.cached_tokens.tolist() == profile.rule(lineage, profile).tolist()
