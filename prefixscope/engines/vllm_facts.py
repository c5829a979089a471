"""What is known of vLLM's prefix cache: each statement with where it was read and how it was checked."""

from __future__ import annotations

from prefixscope.engines.profile import Fact

__all__ = ["FACTS"]

FACTS = (
    Fact(
        "match rule",
        "full blocks only; at most the prompt without its last token: max(min(S, P-1) // U * U, 0)",
        "v1/core/kv_cache_manager.py: get_computed_blocks (max_cache_hit_length = num_tokens - 1)",
        "0.11 to 0.33; seen running in 0.32",
        "seen running",
    ),
    Fact(
        "block size",
        "16 unless the attention backend wants another: FlashMLA 64, CUTLASS MLA and the CPU 128",
        "config/cache.py: DEFAULT_BLOCK_SIZE; platforms/interface.py; platforms/cpu.py",
        "0.32",
        "source read",
    ),
    Fact(
        "block size on a CPU",
        "128; multiples of 32 are accepted, 16 is refused at start",
        "running engine: 'No common block size for 16 (CPU_ATTN: [MultipleOf(32)])'",
        "0.32",
        "seen running",
    ),
    Fact(
        "speculative decoding, drop",
        "with EAGLE or MTP the last matched unit is given up, after matching",
        "v1/core/single_type_kv_cache_manager.py: drop_eagle_block",
        "0.11 to 0.32 (run from 0.27 on); 0.33 with a KV connector or disable_lookahead_block_hashes",
        "function run",
    ),
    Fact(
        "speculative decoding, lookahead",
        "a block's hash covers the L tokens after it (1; the draft length for multi-module MTP), nothing is dropped: "
        "max((min(S, P) - L) // U * U, 0)",
        "v1/core/kv_cache_utils.py: num_hash_lookahead_tokens; config/vllm.py",
        "0.33",
        "function run",
    ),
    Fact(
        "several KV groups",
        "a hit ends where every group can serve it, at a multiple of the least common multiple of their block sizes",
        "v1/core/kv_cache_coordinator.py: HybridKVCacheCoordinator.find_longest_cache_hit",
        "0.27 to 0.33",
        "function run",
    ),
    Fact(
        "sliding window",
        "a hit needs ceil((window - 1) / block) kept blocks in a row before it, or a run from the first block",
        "v1/core/single_type_kv_cache_manager.py: SlidingWindowManager",
        "0.27 to 0.33",
        "function run",
    ),
    Fact(
        "recurrent layers",
        "a hit needs one kept state that ends there; states exist where a prefill chunk ended and, in decode, at the "
        "ends of blocks",
        "v1/core/single_type_kv_cache_manager.py: MambaManager; v1/core/sched/scheduler.py: _mamba_block_aligned_split",
        "0.27 to 0.33",
        "function run",
    ),
    Fact(
        "retention",
        "sliding-window and recurrent states are kept only where a prompt can be resumed and at a detected junction of "
        "two prompts (default 0); before 0.29 all of them",
        "config/cache.py: prefix_cache_retention_interval; single_type_kv_cache_manager.py: reachable_block_mask",
        "0.27 to 0.33",
        "function run",
    ),
    Fact(
        "first sibling",
        "the first prompt that leaves a long shared prefix finds no state there; its junction is kept for the next one",
        "v1/core/kv_cache_manager.py: shared_prefix_boundary",
        "0.27 to 0.33",
        "function run",
    ),
    Fact(
        "visibility",
        "blocks can be found as soon as they are scheduled, in the same step too; recurrent states one step later",
        "v1/core/kv_cache_manager.py: allocate_slots; four equal prompts at once: 0, 992, 992, 992 of 1000",
        "0.32",
        "seen running",
    ),
    Fact(
        "generated tokens",
        "full blocks of generated tokens stay findable; the last sampled token has no KV",
        "v1/request.py: append_output_token_ids; next turns on a running engine",
        "0.32",
        "seen running",
    ),
    Fact(
        "requests that do not read",
        "prompt_logprobs (and pooling of all tokens) skip the look-up, fill the cache, and are not counted as queries",
        "v1/core/kv_cache_manager.py: prefix_cache_lookup_enabled, record_prefix_cache_stats",
        "0.32",
        "seen running",
    ),
    Fact(
        "parallel samples",
        "n > 1 looks the prompt up once per sample; usage counts it once per call",
        "running engine: n = 3 on 100 tokens, usage 96, counters +300 and +192",
        "0.32",
        "seen running",
    ),
    Fact(
        "images, audio, video",
        "an item takes the place of its placeholder; blocks it reaches into carry its identifier (the part's uuid, "
        "else a hash of its content), since 0.19 with its offset in the block",
        "v1/core/kv_cache_utils.py: generate_block_hash_extra_keys; multimodal/hasher.py",
        "0.11 to 0.33",
        "function run",
    ),
    Fact(
        "prompts given as embeddings",
        "token ids are 0, and each block carries a hash of its stretch of the tensor",
        "v1/core/kv_cache_utils.py: generate_block_hash_extra_keys",
        "0.32",
        "source read",
    ),
    Fact(
        "eviction",
        "least recently used, tail of a sequence first; freed blocks without a hash are reused before all others",
        "v1/core/block_pool.py; 400 requests on 32 blocks without a difference",
        "0.27 to 0.33; seen running in 0.32",
        "seen running",
    ),
    Fact(
        "what separates",
        "adapter (name and path, in every block), cache_salt (first block), multimodal identifier and offset, prompt "
        "embeddings; before 0.31 the adapter's name only, in 0.11 its integer id",
        "v1/core/kv_cache_utils.py: generate_block_hash_extra_keys",
        "0.11 to 0.33",
        "function run",
    ),
)
