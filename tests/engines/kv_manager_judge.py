"""Runs under the engine's own python: vLLM's KVCacheManager serves the requests of a scenario one after another.

Reads one JSON scenario per line from stdin and writes the cached tokens of its requests as one JSON list per line.
The scheduler's own splitting of prefills for recurrent layers is called on a stand-in that carries its settings.

    {"groups": [["full", 16, null], ["sliding_window", 16, 32]], "retention": 0 | null, "eagle": false, "budget": 0,
     "lookahead": 0,  (vLLM 0.33 and later)
     "requests": [{"prompt": [...], "output": [...], "salt": null, "lora": null, "reads": true}]}
"""

import json
import math
import sys
from types import SimpleNamespace

import torch
from vllm.lora.request import LoRARequest
from vllm.sampling_params import SamplingParams
from vllm.utils.hashing import sha256
from vllm.v1.core import kv_cache_utils
from vllm.v1.core.kv_cache_manager import KVCacheManager
from vllm.v1.core.sched.scheduler import Scheduler
from vllm.v1.kv_cache_interface import (
    ChunkedLocalAttentionSpec,
    FullAttentionSpec,
    KVCacheConfig,
    KVCacheGroupSpec,
    MambaSpec,
    SlidingWindowSpec,
)
from vllm.v1.request import Request

BLOCKS = 1 << 16


def spec_of(kind, block, window):
    heads = {"block_size": block, "num_kv_heads": 1, "head_size": 8, "dtype": torch.float32}
    if kind == "full":
        return FullAttentionSpec(**heads)
    if kind == "sliding_window":
        return SlidingWindowSpec(**heads, sliding_window=window)
    if kind == "chunked_local":
        return ChunkedLocalAttentionSpec(**heads, attention_chunk_size=window)
    return MambaSpec(block_size=block, shapes=((8,),), dtypes=(torch.float32,), mamba_cache_mode="align")


def manager_of(scenario):
    groups = scenario["groups"]
    drafts = any(kind == "full" for kind, _, _ in groups)
    eagle = scenario.get("eagle", False)
    specs = [
        KVCacheGroupSpec([f"layer{i}"], spec_of(*group), is_eagle_group=eagle and drafts and group[0] == "full")
        for i, group in enumerate(groups)
    ]
    config = KVCacheConfig(
        num_blocks=BLOCKS,
        kv_cache_tensors=[],
        kv_cache_groups=specs,
        prefix_cache_retention_interval=scenario.get("retention"),
    )
    sizes = [block for _, block, _ in groups]
    ahead = {"num_hash_lookahead_tokens": scenario["lookahead"]} if scenario.get("lookahead") else {}
    return KVCacheManager(
        config,
        max_model_len=1 << 20,
        scheduler_block_size=math.lcm(*sizes),
        hash_block_size=math.gcd(*sizes),
        use_eagle=eagle and not ahead,
        **ahead,
    ), math.gcd(*sizes)


def splitter_of(scenario):
    """The scheduler's split for recurrent layers, or None where there are none."""
    blocks = [block for kind, block, _ in scenario["groups"] if kind == "mamba"]
    if not blocks:
        return None
    settings = SimpleNamespace(
        cache_config=SimpleNamespace(block_size=blocks[0]),
        scheduler_config=SimpleNamespace(long_prefill_token_threshold=0),
        max_num_scheduled_tokens=scenario.get("budget") or 1 << 20,
        mamba_partial_cache_hit=False,
        mamba_shared_prefix_checkpoint=False,
        mamba_has_prefill_checkpoint_blocks=False,
        mamba_prefill_checkpoint_alignment=None,
        hash_block_size=blocks[0],
        block_size=blocks[0],
        use_eagle_block_drop=scenario.get("eagle", False) and not scenario.get("lookahead"),
        num_hash_lookahead_tokens=scenario.get("lookahead", 0),
    )
    return lambda *arguments: Scheduler._mamba_block_aligned_split(settings, *arguments)


def serve(manager, request, output, split, budget):
    blocks, hit, junction = manager.get_computed_blocks(request)
    request.shared_prefix_boundary = junction
    fresh = hit
    while request.num_computed_tokens < request.num_prompt_tokens:
        start = request.num_computed_tokens + fresh
        new = min(request.num_prompt_tokens - start, budget or 1 << 20)
        if split is not None:
            new = split(request, new, fresh, 0)
        assert new > 0
        manager.coordinator.new_step_starts()
        allocated = manager.allocate_slots(request, new, fresh, blocks if start == hit else None)
        assert allocated is not None
        request.num_computed_tokens = start + new
        fresh = 0
    for number, token in enumerate(output):
        request.append_output_token_ids(token)
        if number + 1 < len(output):
            manager.coordinator.new_step_starts()
            assert manager.allocate_slots(request, 1) is not None
            request.num_computed_tokens += 1
    manager.free(request)
    return hit


def lora_of(lora):
    return None if lora is None else LoRARequest(lora["name"], lora["id"], lora["path"])


def run(scenario):
    manager, hash_block = manager_of(scenario)
    ahead = [scenario["lookahead"]] if scenario.get("lookahead") else []
    hasher = kv_cache_utils.get_request_block_hasher(hash_block, sha256, *ahead)
    split = splitter_of(scenario)
    hits = []
    for number, asked in enumerate(scenario["requests"]):
        reads = asked.get("reads", True)
        request = Request(
            request_id=str(number),
            prompt_token_ids=list(asked["prompt"]),
            sampling_params=SamplingParams(max_tokens=1 << 16, prompt_logprobs=None if reads else 1),
            pooling_params=None,
            lora_request=lora_of(asked.get("lora")),
            cache_salt=asked.get("salt"),
            block_hasher=hasher,
        )
        hits.append(serve(manager, request, asked.get("output", []), split, scenario.get("budget") or 0))
    return hits


if __name__ == "__main__":
    kv_cache_utils.init_none_hash(sha256)
    for line in sys.stdin:
        print("ANSWER " + json.dumps(run(json.loads(line))), flush=True)
