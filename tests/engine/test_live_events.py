"""Our hashes against the KV events of a live vLLM 0.32, for base, salted and adapter requests."""

from __future__ import annotations

import random
import struct
import time
from dataclasses import replace

import pytest

from prefixscope.engines.events import (
    Alternatives,
    BlockStored,
    EventBatch,
    HashSettings,
    RequestBlocks,
    ZmqSubscription,
    batch_to_line,
    batches_from_lines,
    cache_history,
    compare_requests,
    follow,
    known_blocks,
    rederive,
    replay_frames,
)
from prefixscope.engines.hashes import ChainOptions, KeyIdentity, block_chain
from tests.engine.serving import EngineConfiguration, RunningEngine

BLOCK = 32
USABLE_BLOCKS = 32
SMALL_CACHE = ("--num-gpu-blocks-override", str(USABLE_BLOCKS + 1), "--max-model-len", "1024")


ALGORITHMS = ("sha256", "sha256_cbor", "xxhash_cbor")


def configuration(algorithm: str) -> EngineConfiguration:
    """sha256 runs without PYTHONHASHSEED (its fixed seed), the others with 0."""
    return EngineConfiguration(
        options=(*SMALL_CACHE, "--prefix-caching-hash-algo", algorithm),
        environment={} if algorithm == "sha256" else {"PYTHONHASHSEED": "0"},
        with_adapters=True,
        events=True,
    )


pytestmark = pytest.mark.parametrize(
    "engine", [configuration(algorithm) for algorithm in ALGORITHMS], ids=ALGORITHMS, indirect=True, scope="module"
)


class Observed:
    """What one server published for a fixed set of requests, and what it answered."""

    def __init__(self, engine: RunningEngine) -> None:
        algorithm = engine.configuration.options[-1]
        seed = engine.configuration.environment.get("PYTHONHASHSEED")
        self.paths = {name: str(path) for name, path in engine.adapters.items()}
        self.settings = HashSettings(f"vllm-{algorithm}", "0.32", seed, self.paths)
        self.requests: list[RequestBlocks] = []
        self.cached: list[int] = []
        assert engine.events_endpoint is not None and engine.replay_endpoint is not None
        self.replay_endpoint = engine.replay_endpoint
        with ZmqSubscription(engine.events_endpoint) as subscription:
            self._ask(engine)
            self.batches = list(follow(subscription, self._replay, idle_s=2.0))

    def _replay(self, start: int) -> list[list[bytes]]:
        return [list(frames) for frames in replay_frames(self.replay_endpoint, start)]

    def _ask(self, engine: RunningEngine) -> None:
        draw = random.Random(7)
        shared = [draw.randrange(300, 4000) for _ in range(140)]
        first = [
            (shared, None, None),
            (shared, None, None),
            (shared[:100] + [5] * 33, None, None),
            (shared, "red", None),
            (shared, "red", None),
            (shared, "blue", None),
            (shared, None, "la"),
            (shared, None, "lb"),
            (shared, "red", "la"),
        ]
        later = [([draw.randrange(300, 4000) for _ in range(length)], None, None) for length in (128, 300, 64, 500, 31)]
        for tokens, salt, adapter in [*first, *later]:
            self._one(engine, tokens, salt, adapter)

    def _one(self, engine: RunningEngine, tokens: list[int], salt: str | None, adapter: str | None) -> None:
        identity = KeyIdentity(adapter_name=adapter, adapter_path=self.paths.get(adapter or ""), salt=salt)
        encoded = struct.pack(f"<{len(tokens)}I", *tokens)
        options = ChainOptions(version="0.32", seed=self.settings.seed)
        chain = block_chain(self.settings.algorithm, encoded, BLOCK, identity, options)
        number = len(self.requests)
        self.requests.append(RequestBlocks(number, f"request {number}", time.time_ns(), encoded, chain))
        fields: dict[str, str] = {} if salt is None else {"cache_salt": salt}
        answer = engine.complete(tokens, model=adapter or "tiny", **fields)
        self.cached.append(answer["usage"]["prompt_tokens_details"]["cached_tokens"])
        time.sleep(0.05)  # the publisher's thread stamps a batch after the answer may have been sent


@pytest.fixture(scope="module")
def observed(engine: RunningEngine) -> Observed:
    return Observed(engine)


def stored_blocks(batches: list[EventBatch]) -> int:
    return sum(len(e.hashes) for batch in batches for e in batch.events if isinstance(e, BlockStored))


def test_every_published_hash_is_derived_again(observed: Observed) -> None:
    result = rederive(observed.batches, observed.settings)
    stored = stored_blocks(observed.batches)
    assert stored > 50
    assert result.counts == {"equal": stored, "different": 0, "unexplained": 0, "parent_unknown": 0, "no_tokens": 0}
    events = [event for batch in observed.batches for event in batch.events if isinstance(event, BlockStored)]
    published = {keys for event in events for keys in event.extra_keys or ()}
    assert {("red",), ("blue",), ("la",), ("lb",), ("la", "red"), None} <= published


def test_wrong_settings_are_named(observed: Observed) -> None:
    stated = observed.settings
    others = Alternatives(seeds=("0",), adapter_paths=tuple(stated.adapter_paths.values()))
    wrong_seed = replace(stated, seed="41")
    wrong_algorithm = replace(stated, algorithm="vllm-xxhash", seed="0")
    wrong_path = replace(stated, adapter_paths={**stated.adapter_paths, "la": "/elsewhere"})
    for settings, ingredient in ((wrong_seed, "seed"), (wrong_path, "adapter")):
        result = rederive(observed.batches, settings, others)
        assert {difference.ingredient for difference, _ in result.differences} == {ingredient}
        assert result.counts["unexplained"] == result.counts["parent_unknown"] == 0
    result = rederive(observed.batches, wrong_algorithm, others)
    assert {"algorithm"} <= {name for difference, _ in result.differences for name in difference.changed}
    assert result.counts["different"] == stored_blocks(observed.batches)


def test_what_was_held_is_what_was_cached(observed: Observed) -> None:
    history = cache_history(observed.batches)
    assert history.gaps == () and history.removals_of_unknown == 0 and history.restarts == 0
    assert history.blocks_removed > 0, "the small cache must have thrown blocks out"
    assert len(history.held_at_end()) <= USABLE_BLOCKS
    fates = compare_requests(observed.requests, history)
    for request, fate, cached in zip(observed.requests, fates, observed.cached, strict=True):
        assert fate.count("missing") == 0, "every full block of every prompt was stored"
        last_full = (len(request.tokens) // 4 - 1) // BLOCK
        assert fate.held_prefix_at_request is not None
        assert min(fate.held_prefix_at_request, last_full) * BLOCK == cached, request.owner
    assert sum(fate.count("removed") for fate in fates) > 0


def test_a_late_subscriber_gets_everything_from_the_replay_socket(observed: Observed) -> None:
    class Silent:
        def receive(self, timeout_s: float) -> None:
            return None

    again = list(follow(Silent(), lambda start: replay_frames(observed.replay_endpoint, start), idle_s=0.0))
    assert again == observed.batches


def test_a_recording_gives_the_same_batches(observed: Observed) -> None:
    lines = [batch_to_line(batch) for batch in observed.batches]
    assert list(batches_from_lines(lines, "recording")) == observed.batches


def test_a_recording_begun_late_is_checked_with_the_chains_of_the_log(observed: Observed) -> None:
    late = observed.batches[1:]
    first = observed.batches[0]
    assert any(isinstance(event, BlockStored) for event in first.events)
    alone = rederive(late, observed.settings)
    helped = rederive(late, observed.settings, known=known_blocks(observed.requests))
    assert alone.counts["parent_unknown"] > 0
    assert helped.counts["parent_unknown"] == 0
    assert helped.counts["equal"] == stored_blocks(late)
