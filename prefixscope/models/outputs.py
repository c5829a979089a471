"""What is known of a generated answer, as ids that continue the prompt.

KV exists for P + O - 1 tokens when O > 0 were generated: the last sampled token never ran through the model.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from prefixscope.models.encode import ids_to_bytes
from prefixscope.records import Json, LoggedRequest, OutputKnowledge

__all__ = ["Output", "answer_text", "output_of"]

_UINT32_END = 1 << 32


@dataclass(frozen=True, slots=True)
class Output:
    """`ids` are the known generated ids with KV (the last sampled one never is), `tokens` O the number generated."""

    knowledge: OutputKnowledge
    tokens: int
    ids: bytes = b""
    notes: tuple[str, ...] = ()

    @property
    def stored_tokens(self) -> int:
        """Generated tokens whose KV exists."""
        return max(self.tokens - 1, 0)


def output_of(request: LoggedRequest, continue_text: Callable[[str], bytes] | None) -> Output:
    """The output of a request: ids exactly, else its text tokenised (approximate), else its length, else unknown.

    `continue_text` gives the ids of a text behind the prompt, or is None where no tokenizer is at hand. With several
    choices (n > 1) usage counts them all; one choice is taken to be as long as their mean, rounded down.
    """
    counted = None if request.usage is None else request.usage.output_tokens
    notes: tuple[str, ...] = ()
    if counted is not None and request.n > 1:
        counted, notes = counted // request.n, ("output_split_over_choices",)
    if request.output_token_ids is not None:
        return _known_ids(request.output_token_ids, counted)
    text = answer_text(request.response)
    if text is not None and continue_text is not None:
        ids = continue_text(text)
        known = len(ids) // 4
        tokens = max(known, counted or 0)
        return Output("text", tokens, ids[: 4 * min(known, max(tokens - 1, 0))], notes)
    if counted is None:
        return Output("unknown", 0)
    return Output("length", counted, notes=notes)


def _known_ids(ids: tuple[int, ...], counted: int | None) -> Output:
    if not all(type(one) is int and 0 <= one < _UINT32_END for one in ids):
        if counted is None:
            return Output("unknown", 0, notes=("bad_output_token_ids",))
        return Output("length", counted, notes=("bad_output_token_ids",))
    return Output("ids", len(ids), ids_to_bytes(list(ids[:-1])))


def answer_text(response: Json) -> str | None:
    """The generated text of an answer, or its known beginning; None where it can't be told.

    A server takes reasoning and tool calls out of the text, and how they were written is not logged: an answer with
    reasoning is unknown, one with tool calls is known as far as its content goes.

    >>> answer_text({"role": "assistant", "content": "Yes."})
    'Yes.'
    >>> answer_text({"reasoning_content": "hm", "content": "Yes."}) is None
    True
    """
    if isinstance(response, str):
        return response
    if not isinstance(response, dict):
        return None
    if any(response.get(key) for key in ("reasoning", "reasoning_content", "thinking")):
        return None
    content = response.get("content", response.get("text"))
    return content if isinstance(content, str) and (content or not response.get("tool_calls")) else None
