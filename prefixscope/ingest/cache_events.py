"""KV events against what we compute: every hash derived again, what was held when, and the fate of a log's blocks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import IO, Any

from prefixscope.engines.events import (
    Alternatives,
    BlockLifetime,
    BlockStored,
    CacheHistory,
    EventBatch,
    HashSettings,
    HistoryRecorder,
    Rederivation,
    RequestBlocks,
    compare_requests,
    known_blocks,
    rederive,
)
from prefixscope.errors import OptionError
from prefixscope.ingest.event_source import EventsOptions, EventSource, recorded
from prefixscope.ingest.fates import fates_of
from prefixscope.ingest.key_plan import HashOptions, KeyPlan, plan_for
from prefixscope.ingest.keyed import KeyedPrompt, KeyedReading
from prefixscope.results.hashes import (
    EventsReport,
    HashChecks,
    HashDifference,
    HeldBlocks,
    HeldGroup,
    LogBlocks,
    LostMessages,
)

__all__ = ["CheckedEvents", "check_events"]

Rows = Mapping[str, list[Any]]

MOST_SALTS = 16
"""So many salts of the log are tried on a hash that does not fit: the number of recipes grows with each."""


@dataclass(frozen=True, slots=True)
class CheckedEvents:
    """The report, and with a log one row per request."""

    report: EventsReport
    rows: Rows


def check_events(
    options: EventsOptions, asked: HashOptions, log: KeyedReading | None, record: IO[bytes] | None = None
) -> CheckedEvents:
    """Reads the log, then the events, once; `record` gets every batch as a line of a recording.

    Raises OptionError for an algorithm that no event carries, EndpointError where a publisher is silent, FormatError
    and InputError for a recording that can't be read.
    """
    keyed = [] if log is None else list(log)
    plan = keyed[0].plan if keyed else plan_for(None, asked, exact=False)
    settings = _settings(plan, asked)
    source = EventSource(options)
    watched = _Watched()
    batches: Iterator[EventBatch] = iter(source)
    if record is not None:
        batches = recorded(batches, record)
    first = _up_to_first_tokens(batches) if keyed and asked.block_size is None else []
    timed = log is not None and not log.input.time_is_relative
    requests = _request_blocks(keyed, _block_size_of(first), settings.algorithm, timed=timed)
    recorder = HistoryRecorder()
    result = rederive(
        watched.watch(recorder.watch(chain(first, batches))),
        settings,
        _alternatives(asked, keyed),
        known_blocks(requests),
    )
    history = recorder.history()
    fates = None if log is None else fates_of(keyed, requests, compare_requests(requests, history))
    held_log = None if fates is None or log is None else fates.summary(log.input, log.assumed)
    report = _report(options, plan, settings, watched, history, result, source.cut_line, held_log)
    return CheckedEvents(report, {} if fates is None else fates.rows)


def _settings(plan: KeyPlan, asked: HashOptions) -> HashSettings:
    try:
        return HashSettings(plan.algorithm, plan.options.version, asked.seed, asked.adapter_paths)
    except OptionError as error:
        raise OptionError(f"--algorithm {plan.algorithm}: {error}") from None


def _alternatives(asked: HashOptions, keyed: Sequence[KeyedPrompt]) -> Alternatives:
    salts = dict.fromkeys(one.identity.salt for one in keyed if one.identity.salt)
    seeds = tuple(dict.fromkeys([*Alternatives().seeds, *([] if asked.seed is None else [asked.seed])]))
    return Alternatives(seeds, tuple(salts)[:MOST_SALTS], tuple(asked.adapter_paths.values()))


def _up_to_first_tokens(batches: Iterator[EventBatch]) -> list[EventBatch]:
    """The batches up to the first that stores blocks with their tokens: it tells how large blocks are."""
    taken = []
    for batch in batches:
        taken.append(batch)
        if _block_size_of([batch]) is not None:
            break
    return taken


def _block_size_of(batches: Iterable[EventBatch]) -> int | None:
    events = (event for batch in batches for event in batch.events if isinstance(event, BlockStored))
    return next((event.block_size for event in events if event.tokens and event.block_size), None)


def _request_blocks(
    keyed: Sequence[KeyedPrompt], block_size: int | None, algorithm: str, *, timed: bool
) -> list[RequestBlocks]:
    """The chains of the prompts as the events' engine makes them; times only where both clocks tell the date."""
    requests = []
    for row, one in enumerate(keyed):
        plan = one.plan if block_size is None else one.plan.with_block_size(block_size)
        if plan.algorithm != algorithm:
            raise OptionError(
                f"{one.request.source.file}:{one.request.source.line}: the models file gives this model's engine "
                f"{plan.algorithm} hashes, and the events are read as {algorithm}; name one engine with --engine"
            )
        tokens = one.prompt_tokens
        name = one.request.request_id or f"{one.request.source.file}:{one.request.source.line}"
        made = KeyedPrompt(one.request, one.prompt, one.identity, plan).chain(tokens)
        time_ns = one.request.time_ns if timed else None
        requests.append(RequestBlocks(row, f"request {name}", time_ns, tokens, made))
    return requests


@dataclass(slots=True)
class _Watched:
    """What is counted of batches as they pass."""

    first_ns: int | None = None
    last_ns: int | None = None
    ranks: set[int] = field(default_factory=set)
    sizes: Counter[int] = field(default_factory=Counter)

    def watch(self, batches: Iterable[EventBatch]) -> Iterator[EventBatch]:
        for batch in batches:
            if batch.time_ns is not None:
                self.first_ns = batch.time_ns if self.first_ns is None else min(self.first_ns, batch.time_ns)
                self.last_ns = batch.time_ns if self.last_ns is None else max(self.last_ns, batch.time_ns)
            if batch.rank is not None:
                self.ranks.add(batch.rank)
            for event in batch.events:
                if isinstance(event, BlockStored):
                    self.sizes[event.block_size] += len(event.hashes)
            yield batch


def _report(
    options: EventsOptions, plan: KeyPlan, settings: HashSettings, watched: _Watched, history: CacheHistory,
    result: Rederivation, cut_line: int | None, log: LogBlocks | None,
) -> EventsReport:  # fmt: skip
    at = options.at_ns
    sizes_known = "--block-size"  # the events carry their block size, so nothing is assumed of it
    return EventsReport(
        source=options.source,
        settings={
            "engine": plan.engine,
            "algorithm": settings.algorithm,
            "version": settings.version,
            "seed": settings.seed,
            "adapter_paths": dict(settings.adapter_paths),
        },
        assumed=tuple(sentence for sentence in plan.assumed if sizes_known not in sentence),
        batches=history.batches,
        first_time_ns=watched.first_ns,
        last_time_ns=watched.last_ns,
        ranks=tuple(sorted(watched.ranks)),
        block_sizes=dict(sorted(watched.sizes.items())),
        blocks_stored=history.blocks_stored,
        blocks_removed=history.blocks_removed,
        clears=history.clears,
        restarts=history.restarts,
        repeated_batches=history.repeated_batches,
        removals_of_unknown=history.removals_of_unknown,
        unknown_events=history.unknown_events,
        lost=tuple(LostMessages(gap.rank, gap.first_missing, gap.last_missing) for gap in history.gaps),
        cut_line=cut_line,
        hashes=_checks(result),
        held_at=None if at is None else _held(history.lifetimes, history.held_at(at), at),
        held_at_end=_held(history.lifetimes, history.held_at_end(), None),
        log=log,
    )


def _checks(result: Rederivation) -> HashChecks:
    counts = result.counts
    return HashChecks(
        checked=len(result.checks),
        equal=counts["equal"],
        different=counts["different"],
        unexplained=counts["unexplained"],
        parent_unknown=counts["parent_unknown"],
        no_tokens=counts["no_tokens"],
        differences=tuple(
            HashDifference(difference.ingredient, difference.changed, difference.statement, blocks)
            for difference, blocks in result.differences
        ),
        uncomputable=result.uncomputable,
    )


def _held(every: Sequence[BlockLifetime], held: Sequence[BlockLifetime], time_ns: int | None) -> HeldBlocks:
    unknown = 0 if time_ns is None else sum(lifetime.held_at(time_ns) is None for lifetime in every)
    groups = Counter((lifetime.rank, lifetime.medium, lifetime.group) for lifetime in held)
    return HeldBlocks(
        time_ns=time_ns,
        blocks=len(held),
        times_unknown=unknown,
        by=tuple(HeldGroup(*place, blocks) for place, blocks in sorted(groups.items(), key=str)),
        hashes=tuple(lifetime.hash.hex() if isinstance(lifetime.hash, bytes) else lifetime.hash for lifetime in held),
    )
