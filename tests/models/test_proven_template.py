"""The quick template is believed where the judge said the same, and only there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from jinja2 import Environment, TemplateSyntaxError
from jinja2.compiler import CodeGenerator, Frame
from jinja2.sandbox import ImmutableSandboxedEnvironment

from prefixscope.cli.main import main
from prefixscope.models.chat import Conversation
from prefixscope.models.clock import RequestClock
from prefixscope.models.deadline import DeadlineExceeded
from prefixscope.models.proven_template import ProvenTemplate
from prefixscope.models.template import Unrenderable, render

SAMPLES = Path(__file__).resolve().parents[2] / "sample_logs"
SOURCE = "{% for m in messages %}{{ m.role }}: {{ m.content }}{% if m.name %} ({{ m.name }}){% endif %}{% endfor %}"


class WrongNames(CodeGenerator):
    """A compiler that reads another key where `name` stands."""

    def visit_Getattr(self, node: Any, frame: Frame, **named: Any) -> None:
        node.attr = "role" if node.attr == "name" else node.attr
        super().visit_Getattr(node, frame, **named)


class Broken(CodeGenerator):
    def visit_Getattr(self, node: Any, frame: Frame, **named: Any) -> None:
        raise TypeError("visit_Getattr() got an unexpected keyword")


def environment(generator: type[CodeGenerator] = CodeGenerator) -> Environment:
    made = ImmutableSandboxedEnvironment(trim_blocks=True)
    made.code_generator_class = generator
    return made


def values(*messages: dict[str, Any]) -> dict[str, Any]:
    return {"messages": list(messages), "tools": None, "documents": None, "add_generation_prompt": True}


def test_a_shape_that_differs_ends_the_trust() -> None:
    calls: list[int] = []

    def judge() -> Environment:
        calls.append(1)
        return environment()

    template = ProvenTemplate(SOURCE, lambda: environment(WrongNames), judge)
    plain = {"role": "user", "content": "a"}
    assert template.render(values({**plain, "name": ""}), 10) == "user: a" and not template.is_quick
    assert len(calls) == 1
    template = ProvenTemplate(SOURCE, environment, judge)
    for _ in range(3):
        assert template.render(values(plain), 10) == "user: a"
    assert template.render(values({**plain, "name": "Jo"}), 10) == "user: a (Jo)" and template.is_quick


def test_every_shape_is_compared_once() -> None:
    rendered: list[str] = []

    class Counted(ImmutableSandboxedEnvironment):
        pass

    def judge() -> Environment:
        made = Counted()
        made.filters["seen"] = lambda text: rendered.append(text) or text
        return made

    def quick() -> Environment:
        made = Counted()
        made.filters["seen"] = lambda text: text
        return made

    template = ProvenTemplate("{% for m in messages %}{{ m.content | seen }}{% endfor %}", quick, judge)
    for number in range(5):
        template.render(values({"role": "user", "content": f"u{number}"}), 10)
        template.render(values({"role": "user", "content": f"v{number}"}, {"role": "tool", "content": "t"}), 10)
        template.render(values({"role": ["odd"], "content": None}), 10)
    assert rendered == ["u0", "v0", "t", None]


def test_refusals_are_compared_too() -> None:
    source = "{% if messages[0].name == 'Jo' %}{{ 1 / 0 }}{% endif %}fine"
    template = ProvenTemplate(source, environment, environment)
    with pytest.raises(ZeroDivisionError):
        template.render(values({"role": "user", "name": "Jo"}), 10)
    assert template.is_quick and template.render(values({"role": "user", "name": "Al"}), 10) == "fine"


def test_a_template_without_end_is_not_run_twice() -> None:
    source = "{% for a in range(9999) %}{% for b in range(9999) %}{% endfor %}{% endfor %}"
    template = ProvenTemplate(source, environment, lambda: pytest.fail("asked the judge"))
    with pytest.raises(DeadlineExceeded):
        template.render(values({"role": "user", "content": "a"}), 0.2)
    assert template.is_quick


def test_what_the_quick_one_can_not_compile_the_judge_renders() -> None:
    template = ProvenTemplate(SOURCE, lambda: environment(Broken), environment)
    assert not template.is_quick and template.render(values({"role": "user", "content": "a"}), 10) == "user: a"
    with pytest.raises(TemplateSyntaxError):
        ProvenTemplate("{% if %}", environment, environment)


def test_an_odd_role_refuses_nothing() -> None:
    conversation = Conversation([{"role": ["system"], "content": "a"}], None, None, {}, True, False)
    assert render("{{ messages[0].content }}", conversation, {}, RequestClock(None)) == "a"
    with pytest.raises(Unrenderable, match="does not compile"):
        render("{% if %}", conversation, {}, RequestClock(None))


def test_a_dropped_quick_form_is_told(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    from prefixscope.models import template

    monkeypatch.setattr(template, "_sandbox", lambda: environment(Broken))
    template._compiled.cache_clear()
    try:
        log = SAMPLES / "support-chat.jsonl"
        assert main(["analyze", str(log), "--models", str(SAMPLES / "models.toml"), "--limit", "5"]) == 0
        assert "jinja2 rendered these prompts" in " ".join(capsys.readouterr().out.split())
    finally:
        template._compiled.cache_clear()
