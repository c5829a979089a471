"""Prompts: outputs, symbols, faults, special tokens, named templates, limits."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from prefixscope.models.facts import model_facts
from prefixscope.models.prompt import Made, PromptMaker, needs_tokenizer, reads_cache
from prefixscope.models.table import ModelEntry
from prefixscope.models.template import Unrenderable
from prefixscope.records import Usage
from tests.models.prompts import ids, logged, maker, model_folder
from tests.shared import SHARED, needs_shared

CHATML = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
ASK = {"messages": [{"role": "user", "content": "rye?"}], "model": "m"}


def tokens_of(made: Any) -> list[int]:
    assert isinstance(made, Made), made
    return np.frombuffer(made.prompt.tokens, "<u4").tolist()


def outcome(made: Any) -> tuple[str, str]:
    assert isinstance(made, Unrenderable), made
    return made.reason, made.message


def symbols(**known: Any) -> Made:
    made = maker().make(logged({"prompt_token_ids": [5, 6, 7]}, **known))
    assert isinstance(made, Made)
    return made


class TestOutputsOfTokenIds:
    def test_known_ids_extend_without_the_last(self) -> None:
        made = symbols(output_token_ids=(8, 9, 10))
        assert tokens_of(made) == [5, 6, 7, 8, 9]
        assert (made.prompt.prompt_tokens, made.prompt.sequence_tokens, made.prompt.output) == (3, 5, "ids")

    def test_a_length_occupies_memory_but_has_no_ids(self) -> None:
        made = symbols(usage=Usage(output_tokens=4))
        assert tokens_of(made) == [5, 6, 7]
        assert (made.prompt.sequence_tokens, made.prompt.output) == (6, "length")

    def test_nothing_generated_and_nothing_known_differ(self) -> None:
        assert symbols(usage=Usage(output_tokens=0)).prompt.output == "length"
        made = symbols()
        assert (made.prompt.output, made.prompt.sequence_tokens) == ("unknown", 3)

    def test_one_generated_token_has_no_kv(self) -> None:
        assert symbols(output_token_ids=(8,)).prompt.sequence_tokens == 3

    def test_choices_share_the_counted_output(self) -> None:
        made = symbols(usage=Usage(output_tokens=9), n=4)
        assert (made.prompt.sequence_tokens, made.notes, made.prompt.n) == (4, ("output_split_over_choices",), 4)

    def test_ids_that_do_not_fit_leave_the_length(self) -> None:
        made = symbols(output_token_ids=(1, 2**40), usage=Usage(output_tokens=2))
        assert (made.prompt.output, made.prompt.sequence_tokens, made.notes) == ("length", 4, ("bad_output_token_ids",))


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ([], "no_prompt"), (None, "bad_token_ids"), ("12", "bad_token_ids"), ([1, -1], "bad_token_ids"),
        ([1, 2**32], "bad_token_ids"), ([1, 2.0], "bad_token_ids"), ([1, True], "bad_token_ids"),
        ([[1, 2]], "bad_token_ids"), ([1, None], "bad_token_ids"),
    ],
)  # fmt: skip
def test_token_ids_that_are_none(value: Any, reason: str) -> None:
    assert outcome(maker().make(logged({"prompt_token_ids": value})))[0] == reason


def test_the_largest_id_fits() -> None:
    assert ids(maker().make(logged({"prompt_token_ids": [0, 2**32 - 1]}))) == [0, 2**32 - 1]


class TestHashes:
    def test_ids_of_any_width_become_dense_over_the_run(self) -> None:
        making = maker()
        first = making.make(logged({"hash_ids": [2**90, 7], "input_length": 1000}, unit=512))
        second = making.make(logged({"hash_ids": [7, "abc"], "input_length": 1024}, unit=512))
        assert (tokens_of(first), tokens_of(second)) == ([0, 1], [1, 2])
        assert isinstance(first, Made)
        assert (first.prompt.prompt_tokens, first.prompt.unit, len(making.remap)) == (1000, 512, 3)

    def test_length_and_ids_that_do_not_agree(self) -> None:
        long = maker().make(logged({"hash_ids": [1, 2, 3], "input_length": 10}, unit=16))
        short = maker().make(logged({"hash_ids": [1], "input_length": 40}, unit=16, usage=Usage(output_tokens=3)))
        assert isinstance(long, Made) and isinstance(short, Made)
        assert (tokens_of(long), long.notes) == ([0], ("hash_ids_beyond_input",))
        assert (tokens_of(short), short.notes) == ([0], ("hash_ids_end_early",))
        assert (short.prompt.prompt_tokens, short.prompt.sequence_tokens) == (40, 42)

    @pytest.mark.parametrize(("hash_ids", "length"), [(5, 4), ([1.5], 4), ([True], 4), ([1], -4), ([1], "x")])
    def test_faults(self, hash_ids: Any, length: Any) -> None:
        body = {"hash_ids": hash_ids, "input_length": length}
        assert outcome(maker().make(logged(body, unit=16)))[0] == "bad_hash_ids"

    def test_lengths_alone_match_nothing(self) -> None:
        made = maker().make(logged({"input_length": 30}, usage=Usage(output_tokens=5)))
        assert isinstance(made, Made)
        assert (tokens_of(made), made.prompt.prompt_tokens, made.prompt.sequence_tokens) == ([], 30, 34)


def test_what_may_not_read_the_cache() -> None:
    assert reads_cache({"prompt_logprobs": None}) and reads_cache({"echo": True, "prompt": "x"})
    assert not reads_cache({"prompt_logprobs": 0}) and not reads_cache({"prompt_logprobs": 1})
    assert not reads_cache({"echo": True, "messages": []}) and not reads_cache({"echo": True, "logprobs": 1})


def test_only_text_needs_a_tokenizer() -> None:
    bodies = [{"messages": []}, {"prompt": "x"}, {"prompt_token_ids": [1]}, {"hash_ids": [1]}, {"input_length": 1}]
    assert [needs_tokenizer(logged(body)) for body in bodies] == [True, True, False, False, False]


def test_a_name_that_is_not_in_the_table() -> None:
    assert outcome(maker().make(logged(ASK))) == ("no_model", "model 'm' is not known")


@needs_shared
class TestText:
    @pytest.fixture
    def entry(self, tmp_path: Path) -> ModelEntry:
        return ModelEntry("m", "m", str(model_folder(SHARED / "cases/bytes_model", CHATML, tmp_path / "model")))

    def test_an_answers_text_continues_the_prompt(self, entry: ModelEntry) -> None:
        prompt = b"<|im_start|>user\nrye?<|im_end|>\n<|im_start|>assistant\n"
        for response in ("Yes.", {"role": "assistant", "content": "Yes."}):
            made = maker(entry).make(logged(ASK, response=response))
            assert isinstance(made, Made)
            assert tokens_of(made) == [*prompt, *b"Yes"]
            assert (made.prompt.sequence_tokens, made.prompt.output) == (len(prompt) + 3, "text")

    def test_a_larger_count_wins_over_the_text(self, entry: ModelEntry) -> None:
        made = maker(entry).make(logged(ASK, response="Yes.", usage=Usage(output_tokens=9)))
        assert isinstance(made, Made)
        assert bytes(tokens_of(made)[made.prompt.prompt_tokens :]) == b"Yes."
        assert made.prompt.sequence_tokens == made.prompt.prompt_tokens + 8

    def test_an_answer_with_reasoning_is_a_length(self, entry: ModelEntry) -> None:
        response = {"content": "Yes.", "reasoning_content": "hm"}
        made = maker(entry).make(logged(ASK, response=response, usage=Usage(output_tokens=9)))
        assert isinstance(made, Made) and made.prompt.output == "length"

    def test_surrogates_are_replaced_and_noted(self, entry: ModelEntry) -> None:
        body = {"messages": [{"role": "user", "content": "a\ud800b"}], "model": "m"}
        made = maker(entry).make(logged(body))
        assert isinstance(made, Made) and made.prompt.text is not None
        assert made.notes == ("lone_surrogates_replaced",) and "a\ufffdb" in made.prompt.text

    def test_a_requests_own_template_only_where_trusted(self, entry: ModelEntry) -> None:
        request = logged({**ASK, "chat_template": "own"})
        ignored, trusted = maker(entry).make(request), maker(entry, trust_request_template=True).make(request)
        assert isinstance(ignored, Made) and isinstance(trusted, Made)
        assert ignored.notes == ("request_chat_template_ignored",) and trusted.prompt.text == "own"

    def test_media_is_noted(self, entry: ModelEntry) -> None:
        content = [{"type": "text", "text": "what?"}, {"type": "image_url", "image_url": {"url": "http://x/y.png"}}]
        made = maker(entry, rendering="vllm").make(logged({**ASK, "messages": [{"role": "user", "content": content}]}))
        assert isinstance(made, Made) and made.notes == ("media_not_counted", "media_by_url")

    @pytest.mark.parametrize("messages", [None, [], {}, ""])
    def test_no_messages(self, entry: ModelEntry, messages: Any) -> None:
        assert outcome(maker(entry).make(logged({**ASK, "messages": messages})))[0] == "no_prompt"

    @pytest.mark.parametrize("messages", ["hi", [1], {"role": "user"}, [["a"]]])
    def test_messages_of_another_shape(self, entry: ModelEntry, messages: Any) -> None:
        assert outcome(maker(entry).make(logged({**ASK, "messages": messages})))[0] == "bad_body"

    def test_a_prompt_that_is_no_text(self, entry: ModelEntry) -> None:
        assert outcome(maker(entry).make(logged({"prompt": 5, "model": "m"})))[0] == "bad_body"

    def test_both_flags_are_refused_but_by_sglang(self, entry: ModelEntry) -> None:
        body = {"messages": [*ASK["messages"], {"role": "assistant", "content": "Yes, "}], "model": "m",
                "continue_final_message": True}  # fmt: skip
        opened = "<|im_start|>user\nrye?<|im_end|>\n<|im_start|>assistant\nYes,"
        for rendering in ("plain", "transformers"):
            made = maker(entry, rendering=rendering).make(logged(body))
            assert isinstance(made, Made) and made.prompt.text == opened + " "
        assert "can't both be set" in outcome(maker(entry, rendering="vllm").make(logged(body)))[1]
        made = maker(entry, rendering="vllm").make(logged({**body, "add_generation_prompt": False}))
        assert isinstance(made, Made) and made.prompt.text == opened + " "
        made = maker(entry, rendering="sglang").make(logged(body), with_parts=True)
        assert isinstance(made, Made) and made.prompt.text == opened + " "
        assert made.prompt.parts[-1].kind == "message" and made.prompt.parts[-1].index == 1

    def test_a_prompt_cut_to_its_last_tokens(self, entry: ModelEntry) -> None:
        body = {**ASK, "truncate_prompt_tokens": 5}
        made = maker(entry, rendering="vllm").make(logged(body))
        assert isinstance(made, Made)
        assert (bytes(ids(made)), made.prompt.text, made.notes) == (b"tant\n", None, ("prompt_truncated",))
        made = maker(entry, rendering="vllm").make(logged({**body, "truncation_side": "right"}))
        assert bytes(ids(made)) == b"<|im_"
        assert len(ids(maker(entry, rendering="sglang").make(logged(body)))) > 5

    def test_rules_travel_to_workers(self, entry: ModelEntry) -> None:
        rules = maker(entry, rendering="vllm").rules
        copy = pickle.loads(pickle.dumps(rules))
        assert copy.table == rules.table and copy.wires == rules.wires
        assert ids(PromptMaker(copy).make(logged(ASK))) == ids(PromptMaker(rules).make(logged(ASK)))
        error = Unrenderable("refused", "why")
        assert outcome(pickle.loads(pickle.dumps(error))) == ("refused", "why")

    def test_every_loaded_engine_is_readable(self, entry: ModelEntry) -> None:
        making = maker(entry)
        making.make(logged(ASK))
        assert [model.encoder.name for model in making.models] == ["fastokens"]
        assert [model.encoder.name for model in self._slow(entry).models] == ["tokenizers"]

    def _slow(self, entry: ModelEntry) -> PromptMaker:
        making = maker(entry, fast_encoder=False)
        making.make(logged(ASK))
        return making

    def test_facts(self, entry: ModelEntry) -> None:
        facts = model_facts(entry)
        assert (facts.vocabulary_size, facts.architecture, facts.encoder) == (256, "LlamaForCausalLM", "fastokens")
        assert facts.templates[0].content_formats == {"vllm": "string", "sglang": "string"}
        assert not facts.templates[0].prints_date and not facts.adds_special_tokens


@needs_shared
class TestTemplates:
    def text(self, folder: Path, body: dict[str, Any], **changes: Any) -> Any:
        entry = ModelEntry("m", "m", str(folder), chat_template=changes.pop("chat_template", None),
                           template_options=changes.pop("template_options", {}))  # fmt: skip
        made = maker(entry, **changes).make(logged({**ASK, **body}))
        return made.prompt.text if isinstance(made, Made) else made.message

    def folder(self, tmp_path: Path, template: str) -> Path:
        return model_folder(SHARED / "cases/bytes_model", template, tmp_path)

    def test_tool_use_is_chosen_with_tools(self, tmp_path: Path) -> None:
        folder = self.folder(tmp_path, "usual")
        (folder / "additional_chat_templates").mkdir()
        (folder / "additional_chat_templates/tool_use.jinja").write_text("with tools")
        tools = {"tools": [{"type": "function", "function": {"name": "f"}}]}
        assert self.text(folder, {}) == "usual" and self.text(folder, tools) == "with tools"
        assert self.text(folder, {}, chat_template="tool_use") == "with tools"

    def test_a_template_file_of_the_users(self, tmp_path: Path) -> None:
        (tmp_path / "mine.txt").write_text("mine {{ flavour }}")
        folder = self.folder(tmp_path / "model", "usual")
        mine = str(tmp_path / "mine.txt")
        assert self.text(folder, {}, chat_template=mine, template_options={"flavour": "dark"}) == "mine dark"
        given = {"chat_template_kwargs": {"flavour": "light"}}
        assert self.text(folder, given, chat_template=mine, template_options={"flavour": "dark"}) == "mine light"

    def test_tojson_keeps_key_order_and_html(self, tmp_path: Path) -> None:
        folder = self.folder(tmp_path, "{{ tools | tojson }}")
        tools = [{"z": 1, "a": "<b>ä</b>"}]
        assert self.text(folder, {"tools": tools}) == json.dumps(tools, ensure_ascii=False)

    @pytest.mark.parametrize(
        ("template", "message"),
        [
            ("{{ raise_exception('Only user and assistant roles!') }}", "Only user and assistant roles!"),
            ("{{ messages[0].nothing.more }}", "no attribute 'nothing'"),
            ("{{ messages[0].missing | tojson }}", "not JSON serializable"),
            ("{{ 1 / 0 }}", "division by zero"),
            ("{{ ''.__class__.__mro__ }}", "unsafe"),
            ("{% for %}", "does not compile"),
            ("{{ strftime_now(5) }}", "argument"),
        ],
    )
    def test_refusals_keep_the_templates_words(self, tmp_path: Path, template: str, message: str) -> None:
        assert message in self.text(self.folder(tmp_path, template), {})

    def test_a_template_without_end_is_stopped(self, tmp_path: Path) -> None:
        endless = "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"
        stopped = self.text(self.folder(tmp_path, endless), {}, render_limit=0.2)
        assert stopped == "the chat template took more than 0.2 s of CPU time"

    def test_no_template(self, tmp_path: Path) -> None:
        folder = model_folder(SHARED / "cases/bytes_model", None, tmp_path)
        assert "the model has no chat template" in self.text(folder, {})

    def test_messages_are_not_changed_by_rendering(self, tmp_path: Path) -> None:
        folder = self.folder(tmp_path, "{% set _ = messages[0].update({'content': 'x'}) %}y")
        assert "not safely callable" in self.text(folder, {}) or "unsafe" in self.text(folder, {})
        assert ASK["messages"] == [{"role": "user", "content": "rye?"}]
