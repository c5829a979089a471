"""What became of the blocks of given requests: stored, held, removed when, or never seen."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from prefixscope.engines.events.history import BlockLifetime, CacheHistory
from prefixscope.engines.events.records import EventHash
from prefixscope.engines.events.rederive import KnownBlock
from prefixscope.engines.hashes.registry import BlockChain

__all__ = ["BlockFate", "RequestBlocks", "RequestFate", "WhenSent", "compare_requests", "known_blocks"]

FateName = Literal["held", "removed", "cleared", "restart", "missing"]
WhenSent = Literal["held", "gone", "later", "missing", "unknown"]


@dataclass(frozen=True, slots=True)
class RequestBlocks:
    """A request of a log with its chain; `tokens` are those the chain was made of. `owner` names it for people."""

    row: int
    owner: str
    time_ns: int | None
    tokens: bytes
    chain: BlockChain

    def names(self, index: int) -> tuple[EventHash, ...]:
        """How events may name block `index`: by whole digest or by number."""
        digest = self.chain.keys[index]
        return (digest,) if self.chain.integers is None else (digest, self.chain.integers[index])


@dataclass(frozen=True, slots=True)
class BlockFate:
    """One block's last stay in a cache: `missing` was never stored, `held` still is; others ended at `ended_ns`.

    `when_sent` is what the caches had of it when the request was sent: `held`, `gone` (stored before and ended before),
    `later` (first stored afterwards, as for every cold request), `missing`, or `unknown` where a time is not known.
    `gone_ns` is when the stay before the request ended, where it was `gone`.
    """

    index: int
    fate: FateName
    stored_ns: int | None = None
    ended_ns: int | None = None
    when_sent: WhenSent = "unknown"
    gone_ns: int | None = None


@dataclass(frozen=True, slots=True)
class RequestFate:
    """A request's blocks after the last event. The five counts add up to the number of blocks.

    `held_prefix_at_request`: leading blocks one rank held when the request was sent (its own time against the
    publisher's clock); None where one of the two is unknown. The engine's own limits (last token) are not applied.
    """

    row: int
    owner: str
    blocks: tuple[BlockFate, ...]
    held_prefix_at_request: int | None

    def count(self, fate: FateName) -> int:
        """Blocks with that fate."""
        return sum(block.fate == fate for block in self.blocks)

    def count_when_sent(self, state: WhenSent) -> int:
        """Blocks in that state when the request was sent."""
        return sum(block.when_sent == state for block in self.blocks)

    @property
    def stored(self) -> int:
        """Blocks stored at least once."""
        return len(self.blocks) - self.count("missing")


def known_blocks(requests: Iterable[RequestBlocks]) -> dict[EventHash, KnownBlock]:
    """The blocks of the requests by the names events give them, for `rederive`."""
    known: dict[EventHash, KnownBlock] = {}
    for request in requests:
        width = request.chain.block_size * 4
        for index, digest in enumerate(request.chain.keys):
            tokens = request.tokens[index * width : (index + 1) * width]
            block = KnownBlock(digest, tokens, f"block {index} of {request.owner}")
            for name in request.names(index):
                known.setdefault(name, block)
    return known


def compare_requests(requests: Sequence[RequestBlocks], history: CacheHistory) -> list[RequestFate]:
    """The fate of every block of every request."""
    stays: dict[EventHash, list[BlockLifetime]] = {}
    for lifetime in history.lifetimes:
        stays.setdefault(lifetime.hash, []).append(lifetime)
    fates = []
    for request in requests:
        per_block = [
            [stay for name in request.names(index) for stay in stays.get(name, ())]
            for index in range(len(request.chain.keys))
        ]
        blocks = tuple(_fate(index, found, request.time_ns) for index, found in enumerate(per_block))
        fates.append(RequestFate(request.row, request.owner, blocks, _held_prefix(per_block, request.time_ns)))
    return fates


def _fate(index: int, found: Sequence[BlockLifetime], time_ns: int | None) -> BlockFate:
    if not found:
        return BlockFate(index, "missing", when_sent="missing")
    held = [stay for stay in found if stay.ended_batch is None]
    last = held[-1] if held else max(found, key=lambda stay: stay.ended_batch or 0)
    when_sent, gone_ns = _when_sent(found, time_ns)
    return BlockFate(index, last.ended_by or "held", last.stored_ns, last.ended_ns, when_sent, gone_ns)


def _when_sent(found: Sequence[BlockLifetime], time_ns: int | None) -> tuple[WhenSent, int | None]:
    if time_ns is None:
        return "unknown", None
    states = [stay.held_at(time_ns) for stay in found]
    if True in states:
        return "held", None
    if None in states:
        return "unknown", None
    ended = [stay.ended_ns for stay in found if stay.ended_ns is not None and stay.ended_ns <= time_ns]
    return ("gone", max(ended)) if ended else ("later", None)


def _held_prefix(per_block: Sequence[Sequence[BlockLifetime]], time_ns: int | None) -> int | None:
    """The longest run of leading blocks that one rank held at a time."""
    if time_ns is None:
        return None
    reach: dict[int | None, int] = {}
    for index, found in enumerate(per_block):
        for stay in found:
            held = stay.held_at(time_ns)
            if held is None:
                return None
            if held and reach.get(stay.rank, 0) == index:
                reach[stay.rank] = index + 1
    return max(reach.values(), default=0)
