"""What travels between the reading process and its workers: lines there, token ids and row facts back.

A parcel holds the ids of all prompts of a batch as one bytes object and of every row only plain facts. Rows of hash
ids go back as they were read: their numbering runs over the whole log and stays with the parent.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from prefixscope.breaks.pieces import BodyPieces, Piece, pieces_of
from prefixscope.index.builder import RowFacts, row_facts
from prefixscope.ingest.hash_rows import rows_may_be_columns
from prefixscope.logs.detect import FilePlan
from prefixscope.logs.hash_columns import HashColumns
from prefixscope.logs.known_pieces import KnownPieces
from prefixscope.logs.lines import LineBatch
from prefixscope.logs.reading import ParsedBatch, parse_batch
from prefixscope.logs.rows import Fault
from prefixscope.models.prompt import PromptMaker
from prefixscope.models.template import Unrenderable
from prefixscope.records import Identity, LoggedRequest, RequestKind, Source

__all__ = ["Job", "PackedRow", "Packer", "Parcel", "parsed_batch"]

_MOST_SENT = 1 << 19
"""So many hashes of pieces that were sent are remembered."""


@dataclass(frozen=True, slots=True)
class Job:
    """A batch of lines to read; `number` counts the batches of a run."""

    number: int
    plan: FilePlan
    batch: LineBatch

    @property
    def place(self) -> str:
        """The file and its lines, for messages."""
        return f"{self.plan.file}, lines {self.batch.first_line} to {max(self.batch.last_line, self.batch.first_line)}"


@dataclass(frozen=True, slots=True)
class PackedRow:
    """One request: how it was read (`line`, `kind`, `time_ns`, `model`), and either its prompt, taken apart, or the
    refusal. `identity` is a place in the parcel's list, `bytes` the length of its ids."""

    line: int
    kind: RequestKind
    time_ns: int | None
    model: str | None
    refused: Unrenderable | None = None
    facts: RowFacts | None = None
    identity: int = 0
    bytes: int = 0
    notes: tuple[str, ...] = ()
    pieces: BodyPieces | None = None


@dataclass(frozen=True, slots=True)
class Parcel:
    """A batch, read. `rows` holds whole requests where the parent must make the prompt itself."""

    number: int
    faults: tuple[Fault, ...]
    blank_lines: tuple[int, ...]
    times: dict[str, int]
    resolution_ns: int | None
    rows: tuple[PackedRow | LoggedRequest | HashColumns, ...]
    identities: tuple[Identity, ...]
    ids: bytes
    encoders: dict[str, str]
    loaded: tuple[str | None, ...]
    dropped: dict[str | None, Source]


class Packer:
    """Reads batches in a worker. Remembers which pieces of bodies it has sent, so that each travels once."""

    def __init__(self, maker: PromptMaker, *, with_bodies: bool) -> None:
        self._maker = maker
        self._with_bodies = with_bodies
        self._known = KnownPieces()
        self._sent: set[int] = set()

    def pack(self, job: Job) -> Parcel:
        """Parses, renders and encodes a batch. Raises what PromptMaker raises."""
        parsed = parse_batch(job.batch, job.plan, columns=rows_may_be_columns(self._maker.rules), known=self._known)
        identities: dict[Identity, int] = {}
        ids: list[bytes] = []
        rows = tuple(self._packed(request, identities, ids) for request in parsed.records)
        models = self._maker.models
        return Parcel(
            number=job.number,
            faults=parsed.faults,
            blank_lines=parsed.blank_lines,
            times=parsed.times,
            resolution_ns=parsed.resolution_ns,
            rows=rows,
            identities=tuple(identities),
            ids=b"".join(ids),
            encoders={model.entry.base: model.encoder.name for model in models},
            loaded=tuple(model.entry.location for model in models),
            dropped=dict(self._maker.dropped),
        )

    def _packed(
        self, request: LoggedRequest | HashColumns, identities: dict[Identity, int], ids: list[bytes]
    ) -> PackedRow | LoggedRequest | HashColumns:
        if isinstance(request, HashColumns) or request.kind in ("hashes", "lengths"):
            return request
        made = self._maker.make(request)
        read = (request.source.line, request.kind, request.time_ns, request.model)
        if isinstance(made, Unrenderable):
            return PackedRow(*read, refused=made)
        prompt = made.prompt
        ids.append(prompt.tokens)
        return PackedRow(
            *read,
            facts=row_facts(request, prompt),
            identity=identities.setdefault(prompt.identity, len(identities)),
            bytes=len(prompt.tokens),
            notes=made.notes,
            pieces=self._pieces(request) if self._with_bodies else None,
        )

    def _pieces(self, request: LoggedRequest) -> BodyPieces:
        pieces = pieces_of(request)
        return BodyPieces(
            tuple(self._once(piece) for piece in pieces.messages),
            None if pieces.tools is None else self._once(pieces.tools),
            None if pieces.options is None else self._once(pieces.options),
        )

    def _once(self, piece: Piece) -> Piece:
        hashed, _ = piece
        if hashed in self._sent:
            return hashed, None
        if len(self._sent) >= _MOST_SENT:
            self._sent.clear()  # what is sent once more is known by its hash
        self._sent.add(hashed)
        return piece


def parsed_batch(parcel: Parcel, file: str) -> ParsedBatch:
    """The parcel as the reading's account wants it; of packed rows only what was read of them, without a body."""
    return ParsedBatch(
        tuple(_records(parcel, file)), parcel.faults, parcel.blank_lines, parcel.times, parcel.resolution_ns
    )


def _records(parcel: Parcel, file: str) -> Iterator[LoggedRequest | HashColumns]:
    for row in parcel.rows:
        if isinstance(row, LoggedRequest | HashColumns):
            yield row
        else:
            yield LoggedRequest(Source(file, row.line), row.kind, {}, time_ns=row.time_ns, model=row.model)
