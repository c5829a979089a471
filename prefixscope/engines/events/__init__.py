"""KV events of engines, recorded or live: decode, replay what was held, derive every hash again, compare with a log.

lines or ZMQ frames -> EventBatch -> cache_history    what was held when
                                  -> rederive         is each hash what we would compute, and if not, why
RequestBlocks + CacheHistory      -> compare_requests which blocks of a request were stored, missing, removed when
"""

from prefixscope.engines.events.comparison import (
    BlockFate,
    RequestBlocks,
    RequestFate,
    compare_requests,
    known_blocks,
)
from prefixscope.engines.events.decode import (
    batch_from_frames,
    batch_from_object,
    batch_to_line,
    batches_from_lines,
)
from prefixscope.engines.events.history import BlockLifetime, CacheHistory, HistoryRecorder, SequenceGap, cache_history
from prefixscope.engines.events.live import ZmqSubscription, follow, is_endpoint, replay_frames
from prefixscope.engines.events.recipes import Alternatives, HashSettings
from prefixscope.engines.events.records import (
    AllBlocksCleared,
    BlockRemoved,
    BlockStored,
    EventBatch,
    EventHash,
    KVEvent,
    event_hash_text,
)
from prefixscope.engines.events.rederive import BlockCheck, Difference, KnownBlock, Rederivation, rederive

__all__ = [
    "AllBlocksCleared",
    "Alternatives",
    "BlockCheck",
    "BlockFate",
    "BlockLifetime",
    "BlockRemoved",
    "BlockStored",
    "CacheHistory",
    "Difference",
    "EventBatch",
    "EventHash",
    "HashSettings",
    "HistoryRecorder",
    "KVEvent",
    "KnownBlock",
    "Rederivation",
    "RequestBlocks",
    "RequestFate",
    "SequenceGap",
    "ZmqSubscription",
    "batch_from_frames",
    "batch_from_object",
    "batch_to_line",
    "batches_from_lines",
    "cache_history",
    "compare_requests",
    "event_hash_text",
    "follow",
    "is_endpoint",
    "known_blocks",
    "rederive",
    "replay_frames",
]
