"""A chat request as text and ids: wire conversion, template choice, rendering, and then encoding."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from prefixscope.models.clock import RequestClock
from prefixscope.models.encode import without_surrogates
from prefixscope.models.repeats import PromptText, Repeats
from prefixscope.models.table import ModelEntry
from prefixscope.models.template import Rendering, RenderLimits, Unrenderable, content_format, is_quick, render
from prefixscope.models.tokenizer import LoadedModel
from prefixscope.records import Conversation, Json, LoggedRequest

__all__ = ["RenderedChat", "Wire", "render_chat"]

Wire = Callable[[Mapping[str, Json], str, str, Mapping[str, Json]], Conversation]
"""(request body, template source, content format, the server's template options) -> what the template is given.

Raises ValueError with the server's complaint where the server would refuse the request.
"""


@dataclass(frozen=True, slots=True)
class RenderedChat:
    """A rendered chat. `again` renders a changed conversation with the same template and clock (for parts).

    `appended` is the end of `text` that the server tokenises on its own behind the rendered prompt.
    """

    prompt: PromptText
    source: str
    conversation: Conversation
    again: Callable[[Conversation], str]
    appended: str = ""
    add_special_tokens: bool = False
    notes: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The rendered prompt with what is appended to it."""
        return self.prompt.text + self.appended

    def ids(self, model: LoadedModel) -> bytes:
        """The ids of the text; equal prompts are encoded once."""
        if self.prompt.ids is None:
            self.prompt.ids = model.encoder.encode(self.prompt.text, self.add_special_tokens)
        return self.prompt.ids + _appended_ids(model, self.appended) if self.appended else self.prompt.ids


def render_chat(
    request: LoggedRequest,
    entry: ModelEntry,
    model: LoadedModel,
    rendering: Rendering,
    wire: Wire,
    *,
    trust_request_template: bool,
    limit: RenderLimits,
    repeats: Repeats,
) -> RenderedChat:
    """Renders as a server of that kind does. Raises Unrenderable."""
    body = request.body
    messages = body.get("messages")
    if not messages:
        raise Unrenderable("no_prompt", "the request has no messages")
    if not isinstance(messages, list) or not all(isinstance(message, dict) for message in messages):
        raise Unrenderable("bad_body", "messages is not a list of objects")
    notes: list[str] = []
    source = _source(body, model, trust_request_template, notes)
    try:
        conversation = wire(body, source, content_format(source, rendering), entry.template_options)
    except ValueError as error:
        raise Unrenderable("refused", str(error)) from None
    conversation, appended = _split_continuation(conversation, rendering)
    clock = RequestClock(request.time_ns)

    def again(changed: Conversation) -> str:
        plain = rendering == "plain"
        return render(source, changed, model.special_tokens, clock, plain=plain, limit=limit)

    special = rendering == "vllm" and body.get("add_special_tokens") is True
    settings = (id(model), source, rendering, special)
    prompt = repeats.get(conversation, *settings)
    if prompt is None:
        prompt = _rendered(again, conversation, rendering)
        if not is_quick(source):
            notes.append("quick_template_dropped")
        if clock.asked:
            notes.append("template_prints_date" if request.time_ns is not None else "template_prints_fixed_date")
        else:
            repeats.put(conversation, prompt, *settings)
    if prompt.bare_tools:
        conversation = _with_bare_tools(conversation)
    return RenderedChat(
        prompt, source, conversation, again, appended, special, tuple(dict.fromkeys((*notes, *prompt.notes)))
    )


def _source(body: Mapping[str, Json], model: LoadedModel, trusted: bool, notes: list[str]) -> str:
    own = body.get("chat_template")
    if isinstance(own, str) and own:
        if trusted:
            return model.templates.get(own, own)
        notes.append("request_chat_template_ignored")
    source = model.template_for(body.get("tools"))
    if source is None:
        known = ", ".join(sorted(model.templates))
        hint = f"; it has only the named ones {known}" if known else ""
        raise Unrenderable("no_template", f"the model has no chat template{hint}; give one as chat_template")
    return source


def _prints_null(again: Callable[[Conversation], str], conversation: Conversation, text: str) -> bool:
    """Whether the template prints a null content as the word None: a server that normalises renders another prompt."""
    nulls = [message.get("content", "") is None for message in conversation.messages]
    if not any(nulls) or "None" not in text:
        return False
    emptied = tuple(
        {**message, "content": ""} if null else message
        for message, null in zip(conversation.messages, nulls, strict=True)
    )
    return again(replace(conversation, messages=emptied)) != text


def _split_continuation(conversation: Conversation, rendering: Rendering) -> tuple[Conversation, str]:
    """SGLang renders everything before a message to be continued, with the generation prompt, and appends its text.

    Its wire conversion says so by setting both flags (serving_chat.py:_handle_last_assistant_message, 0.5.23).
    """
    both = conversation.continue_final_message and conversation.add_generation_prompt
    if rendering != "sglang" or not both:
        return conversation, ""
    *before, last = conversation.messages
    rest = replace(conversation, messages=tuple(before), continue_final_message=False)
    return rest, without_surrogates(str(last["content"]))[0]


def _rendered(again: Callable[[Conversation], str], conversation: Conversation, rendering: Rendering) -> PromptText:
    if not conversation.messages:
        raise Unrenderable("refused", "no message is left before the one to be continued")
    bare_tools = False
    try:
        text = again(conversation)
    except Unrenderable:
        if rendering != "sglang" or not conversation.tools:
            raise
        # SGLang tries once more with bare functions (serving_chat.py:_apply_jinja_template, 0.5.23)
        text, bare_tools = again(_with_bare_tools(conversation)), True
    printed = rendering == "plain" and _prints_null(again, conversation, text)
    text, replaced = without_surrogates(text)
    return PromptText(text, replaced, bare_tools, ("null_content_printed",) if printed else ())


def _with_bare_tools(conversation: Conversation) -> Conversation:
    tools = conversation.tools or ()
    return replace(
        conversation, tools=tuple(tool.get("function", tool) if isinstance(tool, dict) else tool for tool in tools)
    )


def _appended_ids(model: LoadedModel, appended: str) -> bytes:
    """As SGLang's _append_assistant_prefix_to_prompt_ids: encoded alone with special tokens, a BOS cut off."""
    ids = model.encoder.encode(appended, True)
    bos = model.tokenizer.facts.bos_id
    if bos is not None and ids.startswith(bos.to_bytes(4, "little")):
        return ids[4:]
    return ids
