"""Words: every known reason has them, unknown ones degrade to something readable."""

from __future__ import annotations

import pytest

from prefixscope.report.text import shortened, visible
from prefixscope.report.warning_words import WARNING_WORDS
from prefixscope.report.warnings import facts_in_words, warning_in_words, warnings_in_words
from prefixscope.report.words import RUNG_WORDS, SKIP_WORDS, skip_in_words, skips_in_words, verdict_in_words
from prefixscope.results import RUNGS, Skip, Warned


@pytest.mark.parametrize("reason", sorted(WARNING_WORDS))
def test_a_warning_says_what_effect_and_advice(reason: str) -> None:
    words = WARNING_WORDS[reason]
    sentence = warning_in_words(Warned(reason, {"file": "log.jsonl", "line": 3}))
    assert sentence.startswith(words.what[0].upper())
    assert "(log.jsonl:3)" in sentence
    assert words.effect in sentence
    assert sentence.endswith(".")
    assert "_" not in words.what + words.effect + words.advice


def test_every_rung_has_words() -> None:
    assert set(RUNG_WORDS) == set(RUNGS)


@pytest.mark.parametrize("reason", sorted(SKIP_WORDS))
def test_skip_words_follow_a_number(reason: str) -> None:
    assert "_" not in skip_in_words(reason)
    assert skips_in_words((Skip("a", 1, reason, 1200),)) == f"1,200 {SKIP_WORDS[reason]}"


def test_unknown_reasons_are_readable() -> None:
    assert skip_in_words("new_kind_of_fault") == "new kind of fault"
    assert warning_in_words(Warned("new_kind", {"requests": 1, "field": "x"})) == "New kind (1 request, field x)."
    assert verdict_in_words("quite_new") == "quite new"


def test_unknown_reasons_with_a_message_keep_it() -> None:
    assert (
        warning_in_words(Warned("new_kind", {"message": "the clock stood still"}))
        == "New kind (the clock stood still)."
    )


def test_facts_of_every_type() -> None:
    facts = {"b": True, "n": 12345, "m": {"a_b": 1}, "l": [1, "x"], "none": None, "rows": 2}
    assert facts_in_words(facts) == "2 rows, b yes, n 12,345, m a b 1, l 1, x"


def test_different_messages_stay_apart() -> None:
    warnings = [Warned("unrenderable", {"message": text, "count": 2}) for text in ("one", "two", "one")]
    sentences = warnings_in_words(warnings)
    assert len(sentences) == 2
    assert "(4 times, one)" in sentences[0]
    assert "(2 times, two)" in sentences[1]


def test_many_reasons_for_skips_are_cut_but_add_up() -> None:
    skips = tuple(Skip("a", n, f"reason_{n}", n) for n in range(1, 8))
    assert skips_in_words(skips) == "7 reason 7, 6 reason 6, 5 reason 5, 4 reason 4, 6 for other reasons"


@pytest.mark.parametrize(
    "code", [*range(0x20), *range(0x7F, 0xA0), 0xAD, 0x200B, 0x2028, 0x202E, 0x2066, 0xD800, 0xE000]
)
def test_characters_that_act_become_visible(code: int) -> None:
    shown = visible(f"a{chr(code)}b")
    assert shown.isprintable()
    assert shown[0] == "a"
    assert shown[-1] == "b"
    assert len(shown) > 2
    shown.encode()


def test_plain_text_stays_as_it_is() -> None:
    for text in ("Grüße, 世界 🎉 [bold]", "", "a\\nb"):
        assert visible(text) == text


def test_shortened_never_exceeds_the_width() -> None:
    for width in range(12):
        assert len(shortened("0123456789abc", width)) <= width
