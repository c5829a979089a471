"""What separates and what does not."""

from __future__ import annotations

from typing import Any

import pytest

from prefixscope.errors import OptionError
from prefixscope.models.identity import IdentityRules, identity_of, keyed_hash, new_salt_key
from prefixscope.models.table import ModelEntry
from tests.models.prompts import RULES, logged

BODY = {"prompt_token_ids": [1, 2]}


def namespace(body: dict[str, Any], entry: ModelEntry | None = None, rules: IdentityRules = RULES, **known: Any) -> Any:
    return identity_of(logged({**BODY, **body}, **known), entry, rules).namespace


def test_without_an_entry_the_logged_name_is_the_base() -> None:
    assert identity_of(logged(BODY, model="x"), None, RULES).base_model == "x"
    assert identity_of(logged(BODY), None, RULES).base_model == ""


@pytest.mark.parametrize(
    "change",
    [{"cache_salt": "a"}, {"cache_salt": "b"}, {"extra_key": "a"}, {"lora_path": "a"}, {"extra_key": ["a", "b"]}],
)
def test_each_separates_from_nothing_and_equals_itself(change: dict[str, Any]) -> None:
    assert namespace(change) == namespace(change) != namespace({})


def test_salt_and_extra_key_are_different_things() -> None:
    assert namespace({"cache_salt": "a"}) != namespace({"extra_key": "a"})


def test_secrets_leave_only_as_keyed_hashes() -> None:
    shown = repr(identity_of(logged({**BODY, "cache_salt": "swordfish", "extra_key": "tuna"}), None, RULES))
    assert "swordfish" not in shown and "tuna" not in shown
    key = new_salt_key()
    assert keyed_hash("swordfish", key) == keyed_hash("swordfish", key) != keyed_hash("swordfish", new_salt_key())


def test_adapters_of_entry_and_log() -> None:
    entry = ModelEntry("a", "base", adapter="a@2")

    def adapter(logged_adapter: str | None) -> str | None:
        return identity_of(logged(BODY, adapter=logged_adapter), entry, RULES).adapter

    assert [adapter(None), adapter("a"), adapter("a@2"), adapter("b")] == ["a@2", "a@2", "a@2", "a@2+b"]
    assert identity_of(logged(BODY, adapter="b"), None, RULES).adapter == "b"


def test_positions_separate_whatever_the_key_order() -> None:
    first = ModelEntry("a", "base", position={"rope_theta": 1, "factor": 2})
    second = ModelEntry("a", "base", position={"factor": 2, "rope_theta": 1})
    assert namespace({}, first) == namespace({}, second) != namespace({}, ModelEntry("a", "base"))


def test_a_field_of_body_or_record() -> None:
    by_user = IdentityRules(b"k", "metadata.user.name")
    one = {"metadata": {"user": {"name": "Ada"}}}
    assert namespace(one, rules=by_user)[-1] == "metadata.user.name=Ada"
    assert namespace({"metadata": 3}, rules=by_user)[-1] == "metadata.user.name="
    assert namespace({}, rules=IdentityRules(b"k", "tenant"), tenant="t1")[-1] == "tenant=t1"
    with pytest.raises(OptionError, match="--namespace-by"):
        IdentityRules(b"k", "a..b")


def test_hash_rows_are_an_alphabet_of_their_own() -> None:
    hashed = logged({"hash_ids": [1], "input_length": 512}, unit=512)
    scoped = logged({"hash_ids": [1], "input_length": 512}, unit=512, hash_scope="s1")
    assert identity_of(hashed, None, RULES).extra == ("unit=512",)
    assert identity_of(scoped, None, RULES).extra == ("unit=512", "scope=s1")
    assert identity_of(hashed, None, RULES).namespace != identity_of(logged(BODY), None, RULES).namespace
