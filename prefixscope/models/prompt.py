"""From a logged request to a prompt: exact token ids under an identity. The one entry that reading needs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from prefixscope.models.cache_reading import reads_cache
from prefixscope.models.chat import RenderedChat, Wire, render_chat
from prefixscope.models.encode import Build, EncoderDisagreement, without_surrogates
from prefixscope.models.hash_ids import HashRemap
from prefixscope.models.identity import IdentityRules, fingerprint, identity_of
from prefixscope.models.logged_ids import length_of, token_ids_of
from prefixscope.models.media_prompt import WithMedia, embedded_prompt, with_media
from prefixscope.models.outputs import Output, output_of
from prefixscope.models.parts import parts_of_chat
from prefixscope.models.repeats import PromptText, Repeats
from prefixscope.models.table import ModelEntry, ModelTable
from prefixscope.models.template import DEFAULT_LIMIT, Rendering, RenderLimits, Unrenderable
from prefixscope.models.tokenizer import LoadedModel, load_model
from prefixscope.models.truncation import truncated
from prefixscope.records import Identity, Json, LoggedRequest, Part, Prompt, Source

__all__ = ["Made", "PromptMaker", "PromptRules", "Started", "needs_tokenizer", "reads_cache"]

_fingerprint = lru_cache(maxsize=64)(fingerprint)


@dataclass(frozen=True, slots=True)
class PromptRules:
    """What decides prompts in one run; picklable, so that worker processes make the same ones.

    `rendering_of` gives the rendering for the engine named by a model's entry (None: the run's engine); `wires` the
    conversion of each rendering. `trust_request_template`: a `chat_template` in the request's body is used, as a
    server started with --trust-request-chat-template does, and otherwise ignored and noted. `build_encoder`: when
    fast tokenizers are built; `distrusted` names the locations of models whose fast
    tokenizer is not to be used.
    """

    table: ModelTable
    identity: IdentityRules
    wires: Mapping[Rendering, Wire]
    rendering_of: Callable[[str | None], Rendering]
    trust_request_template: bool = False
    fast_encoder: bool = True
    build_encoder: Build = "now"
    distrusted: frozenset[str | None] = frozenset()
    render_limit: RenderLimits = DEFAULT_LIMIT
    rewrite: Callable[[LoggedRequest], LoggedRequest] | None = None
    """What is done to every request first, to see what a change of the log would give."""


@dataclass(frozen=True, slots=True)
class Made:
    """A prompt, and fixed words about what had to be assumed on the way; the caller counts them."""

    prompt: Prompt
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Started:
    """A prompt whose text is known and whose ids are not."""

    request: LoggedRequest
    entry: ModelEntry
    model: LoadedModel
    rendering: Rendering
    prompt: PromptText
    chat: RenderedChat | None

    def ids(self) -> bytes:
        """The ids of the text; equal prompts are encoded once."""
        if self.chat is not None:
            return self.chat.ids(self.model)
        if self.prompt.ids is None:
            special = self.request.body.get("add_special_tokens") is not False
            self.prompt.ids = self.model.encoder.encode(self.prompt.text, special)
        return self.prompt.ids


def needs_tokenizer(request: LoggedRequest) -> bool:
    """Whether the prompt is text, so that its model must be resolved."""
    return request.kind in ("chat", "text")


_OUT_OF_TIME_TRIES = 3
_ModelKey = tuple[str | None, str | None, str | None]


def _model_key(entry: ModelEntry) -> _ModelKey:
    return (entry.location, entry.revision, entry.chat_template)


class PromptMaker:
    """Makes prompts one request at a time; loads each tokenizer once, numbers hash ids over the whole run."""

    def __init__(self, rules: PromptRules, remap: HashRemap | None = None) -> None:
        self.rules = rules
        self.remap = HashRemap() if remap is None else remap
        self.repeats = Repeats()
        self.dropped: dict[str | None, Source] = {}  # where fast tokenizers were found to differ, by location
        self._models: dict[_ModelKey, LoadedModel] = {}
        self._out_of_time: Counter[_ModelKey] = Counter()

    @property
    def models(self) -> tuple[LoadedModel, ...]:
        """The models loaded so far."""
        return tuple(self._models.values())

    @property
    def waiting(self) -> bool:
        """Whether a fast tokenizer is being built, so that `complete` would have to wait and `start` would not."""
        return any(getattr(model.encoder, "waiting", False) for model in self._models.values())

    def model(self, entry: ModelEntry) -> LoadedModel:
        """The loaded model of an entry. Raises ModelError where it can't be loaded."""
        if _model_key(entry) not in self._models:
            fast = self.rules.fast_encoder and entry.location not in self.rules.distrusted
            self.use(load_model(entry, fast=fast, build=self.rules.build_encoder))
        return self._models[_model_key(entry)]

    def use(self, model: LoadedModel) -> None:
        """Takes a model that is loaded already, for all entries with its location, revision and template."""
        self._models[_model_key(model.entry)] = model

    def make(self, request: LoggedRequest, *, with_parts: bool = False) -> Made | Unrenderable:
        """The prompt of a request, or why there is none (counted by the caller, never a failure of the run).

        Reason `no_model` means that the name is not in the table. Raises ModelError for a model that can't be loaded,
        and EncoderDisagreement when prompts made so far must be made again.
        """
        started = self.start(request)
        return self.complete(started, with_parts=with_parts) if isinstance(started, Started) else started

    def start(self, request: LoggedRequest) -> Started | Made | Unrenderable:
        """The first half of `make`: everything but the encoding of text."""
        if self.rules.rewrite is not None:
            request = self.rules.rewrite(request)
        try:
            entry = self.rules.table.resolve(request.model)
            if request.kind in ("chat", "text"):
                if entry is None:
                    raise Unrenderable("no_model", f"model {request.model!r} is not known")
                return self._in_time(request, entry)
            return self._from_symbols(request, identity_of(request, entry, self.rules.identity))
        except Unrenderable as outcome:
            return outcome

    def _in_time(self, request: LoggedRequest, entry: ModelEntry) -> Started:
        """Starts a text request; a template that ran out of time for a few requests is not tried for all the others."""
        key = _model_key(entry)
        if self._out_of_time[key] >= _OUT_OF_TIME_TRIES:
            raise Unrenderable("refused", "the chat template ran out of time for other requests and was given up")
        try:
            return self._started(request, entry, self.model(entry))
        except Unrenderable as outcome:
            if outcome.reason != "out_of_time":
                raise
            self._out_of_time[key] += 1
            raise Unrenderable("refused", outcome.message) from None

    def _started(self, request: LoggedRequest, entry: ModelEntry, model: LoadedModel) -> Started:
        rendering = self.rules.rendering_of(entry.engine)
        if request.kind == "chat":
            chat = render_chat(
                request, entry, model, rendering, self.rules.wires[rendering],
                trust_request_template=self.rules.trust_request_template, limit=self.rules.render_limit,
                repeats=self.repeats,
            )  # fmt: skip
            return Started(request, entry, model, rendering, chat.prompt, chat)
        text = _completion_prompt(request.body)
        special = request.body.get("add_special_tokens") is not False
        if (prompt := self.repeats.get(text, id(model), special)) is None:
            prompt = PromptText(*without_surrogates(text))
            self.repeats.put(text, prompt, id(model), special)
        return Started(request, entry, model, rendering, prompt, None)

    def complete(self, started: Started, *, with_parts: bool = False) -> Made | Unrenderable:
        """The second half of `make`: the ids of the text, and of the answer behind it."""
        location, source = started.entry.location, started.request.source
        try:
            return self._completed(started, with_parts)
        except Unrenderable as outcome:
            return outcome
        except EncoderDisagreement as disagreement:
            disagreement.location, disagreement.source = location, source
            raise
        finally:
            if getattr(started.model.encoder, "disagreed", False):
                self.dropped.setdefault(location, source)

    def _completed(self, started: Started, with_parts: bool) -> Made:
        request, model, chat = started.request, started.model, started.chat
        ids = started.ids()
        if not ids:
            raise Unrenderable("no_prompt", "the prompt is empty")
        text = started.prompt.text if chat is None else chat.text
        kept = _truncated(ids, text, model, request.body) if started.rendering == "vllm" else ids
        notes = list(() if chat is None else chat.notes)
        if started.prompt.replaced_surrogates:
            notes.append("lone_surrogates_replaced")
        output = output_of(request, _continuation(request, model, text, ids))
        media = WithMedia(ids) if chat is None else with_media(request, model, started.rendering, ids, text)
        notes.extend(media.notes)
        identity = identity_of(
            request, started.entry, self.rules.identity, tokenizer=model.tokenizer_fingerprint,
            template=None if chat is None else _fingerprint(chat.source), media=media.apart,
        )  # fmt: skip
        if len(kept) < len(ids):
            # the text no longer tells which tokens these are
            if media.notes:
                raise Unrenderable("bad_body", "truncate_prompt_tokens on a prompt with media")
            return Made(_prompt(request, identity, kept, output), (*notes, "prompt_truncated", *output.notes))
        parts: tuple[Part, ...] = ()
        if with_parts:
            parts = (Part("message", 0, 0, len(text)),) if chat is None else parts_of_chat(chat)
        return Made(_prompt(request, identity, media.ids, output, text=text, parts=parts), (*notes, *output.notes))

    def _from_symbols(self, request: LoggedRequest, identity: Identity) -> Made:
        body, notes = request.body, []
        output = output_of(request, None)
        if request.kind == "tokens":
            embedded = body.get("prompt_embeds") if body.get("prompt_token_ids") is None else None
            ids = token_ids_of(body.get("prompt_token_ids")) if embedded is None else embedded_prompt(request)
            given = () if embedded is None else ("media_embeddings",)
            return Made(_prompt(request, identity, ids, output), (*given, *output.notes))
        length = length_of(body.get("input_length"))
        symbols = b""
        if request.kind == "hashes":
            hash_ids = body.get("hash_ids")
            if not isinstance(hash_ids, list):
                raise Unrenderable("bad_hash_ids", "hash_ids is not a list")
            length = len(hash_ids) * request.unit if length is None else length
            needed = -(-length // request.unit)
            if len(hash_ids) != needed:
                notes.append("hash_ids_beyond_input" if len(hash_ids) > needed else "hash_ids_end_early")
            symbols = self.remap.tokens(hash_ids[:needed])
        if not length:
            raise Unrenderable("no_prompt", "the prompt has no length")
        if output.knowledge in ("ids", "text"):
            # token ids can't continue hash symbols: only the length is of use
            output = Output("length", output.tokens)
        return Made(_prompt(request, identity, symbols, output, length=length), (*notes, *output.notes))


def _prompt(
    request: LoggedRequest, identity: Identity, ids: bytes, output: Output,
    *, length: int | None = None, text: str | None = None, parts: tuple[Part, ...] = (),
) -> Prompt:  # fmt: skip
    prompt_tokens = len(ids) // 4 if length is None else length
    return Prompt(
        tokens=ids + output.ids,
        prompt_tokens=prompt_tokens,
        sequence_tokens=prompt_tokens + output.stored_tokens,
        identity=identity,
        output=output.knowledge,
        unit=request.unit if request.kind == "hashes" else 1,
        text=text,
        parts=parts,
        reads_cache=reads_cache(request.body),
        n=request.n,
    )


def _truncated(ids: bytes, text: str, model: LoadedModel, body: Mapping[str, Json]) -> bytes:
    if body.get("truncate_prompt_tokens") is None:
        return ids
    bare = model.encoder.encode(text, False)
    return truncated(ids, ids[: len(ids) - len(bare)] if ids.endswith(bare) else b"", body)


def _completion_prompt(body: Mapping[str, Json]) -> str:
    prompt = body.get("prompt")
    if not isinstance(prompt, str):
        raise Unrenderable("bad_body", "the prompt is not a text")
    if not prompt:
        raise Unrenderable("no_prompt", "the prompt is empty")
    return prompt


def _continuation(
    request: LoggedRequest, model: LoadedModel, prompt_text: str, prompt_ids: bytes
) -> Callable[[str], bytes]:
    """How the ids of an answer are found: alone where the tokenizer allows it, else behind the prompt's text."""

    def ids_of(answer: str) -> bytes:
        if request.body.get("echo") and answer.startswith(prompt_text):
            answer = answer[len(prompt_text) :]
        answer, _ = without_surrogates(answer)
        if not model.continues_alone:
            whole = model.encoder.encode(prompt_text + answer, False)
            bare = model.encoder.encode(prompt_text, False)
            if whole.startswith(bare):
                return whole[len(bare) :]
        return model.encoder.encode(answer, False)

    return ids_of
