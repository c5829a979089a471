"""What the template doctor says of real templates."""

from __future__ import annotations

from collections import Counter

import pytest

from prefixscope.api import LogOptions, template_doctor
from prefixscope.results.breaks import TemplateProbe
from tests.real_tokenizers import or_skip, templates, tokenizer_folder

pytestmark = pytest.mark.real_tokenizers


@pytest.fixture(scope="module")
def examined(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, TemplateProbe]]:
    folder = tmp_path_factory.mktemp("templates")
    qwen = or_skip(tokenizer_folder, "qwen3")
    for file in ("tokenizer.json", "tokenizer_config.json"):
        (folder / file).symlink_to(qwen / file)
    # one tokenizer with all templates under their names, so that it is loaded once
    named = folder / "additional_chat_templates"
    named.mkdir()
    for name, source in or_skip(templates).items():
        (named / f"{name}.jinja").write_text(source, encoding="utf-8")
    found = template_doctor((str(folder),), LogOptions(()))
    return {one.template: {probe.probe: probe for probe in one.probes} for one in found}


def breakers(examined: dict[str, dict[str, TemplateProbe]], probe: str, verdict: str = "breaks") -> set[str]:
    return {name for name, probes in examined.items() if probe in probes and probes[probe].verdict == verdict}


def test_templates_that_print_a_date(examined: dict[str, dict[str, TemplateProbe]]) -> None:
    assert breakers(examined, "date") >= {
        "openai-gpt-oss-120b", "meta-llama-Llama-3.2-3B-Instruct", "Mistral-Small-3.2-24B-Instruct-2506",
        "ibm-granite-granite-3.3-2B-Instruct", "Apertus-8B-Instruct", "upstage-Solar-Open-100B",
    }  # fmt: skip
    assert "Qwen-Qwen3-0.6B" not in breakers(examined, "date")


def test_templates_that_move_the_system_prompt_or_the_tools(examined: dict[str, dict[str, TemplateProbe]]) -> None:
    assert breakers(examined, "system prompt") == {"mistralai-Mistral-Nemo-Instruct-2407"}
    assert breakers(examined, "tools") >= {
        "mistralai-Mistral-Nemo-Instruct-2407", "Mistral-Small-3.2-24B-Instruct-2506"
    }  # fmt: skip


def test_templates_that_drop_reasoning(examined: dict[str, dict[str, TemplateProbe]]) -> None:
    assert breakers(examined, "reasoning") >= {
        "Qwen-Qwen3-0.6B", "GLM-4.6", "MiniMax-M2", "google-gemma-4-31B-it", "openai-gpt-oss-120b", "Qwen3.5-4B",
        "StepFun3.5-Flash", "NVIDIA-Nemotron-3-Nano-30B-A3B-BF16",
    }  # fmt: skip


def test_generation_prompts_that_the_history_does_not_repeat(examined: dict[str, dict[str, TemplateProbe]]) -> None:
    assert breakers(examined, "next turn", "tail") >= {"Qwen-QwQ-32B", "Qwen3.5-4B", "MiniMax-M2", "StepFun3.5-Flash"}


def test_most_templates_keep_a_plain_turn(examined: dict[str, dict[str, TemplateProbe]]) -> None:
    said = Counter(probes["next turn"].verdict for probes in examined.values() if "next turn" in probes)
    assert said["keeps"] >= 40 and said["breaks"] <= 4, said


def test_a_finding_names_the_character_and_both_sides(examined: dict[str, dict[str, TemplateProbe]]) -> None:
    probe = examined["openai-gpt-oss-120b"]["date"]
    assert probe.text_before is not None and probe.text_before.rstrip("0123456789-").endswith("Current date: ")
    assert probe.old is not None and probe.new is not None and probe.old[0] != probe.new[0]
