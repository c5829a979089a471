"""The environment written down here is that of transformers, and is only used where that was found."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from jinja2.ext import Extension
from jinja2.sandbox import ImmutableSandboxedEnvironment

from prefixscope.models import template_environment as own
from prefixscope.models.sandbox import remembering
from prefixscope.models.template_environment import equal_environments, own_environment, template_environment
from tests.models.conversations import CONVERSATIONS
from tests.models.fuzz import chat
from tests.real_tokenizers import or_skip, templates


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PREFIXSCOPE_CACHE", str(tmp_path))
    return tmp_path / "templates"


def chosen() -> ImmutableSandboxedEnvironment:
    template_environment.cache_clear()
    try:
        return template_environment()
    finally:
        template_environment.cache_clear()


def test_equal_to_the_installed_transformers() -> None:
    assert equal_environments(own_environment(), own._transformers_environment())


def test_ours_serves_after_it_was_proven(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert chosen().filters["tojson"] is not own._tojson
    assert [path.read_bytes() for path in cache.iterdir()] == [b"equal\n"]
    assert chosen().filters["tojson"] is own._tojson
    monkeypatch.setattr(own, "version", lambda name: "another")
    assert chosen().filters["tojson"] is not own._tojson
    monkeypatch.setenv("PREFIXSCOPE_CACHE", "off")
    assert chosen().filters["tojson"] is not own._tojson


def other_tojson(x: Any, **_: Any) -> str:
    return json.dumps(x)


class OtherTag(Extension):
    tags = {"more"}  # noqa: RUF012


CHANGES: dict[str, Any] = {
    "filter": lambda one: one.filters.update(tojson=other_tojson),
    "one filter more": lambda one: one.filters.update(more=str),
    "another filter": lambda one: one.filters.update(trim=str),
    "one test less": lambda one: one.tests.pop("odd"),
    "global": lambda one: one.globals.update(namespace=dict),
    "dict": lambda one: one.globals.update(dict=dict),
    "refusal": lambda one: one.globals.update(raise_exception=str),
    "clock": lambda one: one.globals.update(strftime_now=lambda *_: "now"),
    "setting": lambda one: setattr(one, "trim_blocks", False),
    "policy": lambda one: one.policies.update({"json.dumps_kwargs": {}}),
    "tag": lambda one: one.add_extension(OtherTag),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_of_transformers_is_seen(change: str, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = own_environment()  # a copy: the one of transformers is shared
    assert equal_environments(own_environment(), theirs)
    CHANGES[change](theirs)
    assert not equal_environments(own_environment(), theirs)
    monkeypatch.setattr(own, "_transformers_environment", lambda: theirs)
    assert chosen() is theirs and chosen() is theirs
    assert not cache.exists()


@pytest.mark.real_tokenizers
def test_every_template_renders_alike() -> None:
    ours, theirs, rendered = own_environment(), own._transformers_environment(), 0
    for source in or_skip(templates).values():
        try:
            one, other = ours.from_string(source), theirs.from_string(source)
        except Exception:
            continue
        for body in CONVERSATIONS.values():
            values = {"messages": body["messages"], "tools": body.get("tools"), "add_generation_prompt": True,
                      "bos_token": "<s>", "eos_token": "</s>", "strftime_now": lambda pattern: pattern}  # fmt: skip
            told = []
            for template in (one, other):
                try:
                    told.append(template.render(**values))
                except Exception as error:
                    told.append(f"{type(error).__name__} {error}".partition(" at 0x")[0])
            assert told[0].replace(own.__name__, "") == told[1].replace("transformers.utils.chat_template_utils", "")
            rendered += 1
    assert rendered > 900


@pytest.mark.real_tokenizers
def test_every_template_renders_fuzzed_chats_as_jinja2_does() -> None:
    """Text or error, from the sandbox that remembers and its own code, against the plain one of transformers."""
    theirs = own._transformers_environment()
    quick, rendered, refused = remembering(theirs), 0, 0
    for name, source in or_skip(templates).items():
        try:
            one, other = theirs.from_string(source), quick.from_string(source)
        except Exception:
            continue
        draw = random.Random(name)
        for number in range(25):
            body = chat(draw)
            if number % 5 == 4:  # what no server lets through
                role, content = draw.choice(["user", "odd", None]), draw.choice([None, 1, []])
                body["messages"][-1] = {"role": role, "content": content}
            values = {"messages": body["messages"], "tools": body.get("tools"),
                      "add_generation_prompt": number % 2 == 0, "bos_token": "<s>", "eos_token": "</s>",
                      "strftime_now": lambda pattern: pattern, **body.get("chat_template_kwargs", {})}  # fmt: skip
            before, told = repr(body), []
            for template in (one, other):
                try:
                    told.append(template.render(**values))
                except Exception as error:
                    told.append(f"{type(error).__name__} {error}".partition(" at 0x")[0])
                    refused += 1
            assert told[0] == told[1], name
            assert repr(body) == before, "messages are shared between requests: no template may change one"
            rendered += 1
    assert rendered > 1500 and refused < rendered
