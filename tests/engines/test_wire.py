"""The wire conversions against vectors recorded from the servers' own code, and rule by rule."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from prefixscope.engines.wire import RENDERINGS, caveats, default_rendering, wire
from prefixscope.errors import OptionError
from tests.engines.judges import VLLM, needs_vllm

HERE = Path(__file__).parent
VECTORS = json.loads((HERE / "wire_vectors.json").read_text(encoding="utf-8"))
"""`vllm`: recorded with record_wire_vectors.py from vLLM 0.32.0 itself. `sglang`: recorded by running the request
classes and functions of the SGLang 0.5.23 wheel (protocol.py, serving_chat.py, jinja_template_utils.py)."""

ORDERED = json.dumps
"""Equality that sees the order of keys: templates print it."""


def converted(rendering: Any, vector: dict[str, Any], template: str = "'developer'") -> dict[str, Any]:
    try:
        made = wire(rendering, vector["body"], template, vector["format"])
    except ValueError as error:
        return {"error": str(error)}
    options = dict(made.options)
    if made.documents is not None:
        options["documents"] = list(made.documents)
    return {
        "messages": list(made.messages),
        "tools": None if made.tools is None else list(made.tools),
        "kwargs": options
        | {"add_generation_prompt": made.add_generation_prompt, "continue_final_message": made.continue_final_message},
    }


@pytest.mark.parametrize("number", range(len(VECTORS["vllm"])))
def test_vllm_vectors(number: int) -> None:
    vector = VECTORS["vllm"][number]
    got, given = converted("vllm", vector), vector["given"]
    assert got.pop("kwargs") == given["kwargs"]
    assert ORDERED(got) == ORDERED({"messages": given["messages"], "tools": given["tools"]})


@pytest.mark.parametrize("number", range(len(VECTORS["sglang"])))
def test_sglang_vectors(number: int) -> None:
    vector = VECTORS["sglang"][number]
    got = converted("sglang", vector)
    got.pop("kwargs", None)
    assert ORDERED(got) == ORDERED(vector["given"])


@needs_vllm
def test_vllm_itself_again() -> None:
    """vLLM's own code on the recorded bodies, now."""
    lines = "\n".join(json.dumps(vector) for vector in VECTORS["vllm"])
    done = subprocess.run(
        [str(VLLM), str(HERE / "record_wire_vectors.py")], input=lines, capture_output=True, text=True, check=True
    )
    for vector, line in zip(VECTORS["vllm"], done.stdout.splitlines(), strict=True):
        got, given = converted("vllm", vector), json.loads(line)
        assert ORDERED({name: got[name] for name in ("messages", "tools")}) == ORDERED(
            {name: given[name] for name in ("messages", "tools")}
        )


def one_message(rendering: Any, message: dict[str, Any], **more: Any) -> dict[str, Any]:
    given = wire(rendering, {"messages": [message]}, more.pop("template", ""), more.pop("format", "string"))
    return dict(given.messages[0])


class TestVllm:
    def test_developer_becomes_system_where_the_template_does_not_know_it(self) -> None:
        body = {"messages": [{"role": "system", "content": "a"}, {"role": "user", "content": "q"},
                             {"role": "developer", "content": "b"}]}  # fmt: skip
        assert [m["role"] for m in wire("vllm", body, "{{ 'developer' }}", "string").messages] == [
            "system", "user", "developer",
        ]  # fmt: skip
        merged = wire("vllm", body, "{{ messages }}", "string").messages
        assert merged == ({"role": "system", "content": "a\n\nb"}, {"role": "user", "content": "q"})

    def test_arguments_already_parsed_stay(self) -> None:
        calls = [{"id": "1", "type": "function", "function": {"name": "f", "arguments": {"b": 1, "a": 2}}}]
        made = one_message("vllm", {"role": "assistant", "content": None, "tool_calls": calls})
        assert ORDERED(made["tool_calls"][0]["function"]) == ORDERED({"arguments": {"b": 1, "a": 2}, "name": "f"})

    def test_reasoning_goes_out_under_both_names(self) -> None:
        for key in ("reasoning", "reasoning_content"):
            made = one_message("vllm", {"role": "assistant", "content": "a", key: "r"})
            assert made == {"role": "assistant", "content": "a", "reasoning": "r", "reasoning_content": "r"}

    def test_tool_choice_none_still_renders_tools(self) -> None:
        body = {"messages": [{"role": "user", "content": "q"}], "tool_choice": "none",
                "tools": [{"type": "function", "function": {"name": "f"}}]}  # fmt: skip
        assert wire("vllm", body, "", "string").tools is not None
        assert wire("sglang", body, "", "string").tools is None

    @pytest.mark.parametrize(
        ("messages", "complaint"),
        [
            ([{"content": "x"}], "message 0 has no role"),
            ([{"role": "user", "content": 5}], "neither a text nor a list"),
            ([{"role": "user", "content": [{"type": "poem"}]}], "unsupported content part type 'poem'"),
            ([{"role": "assistant", "tool_calls": [{"type": "custom"}]}], "only tool calls of type function"),
        ],
    )
    def test_what_the_server_refuses(self, messages: list[Any], complaint: str) -> None:
        with pytest.raises(ValueError, match=complaint):
            wire("vllm", {"messages": messages}, "", "string")

    def test_server_options_give_way_to_the_requests_own(self) -> None:
        body = {"messages": [{"role": "user", "content": "q"}],
                "chat_template_kwargs": {"a": None, "b": "auto", "c": 1}}  # fmt: skip
        options = wire("vllm", body, "", "string", {"a": 5, "b": 6, "c": 7, "d": 8}).options
        assert options == {"a": 5, "b": 6, "c": 1, "d": 8}

    def test_images_become_a_part_or_nothing(self) -> None:
        content = [{"type": "image_url", "image_url": {"url": "x"}}, {"type": "text", "text": "t"}]
        message = {"role": "user", "content": content}
        assert one_message("vllm", message)["content"] == "t"
        assert one_message("vllm", message, format="openai")["content"] == [
            {"type": "image"}, {"type": "text", "text": "t"},
        ]  # fmt: skip


class TestSglang:
    def test_a_last_assistant_message_is_taken_for_the_users(self) -> None:
        assert one_message("sglang", {"role": "assistant", "content": "a"}) == {"role": "user", "content": "a"}

    def test_a_message_to_continue_is_marked_by_both_flags(self) -> None:
        body = {"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}],
                "continue_final_message": True}  # fmt: skip
        made = wire("sglang", body, "", "string")
        assert made.add_generation_prompt and made.continue_final_message

    def test_effort_switches_thinking(self) -> None:
        body = {"messages": [{"role": "user", "content": "q"}], "reasoning_effort": "none"}
        assert wire("sglang", body, "", "string").options == {
            "reasoning_effort": "none", "thinking": False, "enable_thinking": False,
        }  # fmt: skip


def test_as_logged_changes_nothing() -> None:
    body = {"messages": [{"role": "assistant", "content": None, "x": 1}], "tools": [{"function": {"name": "f"}}]}
    made = wire("plain", body, "", "string")
    assert ORDERED([*made.messages]) == ORDERED(body["messages"]) and made.tools == ({"function": {"name": "f"}},)
    assert made.add_generation_prompt
    assert not wire("transformers", {**body, "continue_final_message": True}, "", "string").add_generation_prompt


def test_defaults_and_choices() -> None:
    engines = {"vllm": "vllm", "vllm-ascend@0.23": "vllm", "sglang@0.5.23": "sglang", "llama-cpp": "transformers"}
    assert {engine: default_rendering(engine) for engine in engines} == engines
    assert RENDERINGS == ("plain", "transformers", "vllm", "sglang")
    with pytest.raises(OptionError, match="choose from plain, transformers, vllm, sglang"):
        wire("jinja", {"messages": []}, "", "string")  # type: ignore[arg-type]


def test_caveats_name_what_the_template_does_not_decide() -> None:
    assert caveats("transformers", "gpt_oss") == ()
    assert "openai-harmony" in caveats("vllm", "gpt_oss")[0]
    assert "not compared" in caveats("sglang", "llama")[0]
    assert "mistral-common" in caveats("vllm", "mistral", mistral_tokenizer=True)[0]
