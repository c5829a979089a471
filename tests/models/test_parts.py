"""Parts: they tile the text, and each is where it must be."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from prefixscope.models.parts import tiles
from prefixscope.models.prompt import Made
from prefixscope.models.table import ModelEntry
from tests.models.conversations import CONVERSATIONS
from tests.models.prompts import logged, maker, model_folder, real_model
from tests.real_tokenizers import or_skip, templates
from tests.shared import SHARED, needs_shared


def pieces(made: Any) -> list[tuple[str, int | None, str]]:
    assert isinstance(made, Made) and made.prompt.text is not None
    assert tiles(made.prompt.parts, made.prompt.text)
    text = made.prompt.text
    return [(part.kind, part.index, text[part.start_char : part.end_char]) for part in made.prompt.parts]


@needs_shared
def test_every_piece_of_a_plain_template(tmp_path: Path) -> None:
    template = (
        "<bos>{% if tools %}{{ tools | tojson }}\n{% endif %}"
        "{% for m in messages %}[{{ m.role }}]{{ m.content | trim }}|{% endfor %}"
        "{% if add_generation_prompt %}[assistant]{% endif %}"
    )
    folder = model_folder(SHARED / "cases/bytes_model", template, tmp_path)
    tools = [{"type": "function", "function": {"name": "f", "description": "d"}}]
    body = {
        "messages": [{"role": "system", "content": " be kind "}, {"role": "user", "content": "x"},
                     {"role": "assistant", "content": "x"}, {"role": "user", "content": ""}],
        "tools": tools, "model": "m",
    }  # fmt: skip
    found = pieces(maker(ModelEntry("m", "m", str(folder))).make(logged(body), with_parts=True))
    assert found == [
        ("template", None, "<bos>["),
        ("tools", 0, json.dumps(tools[0])),
        ("template", None, "]\n[system]"),
        ("system", 0, "be kind"),
        ("template", None, "|[user]"),
        ("message", 1, "x"),
        ("template", None, "|[assistant]"),
        ("message", 2, "x"),
        ("template", None, "|[user]|"),
        ("generation", None, "[assistant]"),
    ]


@needs_shared
@pytest.mark.parametrize(
    "content", ["{{ m.content.split('a')[0] }}", "{{ m.content | upper }}", "{{ m.content | length }}",
                "{{ m.content if not m.content.startswith('ba') else 'BA' + m.content[2:] }}"],
)  # fmt: skip
def test_templates_that_look_inside_still_tile(tmp_path: Path, content: str) -> None:
    template = "{% for m in messages %}<" + content + ">{% endfor %}"
    folder = model_folder(SHARED / "cases/bytes_model", template, tmp_path)
    body = {"messages": [{"role": "user", "content": text} for text in ("banana", "ba", "kiwi is fine")], "model": "m"}
    found = pieces(maker(ModelEntry("m", "m", str(folder))).make(logged(body), with_parts=True))
    assert "".join(text for _, _, text in found).count("<") == 3


@needs_shared
def test_private_characters_in_the_input_are_no_marks(tmp_path: Path) -> None:
    folder = model_folder(
        SHARED / "cases/bytes_model", "{% for m in messages %}<{{ m.content }}>{% endfor %}", tmp_path
    )
    body = {"messages": [{"role": "user", "content": "a\U000f0001b"}, {"role": "user", "content": "c"}], "model": "m"}
    found = pieces(maker(ModelEntry("m", "m", str(folder))).make(logged(body), with_parts=True))
    assert [piece for piece in found if piece[0] == "message"] == [
        ("message", 0, "a\U000f0001b"), ("message", 1, "c"),
    ]  # fmt: skip


REAL = {
    "qwen3": ("Qwen-Qwen3-0.6B", "<|im_start|>assistant\n"),
    "llama3_1": ("meta-llama-Llama-3.1-8B-Instruct", "<|start_header_id|>assistant<|end_header_id|>\n\n"),
    "deepseek_v3": (None, "<｜Assistant｜>"),
}


@pytest.mark.real_tokenizers
@pytest.mark.parametrize("name", REAL)
def test_contents_lie_in_their_own_parts_on_real_templates(name: str) -> None:
    paired, generation = REAL[name]
    model = real_model(name)
    if paired is not None:
        model = replace(model, templates={"default": or_skip(templates)[paired]})
    making = maker(model.entry, rendering="vllm")
    making.use(model)
    located = 0
    for body in CONVERSATIONS.values():
        made = making.make(logged({**body, "model": "m"}), with_parts=True)
        if not isinstance(made, Made):
            continue
        found = pieces(made)
        assert (found[-1][0] == "generation") == found[-1][2].startswith(generation)
        for index, message in enumerate(body["messages"]):
            own = [text for _, number, text in found if number == index and _ in ("message", "system")]
            content = message.get("content")
            # one of the templates leaves the words beside a tool call out
            if isinstance(content, str) and content.strip() and own and "tool_calls" not in message:
                assert len(own) == 1, (body, found)
                printed = {content.strip(), json.dumps(content)[1:-1], *content.split("</think>")}
                assert any(one.strip() in own[0] for one in printed), (body, found)
                located += 1
        if body.get("tools") and any(kind == "tools" for kind, _, _ in found):
            assert [index for kind, index, _ in found if kind == "tools"] == [0, 1]
    assert located >= 20
