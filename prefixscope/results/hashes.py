"""What comes out of `hashes` and `events`: plain frozen data; constructors assert that sums add up.

Field names are the keys of the files and of `--json`. None means unknown, which is never zero.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from prefixscope.results import InputReport

__all__ = [
    "AT_END",
    "WHEN_SENT",
    "EventsReport",
    "HashChecks",
    "HashDifference",
    "HashedRequest",
    "HeldBlocks",
    "HeldGroup",
    "LogBlocks",
    "LostMessages",
]

WHEN_SENT = ("held", "gone", "later", "missing", "unknown")
"""What the caches had of a block when its request was sent: held; stored before and thrown out; stored only afterwards;
never stored; unknown for want of a time."""

AT_END = ("held", "removed", "cleared", "restart", "missing")
"""What became of a block by the last event: held; its last stay ended by removal, clearing or a restart; never
stored."""


@dataclass(frozen=True, slots=True)
class HashedRequest:
    """One line of `hashes`.

    `tokens` were hashed: the prompt's, and with outputs the known generated ones behind it (`outputs` says how they are
    known; None where outputs were not asked for). `root_hash` is the parent of the first block in hex, None where the
    algorithm has none or it would tell of a salt. `hashes` are the keys in hex, one per block that has one; `integers`
    the numbers of the engine's events or interfaces, None where it shows none.
    """

    request_id: str | None
    file: str
    line: int
    model: str | None
    adapter: str | None
    prompt_tokens: int
    tokens: int
    outputs: str | None
    algorithm: str
    block_size: int
    root_hash: str | None
    hashes: tuple[str, ...]
    integers: tuple[int, ...] | None


@dataclass(frozen=True, slots=True)
class HashDifference:
    """The first ingredient in which the engine's hashes differ from what was stated, for so many blocks."""

    ingredient: str
    changed: tuple[str, ...]
    statement: str
    blocks: int


@dataclass(frozen=True, slots=True)
class HashChecks:
    """Stored blocks by what came of deriving their hash again; the five outcomes add up to `checked`.

    `uncomputable` is why the stated settings give no hash at all, None where they do.
    """

    checked: int
    equal: int
    different: int
    unexplained: int
    parent_unknown: int
    no_tokens: int
    differences: tuple[HashDifference, ...]
    uncomputable: str | None

    def __post_init__(self) -> None:
        outcomes = self.equal + self.different + self.unexplained + self.parent_unknown + self.no_tokens
        assert outcomes == self.checked
        assert sum(difference.blocks for difference in self.differences) == self.different


@dataclass(frozen=True, slots=True)
class HeldGroup:
    """Blocks held by one rank in one medium for one group of layers; None where events name none."""

    rank: int | None
    medium: str | None
    group: int | None
    blocks: int


@dataclass(frozen=True, slots=True)
class HeldBlocks:
    """What was held at a time (None: after the last event). `hashes` as events give them, digests in hex.

    Blocks whose times are not known are in no count at a time; `times_unknown` says how many there are.
    """

    time_ns: int | None
    blocks: int
    times_unknown: int
    by: tuple[HeldGroup, ...]
    hashes: tuple[int | str, ...]

    def __post_init__(self) -> None:
        assert sum(group.blocks for group in self.by) == self.blocks == len(self.hashes)


@dataclass(frozen=True, slots=True)
class LostMessages:
    """Messages of a rank that never arrived, by their numbers."""

    rank: int | None
    first_missing: int
    last_missing: int


@dataclass(frozen=True, slots=True)
class LogBlocks:
    """The blocks of a log's requests against the events; both counts add up to `blocks`.

    `held_prefix_tokens` sums, over the `timed_requests`, the leading blocks that one rank held when the request was
    sent, without the block of the last prompt token, which engines compute anew. `compared_requests` carry a logged
    count of cached tokens too: `compared_held_tokens` and `compared_cached_tokens` are the two sums over them, and
    `agreeing_requests` have both equal.
    """

    input: InputReport
    assumed: tuple[str, ...]
    algorithm: str | None
    block_size: int | None
    requests: int
    timed_requests: int
    blocks: int
    when_sent: Mapping[str, int]
    at_end: Mapping[str, int]
    held_prefix_tokens: int
    timed_prompt_tokens: int
    compared_requests: int
    compared_held_tokens: int
    compared_cached_tokens: int
    agreeing_requests: int

    def __post_init__(self) -> None:
        assert sum(self.when_sent.values()) == sum(self.at_end.values()) == self.blocks


@dataclass(frozen=True, slots=True)
class EventsReport:
    """What KV events tell: whether their hashes are the ones we compute, what was held, what was missed.

    `settings` are the stated algorithm, version, seed and adapter paths. `block_sizes` counts stored blocks by their
    tokens. `cut_line` is the number of an unfinished last line that was left out.
    """

    source: str
    settings: Mapping[str, object]
    assumed: tuple[str, ...]
    batches: int
    first_time_ns: int | None
    last_time_ns: int | None
    ranks: tuple[int, ...]
    block_sizes: Mapping[int, int]
    blocks_stored: int
    blocks_removed: int
    clears: int
    restarts: int
    repeated_batches: int
    removals_of_unknown: int
    unknown_events: tuple[str, ...]
    lost: tuple[LostMessages, ...]
    cut_line: int | None
    hashes: HashChecks
    held_at: HeldBlocks | None
    held_at_end: HeldBlocks
    log: LogBlocks | None
