"""The shared text cases: token counts and shared prefixes, request by request."""

import json
from pathlib import Path
from typing import Any

import pytest

from prefixscope.models.prompt import Made
from prefixscope.models.table import ModelEntry
from prefixscope.models.template import Unrenderable
from tests.models.prompts import ids, logged, maker, model_folder, shared
from tests.shared import SHARED, needs_shared

CASES = SHARED / "cases"
TEXT_CASES = (
    "07-timestamp-first-in-system-prompt",
    "09-template-prints-todays-date",
    "12-tool-schema-key-order",
    "18-assistant-text-trimmed",
    "22-null-assistant-content",
    "29-content-string-or-parts",
    "56-append-only-control",
    "58-template-adds-default-system",
)
pytestmark = needs_shared


def case(name: str) -> dict[str, Any]:
    return json.loads((CASES / f"{name}.json").read_text(encoding="utf-8"))


def prompts(name: str, folder: Path, rendering: Any = "plain") -> list[list[int]]:
    setup = case(name)
    bytes_model = model_folder(CASES / "bytes_model", setup["setup"]["chat_template"], folder)
    making = maker(ModelEntry("m", "m", str(bytes_model)), rendering=rendering)
    return [ids(making.make(logged(request, model="m"))) for request in setup["requests"]]


@pytest.mark.parametrize("name", TEXT_CASES)
def test_counts_and_shared_prefixes(name: str, tmp_path: Path) -> None:
    found, expect = prompts(name, tmp_path), case(name)["expect"]
    assert [len(one) for one in found] == expect["prompt_tokens"]
    longest = [max((shared(one, earlier) for earlier in found[:row]), default=0) for row, one in enumerate(found)]
    assert longest == expect.get("shared_prefix_tokens", longest)


@pytest.mark.parametrize(
    ("rendering", "counts", "common"),
    [("plain", [110, 106], 53), ("transformers", [106, 106], 106), ("vllm", [106, 106], 106),
     ("sglang", [106, 106], 106)],
)  # fmt: skip
def test_null_content_under_each_rendering(rendering: str, counts: list[int], common: int, tmp_path: Path) -> None:
    found = prompts("22-null-assistant-content", tmp_path, rendering)
    assert [len(one) for one in found] == counts
    assert shared(*found) == common


def test_several_parts_are_joined_by_a_newline_under_vllm_string_format(tmp_path: Path) -> None:
    setup = case("29-content-string-or-parts")
    expect = setup["expect"]["under_vllm_string_format"]["request_2_first_different_token_vs_0"]
    # a template without a loop over parts is a string template to vLLM
    template = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    folder = model_folder(CASES / "bytes_model", template, tmp_path)
    making = maker(ModelEntry("m", "m", str(folder)), rendering="vllm")
    found = [ids(making.make(logged(request, model="m"))) for request in setup["requests"]]
    assert found[0] == found[1]
    assert shared(found[0], found[2]) == expect
    assert found[2][expect] == ord("\n")


def test_odd_messages(tmp_path: Path) -> None:
    setup = case("49-odd-messages")
    folder = model_folder(CASES / "bytes_model", setup["setup"]["chat_template"], tmp_path)
    for rendering in ("plain", "transformers", "vllm", "sglang"):
        making = maker(ModelEntry("m", "m", str(folder)), rendering=rendering)
        statuses = []
        for request in setup["requests"]:
            made = making.make(logged(request, model="m"))
            statuses.append("rendered" if isinstance(made, Made) else made.reason)
        assert statuses == setup["expect"]["status"], rendering


def test_a_date_in_the_template_is_the_requests_own(tmp_path: Path) -> None:
    setup = case("09-template-prints-todays-date")
    folder = model_folder(CASES / "bytes_model", setup["setup"]["chat_template"], tmp_path)
    making = maker(ModelEntry("m", "m", str(folder)))
    made = making.make(logged(setup["requests"][2], model="m"))
    assert isinstance(made, Made) and made.prompt.text is not None
    assert "Today Date: 31 Mar 2026" in made.prompt.text
    assert made.notes == ("template_prints_date",)
    undated = making.make(logged({"messages": setup["requests"][2]["messages"]}, model="m"))
    assert isinstance(undated, Made) and undated.prompt.text is not None
    assert "Today Date: 01 Jan 2026" in undated.prompt.text
    assert undated.notes == ("template_prints_fixed_date",)


@pytest.mark.parametrize("name", ["23-double-bos", "26-lora-adapters-separate", "27-two-models-in-one-log",
                                  "34-prompt-logprobs-skip-reading", "19-generated-text-retokenised"])  # fmt: skip
def test_token_id_cases_need_no_tokenizer(name: str) -> None:
    setup = case(name)
    adapters = setup["setup"].get("adapters", {})
    making = maker(*(ModelEntry(adapter, base, adapter=adapter) for adapter, base in adapters.items()))
    rows = []
    for request in setup["requests"]:
        output = request.get("output_token_ids")
        made = making.make(logged(request, output_token_ids=None if output is None else tuple(output)))
        assert isinstance(made, Made)
        rows.append(made.prompt)
    assert [row.prompt_tokens for row in rows] == setup["expect"]["prompt_tokens"]
    cached = []
    for row, prompt in enumerate(rows):
        best = 0
        for earlier in rows[:row]:
            if earlier.identity.namespace == prompt.identity.namespace and prompt.reads_cache:
                common = shared(list(memoryview(prompt.tokens).cast("I")), list(memoryview(earlier.tokens).cast("I")))
                best = max(best, min(common, prompt.prompt_tokens - 1) // 16 * 16)
        cached.append(best)
    assert cached == setup["expect"]["cached_tokens"]


def test_adapters_share_memory_but_not_prefixes() -> None:
    setup = case("26-lora-adapters-separate")
    making = maker(*(ModelEntry(name, base, adapter=name) for name, base in setup["setup"]["adapters"].items()))
    made = [making.make(logged(request)) for request in setup["requests"]]
    identities = [one.prompt.identity for one in made if isinstance(one, Made)]
    assert {one.pool for one in identities} == {"base-7b"}
    assert len({one.namespace for one in identities}) == 3


def test_a_refusing_template_is_counted_with_its_own_message(tmp_path: Path) -> None:
    template = "{% if messages[0].role != 'user' %}{{ raise_exception('Roles must alternate!') }}{% endif %}x"
    folder = model_folder(CASES / "bytes_model", template, tmp_path)
    made = maker(ModelEntry("m", "m", str(folder))).make(logged({"messages": [{"role": "tool"}]}, model="m"))
    assert isinstance(made, Unrenderable)
    assert (made.reason, made.message) == ("refused", "Roles must alternate!")
