"""What became of the blocks of a log's requests, as totals and as one row per request."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from prefixscope.engines.events import RequestBlocks, RequestFate
from prefixscope.ingest.keyed import KeyedPrompt
from prefixscope.results import InputReport
from prefixscope.results.hashes import AT_END, WHEN_SENT, LogBlocks

__all__ = ["Fates", "fates_of"]


@dataclass(frozen=True, slots=True)
class Fates:
    """Rows in the order of the log, as columns of equal length, and how their blocks were made."""

    rows: Mapping[str, list[Any]]
    algorithm: str | None
    block_size: int | None

    def summary(self, report_input: InputReport, assumed: tuple[str, ...]) -> LogBlocks:
        """The sums over all rows."""
        rows = self.rows
        held, cached = rows["held_prefix_tokens"], rows["measured_cached_tokens"]
        timed = [place for place, tokens in enumerate(held) if tokens is not None]
        compared = [place for place in timed if cached[place] is not None]
        return LogBlocks(
            input=report_input,
            assumed=assumed,
            algorithm=self.algorithm,
            block_size=self.block_size,
            requests=len(held),
            timed_requests=len(timed),
            blocks=sum(rows["blocks"]),
            when_sent={name: sum(rows[f"sent_{name}"]) for name in WHEN_SENT},
            at_end={name: sum(rows[f"end_{name}"]) for name in AT_END},
            held_prefix_tokens=sum(held[place] for place in timed),
            timed_prompt_tokens=sum(rows["prompt_tokens"][place] for place in timed),
            compared_requests=len(compared),
            compared_held_tokens=sum(held[place] for place in compared),
            compared_cached_tokens=sum(cached[place] for place in compared),
            agreeing_requests=sum(held[place] == cached[place] for place in compared),
        )


def fates_of(keyed: Sequence[KeyedPrompt], requests: Sequence[RequestBlocks], fates: Sequence[RequestFate]) -> Fates:
    """The rows of the requests, whose fates are given in the same order."""
    made = [_row(one, blocks, fate) for one, blocks, fate in zip(keyed, requests, fates, strict=True)]
    names = list(made[0]) if made else []
    columns = {name: [row[name] for row in made] for name in names}
    first = requests[0].chain if requests else None
    return Fates(columns, None if first is None else first.algorithm, None if first is None else first.block_size)


def _row(one: KeyedPrompt, blocks: RequestBlocks, fate: RequestFate) -> dict[str, Any]:
    """`last_gone_ns` is when the latest block was thrown out that was `gone` when the request was sent."""
    request, size = one.request, blocks.chain.block_size
    usage = request.usage
    gone = [block.gone_ns for block in fate.blocks if block.gone_ns is not None]
    ended = [block.ended_ns for block in fate.blocks if block.ended_ns is not None]
    sent = Counter[str](block.when_sent for block in fate.blocks)
    at_end = Counter[str](block.fate for block in fate.blocks)
    return {
        "row": fate.row,
        "request_id": request.request_id,
        "time": request.time_ns,
        "model": request.model,
        "session_id": request.session_id,
        "tenant": request.tenant,
        "replica": request.replica,
        "prompt_tokens": one.prompt.prompt_tokens,
        "measured_cached_tokens": None if usage is None else usage.cached_tokens,
        "file": request.source.file,
        "line": request.source.line,
        "adapter": one.identity.adapter_name,
        "block_size": size,
        "blocks": len(fate.blocks),
        "held_prefix_tokens": _readable(one, fate, size),
        **{f"sent_{name}": sent[name] for name in WHEN_SENT},
        "last_gone_ns": max(gone, default=None),
        **{f"end_{name}": at_end[name] for name in AT_END},
        "first_ended_ns": min(ended, default=None),
    }


def _readable(one: KeyedPrompt, fate: RequestFate, block_size: int) -> int | None:
    """Tokens of the held leading blocks that an engine would take: the block of the last prompt token is computed."""
    if fate.held_prefix_at_request is None:
        return None
    if not one.prompt.reads_cache:
        return 0
    return min(fate.held_prefix_at_request, (one.prompt.prompt_tokens - 1) // block_size) * block_size
