"""The ways from a row back to its text, for the break finder: decoding, and rendering its body again."""

from __future__ import annotations

from array import array
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from prefixscope.breaks.bodies import NOTHING, BodyStore
from prefixscope.breaks.finder import BreakFinder
from prefixscope.breaks.pieces import BodyPieces, body_of
from prefixscope.breaks.sides import Rendered
from prefixscope.breaks.table import Breaks
from prefixscope.errors import ModelError
from prefixscope.index.builder import BuiltLineage
from prefixscope.index.lineage import NO_TIME, Lineage
from prefixscope.ingest.token_texts import TokenTexts
from prefixscope.models.prompt import PromptMaker
from prefixscope.models.template import Unrenderable
from prefixscope.records import Json, LoggedRequest, Source

__all__ = ["BreakSearch", "with_breaks"]

_KEPT_RENDERINGS = 64


class BreakSearch:
    """Keeps bodies while a log is read, and finds the breaks when the tree stands."""

    def __init__(self, maker: PromptMaker) -> None:
        self._maker = maker
        self._finder = BreakFinder()
        self._times: array[int] = array("q")

    def note(self, kind: str, time_ns: int | None, pieces: BodyPieces) -> None:
        """Once per row, in the order in which rows go into the tree."""
        self._finder.note(kind, pieces)
        self._times.append(NO_TIME if time_ns is None else time_ns)

    def find(
        self, built: BuiltLineage, model_of: Callable[[str | None], Any], progress: Callable[[int], None]
    ) -> Breaks:
        """The breaks of all rows; `model_of` gives the loaded model of a logged name."""
        texts = _RowTexts(self._maker, self._finder.store, built, self._times, model_of)
        return self._finder.find(built, texts, progress)


def with_breaks(lineage: Lineage, breaks: Breaks) -> Lineage:
    """The lineage with its break columns, and what was counted on the way in its provenance."""
    provenance = {
        **lineage.provenance,
        "breaks": {
            "inferred_sessions": breaks.inferred_sessions,
            "not_compared": breaks.not_compared,
        },
    }
    return replace(
        lineage, breaks=breaks.columns, provenance=provenance,
        shared_tokens_without_isolation=breaks.shared_tokens_without_isolation,
    )  # fmt: skip


class _RowTexts:
    def __init__(
        self,
        maker: PromptMaker,
        store: BodyStore,
        built: BuiltLineage,
        times: array[int],
        model_of: Callable[[str | None], Any],
    ) -> None:
        self._maker = maker
        self._store = store
        self._order = built.order.tolist()
        self._lineage = built.lineage
        self._times = times
        self._model_of = model_of
        self._models: dict[int, TokenTexts | None] = {}
        self._codes = built.lineage.model.codes.tolist()
        self._kept: OrderedDict[tuple[int, int | None, int | None], Rendered | None] = OrderedDict()

    def decode(self, row: int, tokens: bytes) -> str | None:
        code = self._codes[row]
        if code not in self._models:
            model = self._loaded(None if code < 0 else self._lineage.model.names[code])
            self._models[code] = None if model is None else TokenTexts(model)
        texts = self._models[code]
        return None if texts is None else texts.decode(tokens)

    def _loaded(self, name: str | None) -> Any:
        """The model of a name; rows of token ids need it for the first time here, and can do without."""
        model = self._model_of(name)
        entry = self._maker.rules.table.resolve(name)
        if model is not None or entry is None or entry.location is None:
            return model
        try:
            return self._maker.model(entry)
        except ModelError:
            return None

    def rendered(self, row: int) -> Rendered | None:
        return self._again(row, None, None)

    def rendered_as(self, row: int, options_of: int | None, time_of: int | None) -> str | None:
        rendered = self._again(row, options_of, time_of)
        return None if rendered is None else rendered.text

    def rendered_with(self, row: int, messages: Sequence[Json]) -> str | None:
        try:
            request = self._request(row, None, None)
        except LookupError:
            return None
        made = self._maker.make(replace(request, body={**request.body, "messages": list(messages)}))
        return None if isinstance(made, Unrenderable) else made.prompt.text

    def _again(self, row: int, options_of: int | None, time_of: int | None) -> Rendered | None:
        key = (row, options_of, time_of)
        if key in self._kept:
            self._kept.move_to_end(key)
            return self._kept[key]
        rendered = self._kept[key] = self._render(row, options_of, time_of)
        if len(self._kept) > _KEPT_RENDERINGS:
            self._kept.popitem(last=False)
        return rendered

    def _render(self, row: int, options_of: int | None, time_of: int | None) -> Rendered | None:
        plain = options_of is None and time_of is None
        try:
            request = self._request(row, options_of, time_of)
        except LookupError:
            return None
        made = self._maker.make(request, with_parts=plain)
        if isinstance(made, Unrenderable) or made.prompt.text is None:
            return None
        return Rendered(made.prompt.text, made.prompt.parts)

    def _request(self, row: int, options_of: int | None, time_of: int | None) -> LoggedRequest:
        store = self._store
        number = self._order[row]
        body = store.body(number)
        options = store.body(self._order[options_of]).options if options_of is not None else body.options
        time = self._times[self._order[time_of if time_of is not None else row]]
        return LoggedRequest(
            source=Source("", 0),
            kind="chat",
            body=body_of(
                {} if options == NOTHING else store.value(options),
                [store.value(piece) for piece in body.messages],
                store.value(body.tools),
            ),
            model=self._lineage.model[row],
            time_ns=None if time == NO_TIME else time,
        )
