"""What a token costs in KV memory, per pool: from the config.json of the models that the user named."""

from __future__ import annotations

from dataclasses import dataclass

from prefixscope.api.options import LogOptions, MemoryOptions
from prefixscope.capacity.sizes import Capacity
from prefixscope.errors import ModelError, OptionError
from prefixscope.index.lineage import Lineage
from prefixscope.ingest import model_table
from prefixscope.models.kv_bytes import KvOptions, kv_layout
from prefixscope.models.table import ModelEntry, ModelTable
from prefixscope.models.tokenizer import model_config

__all__ = ["KvSize", "KvSizes"]


@dataclass(frozen=True, slots=True)
class KvSize:
    """Bytes per token of a kept prefix, over all ranks of one replica; None where `why` says so, else its formula."""

    pool: str
    token_bytes: int | None
    why: str

    def block_bytes(self, block_size: int) -> int | None:
        """Bytes of a block."""
        return None if self.token_bytes is None else self.token_bytes * block_size

    def blocks_of(self, capacity: Capacity, block_size: int, option: str = "--capacity") -> int:
        """A size as whole blocks; OptionError where bytes were given and a token's bytes are not known."""
        if capacity.unit == "bytes" and self.token_bytes is None:
            raise OptionError(
                f"{option} {capacity.text}: the KV bytes of pool {self.pool or '(no model)'!r} are not known "
                f"({self.why}); or give blocks or tokens"
            )
        return capacity.blocks(block_size, self.block_bytes(block_size))


class KvSizes:
    """Looks pools up in `--model` and `--models`; what those say of KV is overruled by the options."""

    def __init__(self, log: LogOptions, memory: MemoryOptions) -> None:
        self._table: ModelTable = model_table(log.models, log.models_file)
        self._memory = memory
        KvOptions(dtype=memory.kv_dtype or "auto")  # a wrong name is told before the log is read

    def of(self, lineage: Lineage, pool: str) -> KvSize:
        """The size for one pool's rows. OptionError where the model can't be split as `--tensor-parallel` says."""
        entries = self._entries(lineage, pool)
        if not entries:
            name = next(iter(lineage.model.names), None) or "*"
            return KvSize(pool, None, f"name the folder of its config.json with --model {name}=FOLDER or --models FILE")
        config, entry = None, entries[0]
        for entry in entries:
            config = model_config(entry)
            if config is not None:
                break
        if config is None:
            return KvSize(pool, None, f"{entry.location or entry.name} has no config.json")
        try:
            layout = kv_layout(config, self._options(lineage, pool, entry))
        except ModelError as error:
            return KvSize(pool, None, str(error))
        if not layout.bytes_per_token:
            return KvSize(pool, None, "no layer of this model keeps KV that grows with the prefix")
        return KvSize(pool, layout.bytes_per_token, layout.formula)

    def _entries(self, lineage: Lineage, pool: str) -> list[ModelEntry]:
        """Entries that the pool's names resolve to, those of the base itself first."""
        names = [lineage.model[row] for row in dict(zip(lineage.model.codes.tolist(), range(len(lineage)), strict=True)).values()]
        found = [entry for entry in map(self._table.resolve, [pool or None, *names]) if entry is not None]
        return [entry for entry in dict.fromkeys(map(id, found)) and _unique(found) if entry.location is not None]

    def _options(self, lineage: Lineage, pool: str, entry: ModelEntry) -> KvOptions:
        said = lineage.provenance.get("engine_settings", {}).get(pool, {})
        return KvOptions(
            dtype=self._memory.kv_dtype or entry.kv_dtype or said.get("kv_dtype") or "auto",
            tensor_parallel=self._memory.tensor_parallel or entry.tensor_parallel or said.get("tensor_parallel") or 1,
            pipeline_parallel=entry.pipeline_parallel or 1,
        )
