"""The requests of chosen rows once more, with body and exact token ids: what is sent again on a live engine.

A lineage holds neither text nor tokens, so the log is read a second time. A row is found by its file, its line and its
place among the prompts of that line.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from prefixscope.errors import InputError
from prefixscope.index.lineage import Lineage
from prefixscope.ingest.settings import IngestOptions, prompt_rules
from prefixscope.logs import LogFile, read_logs
from prefixscope.models.prompt import Made, PromptMaker
from prefixscope.records import LoggedRequest, Prompt

__all__ = ["sampled_prompts"]

_REPORT_EVERY = 500
_Place = tuple[str, int, int]


def sampled_prompts(
    files: Sequence[LogFile],
    options: IngestOptions,
    lineage: Lineage,
    rows: Sequence[int],
    progress: Callable[[int], None],
) -> Mapping[int, tuple[LoggedRequest, Prompt]]:
    """Request and prompt of every row in `rows`, by row number. Token ids come from the reference tokenizer alone.

    Raises InputError where the log is standard input, or changed since it was read.
    """
    if any(file.path == "-" for file in files):
        raise InputError("a replay reads its log twice, and standard input can be read only once; write it to a file")
    wanted = set(rows)
    row_at: dict[_Place, int] = {}
    seen: Counter[tuple[str, int]] = Counter()
    for row in _in_reading_order(lineage):
        line = (lineage.file[row] or "", int(lineage.line[row]))
        if row in wanted:
            row_at[(*line, seen[line])] = row
        seen[line] += 1
    lines = {(file, line) for file, line, _ in row_at}
    found: dict[int, tuple[LoggedRequest, Prompt]] = {}
    maker = PromptMaker(prompt_rules(options, fast_encoder=False))
    made_of: Counter[tuple[str, int]] = Counter()
    for done, request in enumerate(read_logs(files, options.read), 1):
        if done % _REPORT_EVERY == 0:
            progress(done)
        line = (request.source.file, request.source.line)
        if line not in lines or request.kind == "lengths":
            continue
        made = maker.make(request)
        if isinstance(made, Made):
            chosen = row_at.get((*line, made_of[line]))
            made_of[line] += 1
            if chosen is not None:
                found[chosen] = (request, made.prompt)
    changed = [row for row in rows if row not in found or found[row][1].prompt_tokens != lineage.prompt_tokens[row]]
    if changed:
        raise InputError(
            f"{len(changed)} of {len(rows)} sampled requests are not what they were when the log was first read: "
            "it changed meanwhile"
        )
    return found


def _in_reading_order(lineage: Lineage) -> list[int]:
    """Rows by file and line; prompts of one line keep their order, since sorting by time is stable."""
    files, lines = lineage.file.codes.tolist(), lineage.line.tolist()
    return sorted(range(len(lineage)), key=lambda row: (files[row], lines[row]))
