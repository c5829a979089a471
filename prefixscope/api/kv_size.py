"""What a token costs in KV memory, per pool: from the config.json of the models that the user named."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from prefixscope.api.options import LogOptions, MemoryOptions
from prefixscope.capacity.sizes import Capacity
from prefixscope.errors import ModelError, OptionError
from prefixscope.index.lineage import Lineage
from prefixscope.ingest import model_table
from prefixscope.logs import is_index
from prefixscope.models.kv_bytes import KvOptions, kv_layout
from prefixscope.models.table import ModelEntry, ModelTable
from prefixscope.models.tokenizer import model_config

__all__ = ["KvSize", "KvSizes"]

_HINT = "--model {}=FOLDER or --models FILE"


@dataclass(frozen=True, slots=True)
class KvSize:
    """Bytes per token of a kept prefix, over all ranks of one replica; None where `why` says so, else its formula."""

    pool: str
    token_bytes: int | None
    why: str

    def block_bytes(self, block_size: int) -> int | None:
        """Bytes of a block."""
        return None if self.token_bytes is None else self.token_bytes * block_size

    def blocks_of(self, capacity: Capacity, block_size: int, said: str) -> int:
        """A size as whole blocks; `said` is what stands before it on the command line.

        OptionError where bytes were given and a token's bytes are not known.
        """
        if capacity.unit == "bytes" and self.token_bytes is None:
            model = f"model {self.pool!r}" if self.pool else "the model"
            raise OptionError(
                f"{said}{capacity.text}: how many bytes a token of {model} takes is not known ({self.why}); "
                "blocks or tokens can be given without"
            )
        return capacity.blocks(block_size, self.block_bytes(block_size))


class KvSizes:
    """Looks pools up in `--model` and `--models`; what those say of KV is overruled by the options."""

    def __init__(self, log: LogOptions, memory: MemoryOptions) -> None:
        self._table: ModelTable = model_table(log.models, log.models_file)
        self._memory = memory
        self._from_index = any(map(is_index, log.logs))
        KvOptions(dtype=memory.kv_dtype or "auto")  # a wrong name is told before the log is read

    def refuse_bytes_without_models(self, sizes: Iterable[tuple[str, Capacity]]) -> None:
        """OptionError, before a log is read, where bytes are asked and no model was named at all."""
        if not self._from_index and not any(entry.location for entry in self._table.entries.values()):
            unknown = KvSize("", None, f"name the folder of its config.json with {_HINT.format('NAME')}")
            for said, size in sizes:
                unknown.blocks_of(size, 1, said)

    def of(self, lineage: Lineage, pool: str) -> KvSize:
        """The size for one pool's rows. OptionError where the model can't be split as `--tensor-parallel` says."""
        entries = self._entries(lineage, pool)
        found = ((entry, model_config(entry)) for entry in entries)
        # An index carries the config of the models it was made with.
        carried = lineage.provenance.get("model_configs", {}).get(pool)
        entry, config = next(((one, config) for one, config in found if config is not None), (None, carried))
        if config is None:
            name = next(iter(_names(lineage)), "'*'")
            missing = f"name the folder of its config.json with {_HINT.format(name)}"
            return KvSize(pool, None, f"{entries[0].location} has no config.json" if entries else missing)
        try:
            layout = kv_layout(config, self._options(lineage, pool, entry))
        except ModelError as error:
            return KvSize(pool, None, str(error))
        if not layout.bytes_per_token:
            return KvSize(pool, None, "no layer of this model keeps KV that grows with the prefix")
        return KvSize(pool, layout.bytes_per_token, layout.formula)

    def _entries(self, lineage: Lineage, pool: str) -> list[ModelEntry]:
        """Entries with a folder or hub id that the pool's names resolve to, that of the base itself first."""
        found = [self._table.resolve(name) for name in (pool or None, *_names(lineage))]
        return [entry for entry in found if entry is not None and entry.location is not None]

    def _options(self, lineage: Lineage, pool: str, entry: ModelEntry | None) -> KvOptions:
        """The command line's word, then the models file's of today, then that of the index."""
        said = lineage.provenance.get("engine_settings", {}).get(pool, {})
        dtype, ranks = (None, None) if entry is None else (entry.kv_dtype, entry.tensor_parallel)
        sharing = self._memory.context_parallel or said.get("context_parallel") or 1
        return KvOptions(
            dtype=self._memory.kv_dtype or dtype or said.get("kv_dtype") or "auto",
            tensor_parallel=self._memory.tensor_parallel or ranks or said.get("tensor_parallel") or sharing,
            decode_context_parallel=sharing,
        )


def _names(lineage: Lineage) -> list[str]:
    """The model names that occur in these rows."""
    return [lineage.model.names[code] for code in np.unique(lineage.model.codes).tolist() if code >= 0]
