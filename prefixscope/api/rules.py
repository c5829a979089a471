"""The engine's rule and what finite memory leaves of it, applied to the selected rows of one lineage."""

from __future__ import annotations

from prefixscope.api.finite_memory import FiniteMemory
from prefixscope.api.options import EngineChoice, LogOptions, MemoryOptions, Progress
from prefixscope.api.overlap import with_overlap
from prefixscope.api.reading import profile_of
from prefixscope.reuse.pools import Applied, apply_engine
from prefixscope.reuse.selection import Selection

__all__ = ["applied_to"]


def applied_to(
    selection: Selection, log: LogOptions, engine: EngineChoice, memory: MemoryOptions, progress: Progress
) -> Applied:
    """Under the first engine, with the rungs `in_flight` where the log's times tell, `routing` where replicas are
    logged, and `capacity` where a size was given."""
    name = engine.names[0] if engine.names else None
    return apply_engine(
        selection.lineage,
        selection.counted,
        lambda lineage, pool: profile_of(lineage, pool, engine, name, memory),
        (),
        with_overlap(engine, FiniteMemory(log, memory, progress).restrict),
    )
