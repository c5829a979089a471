"""Renders a conversation through its chat template, as transformers compiles it (see template_environment.py).

Two manners: `transformers` does what its apply_chat_template does before and around the template (keys that are null
are dropped, reasoning is found under all its names, a continued final message is cut open); `plain` hands the messages
over as they are. Dates are the request's own (see clock.py). A template is foreign code in a sandbox: it may refuse,
fail or burn time, and each of these is an `Unrenderable`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

from prefixscope.models.clock import RequestClock
from prefixscope.models.content_format import ContentFormat, sglang_content_format, vllm_content_format
from prefixscope.models.deadline import DeadlineExceeded, cpu_deadline
from prefixscope.models.proven_template import ProvenTemplate
from prefixscope.models.quietly import quiet_transformers
from prefixscope.models.sandbox import RememberingSandbox, remembering
from prefixscope.models.template_environment import template_environment
from prefixscope.records import Conversation, Json

__all__ = ["RenderLimits", "Rendering", "Unrenderable", "content_format", "is_quick", "render"]

Rendering = Literal["plain", "transformers", "vllm", "sglang"]
RenderLimits = float
"""CPU seconds one template run may take."""

UnrenderableReason = Literal[
    "no_prompt", "no_model", "no_template", "refused", "out_of_time", "bad_token_ids", "bad_hash_ids", "bad_body",
    "embeddings_without_length",
]  # fmt: skip
DEFAULT_LIMIT: RenderLimits = 10.0

# arguments of apply_chat_template that are not template variables; the two first make vLLM refuse the request
_NOT_VARIABLES = frozenset({
    "chat_template", "tokenize", "conversation", "conversations", "padding", "truncation", "max_length",
    "return_tensors", "return_dict", "return_assistant_tokens_mask", "tokenizer_kwargs", "sanitize_control_tokens",
})  # fmt: skip
_OWN_ARGUMENTS = frozenset({"messages", "add_generation_prompt", "continue_final_message"})
_REASONING_NAMES = ("reasoning_content", "thinking", "reasoning")
_REASONING_KEYS = frozenset(_REASONING_NAMES)


class Unrenderable(Exception):  # noqa: N818 - a counted outcome, not a failure of the run
    """A request without a prompt that could be made; `reason` is a fixed word, the message tells why."""

    def __init__(self, reason: UnrenderableReason, message: str) -> None:
        super().__init__(message)
        self.reason: UnrenderableReason = reason
        self.message = message

    def __reduce__(self) -> tuple[type[Unrenderable], tuple[str, str]]:
        return type(self), (self.reason, self.message)


@lru_cache(maxsize=1)
def _sandbox() -> RememberingSandbox:
    return remembering(template_environment())


@lru_cache(maxsize=64)
def _compiled(source: str) -> ProvenTemplate:
    try:
        return ProvenTemplate(source, _sandbox, template_environment)
    except Exception as error:  # a template that does not even compile serves no request
        raise Unrenderable("refused", f"the chat template does not compile: {error}") from None


def is_quick(source: str) -> bool:
    """Whether a template that was rendered is still served by its quick form."""
    return _compiled(source).is_quick


@lru_cache(maxsize=64)
def content_format(source: str, rendering: Rendering) -> ContentFormat:
    """How a server of that kind takes this template to want content: `string`, or `openai` (a list of parts)."""
    environment = template_environment()
    try:
        tree = environment.parse(source)
    except Exception:  # it does not compile: no request will be rendered with it
        return "string"
    return sglang_content_format(source, tree) if rendering == "sglang" else vllm_content_format(source, tree)


@dataclass(frozen=True, slots=True)
class _Variables:
    messages: list[Any]
    tools: list[Any] | None
    documents: list[Any] | None
    options: dict[str, Any]


def render(
    source: str,
    conversation: Conversation,
    special_tokens: Mapping[str, Json],
    clock: RequestClock,
    *,
    plain: bool = False,
    limit: RenderLimits = DEFAULT_LIMIT,
) -> str:
    """The prompt text of a conversation. Raises Unrenderable with the template's own message."""
    template = _compiled(source)
    variables = _variables(conversation, special_tokens)
    try:
        if conversation.continue_final_message:
            with cpu_deadline(limit):
                return _render_continued(source, variables, conversation, clock, plain)
        if not plain:
            variables = _as_transformers(variables)
        values = {
            "strftime_now": clock.strftime_now,
            **variables.options,
            "messages": variables.messages,
            "tools": variables.tools,
            "documents": variables.documents,
            "add_generation_prompt": conversation.add_generation_prompt,
        }
        return template.render(values, limit)
    except DeadlineExceeded as error:
        raise Unrenderable("out_of_time", f"the chat template {error}") from None
    except MemoryError:
        raise Unrenderable("refused", "the chat template ran out of memory") from None
    except Exception as error:  # whatever a foreign template raises is its way of refusing this request
        raise Unrenderable("refused", " ".join(str(error).split())[:300] or type(error).__name__) from None


def _variables(conversation: Conversation, special_tokens: Mapping[str, Json]) -> _Variables:
    options = {name: value for name, value in conversation.options.items() if name not in _NOT_VARIABLES}
    tools = None if conversation.tools is None else list(conversation.tools)
    documents = None if conversation.documents is None else list(conversation.documents)
    # a template variable named like an argument of apply_chat_template is that argument
    tools, documents = options.pop("tools", tools), options.pop("documents", documents)
    for name in _OWN_ARGUMENTS:
        options.pop(name, None)
    messages = [message if type(message) is dict else dict(message) for message in conversation.messages]
    return _Variables(messages, tools, documents, {**special_tokens, **options})


def _as_transformers(variables: _Variables) -> _Variables:
    """The checks and changes of transformers' apply_chat_template (5.24, tokenization_utils_base.py) and of its
    render_jinja_template (chat_template_utils.py).
    """
    for tool in variables.tools or ():
        if not isinstance(tool, dict):
            raise ValueError("tools should be JSON schemas")
    for document in variables.documents or ():
        if not isinstance(document, dict):
            raise TypeError("documents should be a list of dicts with 'title' and 'text' keys")
    messages = []
    for message in variables.messages:
        if _REASONING_KEYS.isdisjoint(message) and None not in message.values():
            messages.append(message)
            continue
        kept = {key: value for key, value in message.items() if value is not None}
        reasoning = next((kept[key] for key in _REASONING_NAMES if key in kept), None)
        if reasoning is not None:
            kept = {"thinking": reasoning, **kept, "reasoning_content": reasoning}
        messages.append(kept)
    return _Variables(messages, variables.tools, variables.documents, variables.options)


def _render_continued(
    source: str, variables: _Variables, conversation: Conversation, clock: RequestClock, plain: bool
) -> str:
    """A final message left open: transformers' own code finds the place, with the clock put into its template."""
    quiet_transformers()
    from transformers.utils.chat_template_utils import (
        _compile_jinja_template,
        _normalize_chat_messages,
        render_jinja_template,
    )

    if conversation.add_generation_prompt:
        raise ValueError("continue_final_message and add_generation_prompt can't both be set")
    messages = [dict(message) for message in variables.messages]
    messages = messages if plain else _normalize_chat_messages(messages)
    names = _compile_jinja_template(source).environment.globals
    before = names["strftime_now"]
    names["strftime_now"] = clock.strftime_now
    try:
        rendered, _ = render_jinja_template(
            conversations=[messages],
            tools=variables.tools,
            documents=variables.documents,
            chat_template=source,
            continue_final_message=True,
            add_generation_prompt=False,
            **variables.options,
        )
    finally:
        names["strftime_now"] = before
    return str(rendered[0])
