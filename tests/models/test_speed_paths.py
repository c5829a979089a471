"""The ways that save work: a sandbox that remembers, late engines, segments, repeats; and what breaks their rules."""

from __future__ import annotations

import copy
import random
import threading
from types import SimpleNamespace
from typing import Any

import jinja2
import pytest
from tokenizers import AddedToken, Tokenizer, models, normalizers, pre_tokenizers
from transformers.utils.chat_template_utils import _compile_jinja_template

from prefixscope.models import encode
from prefixscope.models.encode import (
    ALWAYS_CHECKED,
    BUILD_AFTER_CHARACTERS,
    CheckedEncoder,
    EncoderDisagreement,
    LateEncoder,
    TokenizersEncoder,
    ids_to_bytes,
)
from prefixscope.models.repeats import PromptText, Repeats, canonical
from prefixscope.models.sandbox import remembering
from prefixscope.models.segments import SegmentEncoder, cut_tokens
from prefixscope.records import Conversation
from tests.models.prompts import as_loaded

# -- the sandbox ----------------------------------------------------------------------------------------------------

EXPRESSIONS = (
    "a.b", "a['b']", "a.missing is defined", "a.keys", "a.keys()|list", "a.items()|list", "a.get('b')", "a.pop('b')",
    "a.update({})", "a.__class__", "a['__class__']", "a._x", "s.upper()", "s.format(1)", "s.format",
    "'{0.__class__}'.format(a)", "'{b}'.format_map(a)", "s.__class__.mro()", "s|attr('upper')", "s|attr('__class__')",
    "n.real", "n.bit_length()", "n.__add__", "l.append(1)", "l.index(2)", "l.copy()", "l.clear", "l.0", "l[0]",
    "l['x']", "t.count(1)", "none_.x", "f.is_integer()", "undefined_.x", "undefined_.x.y", "s.startswith('h')",
    "s.split('l')", "s.join(l|map('string'))", "s.encode('utf-8')", "range(3)|list", "range(10**9)", "ns.x",
    "ns.__class__", "ns.keys", "cycler(1, 2).next()", "joiner.__init__", "s.startswith", "s.center(10, '*')",
    "s.removeprefix('he')", "dict(a).pop", "s.nope", "s[9]", "a|tojson", "l|tojson(indent=2)",
    "a|tojson(separators=[1])", "undefined_|tojson", "a.copy()", "a.fromkeys('ab')", "loop.x", "a.b.c.d", "self.x",
    "s.startswith(prefix='h')", "s.join(1)", "('x', 'y').index('y')", "a['missing']", "a['keys']", "a['missing'].x",
    "a.b['c']", "a['b'].c", "sub.x", "sub['x']", "sub.missing", "sub.keys", "text.upper()", "text.x",
    "text.startswith('h')",
    "undefined_.startswith('h')", "none_.strip()", "a.strip()", "a.startswith", "a.b.index(1)", "l.index(9)",
    "s.startswith(undefined_)", "s.startswith(none_)", "s.strip(s)", "s.replace('l', s.upper())",
    "s.split()[0].upper()",
    "s.index('zz')", "s.count(*['l'])", "s.count('l', 0, 3)", "loop.index", "loop.length", "loop.revindex0",
    "loop.first",
    "loop['index']", "loop.__class__", "loop.nope", "ns.nope", "ns._x", "ns.y.b", "ns['x']", "ns.get", "a is defined",
    "a.missing is undefined", "a.missing is none", "undefined_.x is defined", "a.holds is defined", "a.holds.x",
    "s is string", "text is string", "n is string", "a.b is mapping", "(loop, 1)[0].index", "dict(index=5).index",
    "(s if n else a).upper()", "(a.missing or s).strip()", "{'x': undefined_}.x is defined", "{'x': undefined_}['x']",
    "(namespace(y=a).y).b", "namespace(y=s.format).y(1)", "s.upper().lower().title().strip('o').split('l')",
)  # fmt: skip


class Sub(dict[str, Any]):
    """What is no plain dict: it answers for keys that it does not hold."""

    x = "of the class"

    def __missing__(self, key: str) -> str:
        return f"made up for {key}"


class Text(str):
    """What is no plain str."""

    x = "of the class"

    def startswith(self, *_: Any) -> bool:  # type: ignore[override]
        return True


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_every_access_has_the_answer_of_jinja2(expression: str) -> None:
    source = (
        "{%- set ns = namespace(x=1, f=s.format, y=a) -%}{% for i in [1, 2] %}{{ loop.index0 }}{{ loop.last }}"
        "{{ loop.previtem }}{{ loop.nextitem }}{{ loop.changed(i) }}{{ loop.cycle('a', 'b') }}{{ ns.f(i) }}"
        "{{ " + expression + " }}{% endfor %}"
    )
    values = {"a": {"b": {"c": 1}, "keys_": 2, "holds": jinja2.Undefined(name="held")}, "s": "hello", "n": 5,
              "l": [2, 3], "t": (1, 1), "f": 1.0, "none_": None, "sub": Sub(x=1), "text": Text("hello")}  # fmt: skip
    plain = _compile_jinja_template("").environment
    assert outcome(plain, source, values) == outcome(remembering(plain), source, values)


def outcome(environment: jinja2.Environment, source: str, values: dict[str, Any]) -> list[str]:
    """The text, or the error, twice: the second time from what is remembered."""
    told = []
    template = environment.from_string(source)
    for _ in range(2):
        try:
            text = template.render(**values)
        except Exception as error:
            text = f"{type(error).__name__}: {error}"
        told.append(text.partition(" at 0x")[0])
    return told


ODD = (
    "{% macro m(x, y='d') %}{{ x.b.c }}{{ y.upper() }}{{ x.missing is defined }}{{ x['b'] }}{% endmacro %}{{ m(a) }}",
    "{% macro m(loop) %}{{ loop.index }}{{ loop.first }}{% endmacro %}{{ m({'index': 9}) }}{{ m(s) }}{{ m(a.index) }}",
    "{% set loop = {'index': 9} %}{{ loop.index }}{{ loop.b }}{% for i in [1] %}{{ loop.index }}{% endfor %}",
    "{% for x in [a, sub] if x.b is defined and x.b.c == 1 %}{{ x.b }}{{ loop.last }}{% endfor %}",
    "{% for x in [[1, [2]]] recursive %}{{ loop.depth }}{{ loop.depth0 }}{{ loop(x) if x is iterable else x }}"
    "{% endfor %}",
    "{% block b %}{{ a.b.c }}{{ s.strip('h') }}{{ a.missing is none }}{% endblock %}{{ self.b() }}",
    "{% call(v) x() %}{{ v }}{% endcall %}",
    "{% macro w() %}{{ caller(a).strip() }}{% endmacro %}{% call(v) w() %} {{ v.b.c }} {% endcall %}",
    "{% set x %}{{ a.b }}{% endset %}{{ x.strip() }}{{ x|upper }}",
    "{% filter upper %}{{ s.strip('o') }}{{ a.missing }}{% endfilter %}",
    "{% generation %}{{ a.b.c }}{{ s.split('l')[0] }}{% endgeneration %}",
    "{{ a.missing.x }}", "{{ undefined_.strip() }}", "{{ s.index('zz') }}", "{{ s.startswith(1) }}",
    "{{ a.b.c.strip() }}",
    "{{ namespace(_x=1) }}", "{{ namespace(a, y=1).y }}", "{% set n = namespace %}{{ n(x=1).x }}{{ n({'z': 2}).z }}",
    "{{ namespace(self=a).self }}", "{{ namespace(_block_vars=1) }}", "{{ namespace() == namespace() }}",
    "{{ raise_exception(a.b) }}", "{{ s.missing() }}", "{{ [a, s]|map(attribute='b')|list }}",
    "{{ 'abc'.upper() }}{{ 'a-b'.split('-') }}{{ {'k': 1}.k }}{{ {'k': 1}['k'] }}",
    "{% set ns = namespace() %}{% set ns.x = a %}{{ ns.x.b }}{% set ns.x = s %}{{ ns.x.strip('h') }}{{ ns.x.b }}",
    "{% if a.b is defined and a['b'] is not none and a.b.c is not string %}{{ 1 }}{% endif %}",
)  # fmt: skip


@pytest.mark.parametrize("source", ODD)
def test_every_place_of_an_access_has_the_answer_of_jinja2(source: str) -> None:
    """In macros, blocks, calls, filters of loops, and under the name `loop` where it is no loop."""
    values = {"a": {"b": {"c": 1}}, "s": "hello", "sub": Sub(x=1), "x": lambda: 1}
    plain = _compile_jinja_template("").environment
    assert outcome(plain, source, values) == outcome(remembering(plain), source, values)


def test_nested_calls_do_not_make_the_code_grow_beyond_measure() -> None:
    nested = "s"
    for _ in range(18):
        nested = f"s.replace('l', {nested}.strip('h'))"
    plain = _compile_jinja_template("").environment
    quick = remembering(plain)
    code = quick.compile(f"{{{{ {nested} }}}}", raw=True)
    assert len(code) < 20 * len(plain.compile(f"{{{{ {nested} }}}}", raw=True))
    assert outcome(plain, f"{{{{ {nested} }}}}", {"s": "hel"}) == outcome(quick, f"{{{{ {nested} }}}}", {"s": "hel"})


def test_json_is_remembered_by_type_and_order() -> None:
    plain = _compile_jinja_template("").environment
    source = "{{ x|tojson }} {{ x|tojson(indent=1) }} {{ x|tojson(true, none, [', ', '='], true) }}"
    one, other = plain.from_string(source), remembering(plain).from_string(source)
    values: list[Any] = [1, True, 1.0, [1], [True], {"a": 1, "b": 2}, {"b": 2, "a": 1}, {"a": 1.0, "b": 2}, "1", None]
    for value in (*values, *reversed(values)):
        assert one.render(x=value) == other.render(x=value)
    assert len(other.environment.filters["tojson"]._known) == 3 * len(values)
    assert type(plain.filters["tojson"]).__name__ == "function"


def test_another_sandbox_is_refused() -> None:
    with pytest.raises(AssertionError, match="other rules"):
        remembering(jinja2.Environment())


# -- engines that come late -----------------------------------------------------------------------------------------


class Bytes:
    """One id per UTF-8 byte, wrong for texts that hold `wrong_at`."""

    def __init__(self, name: str, wrong_at: str = "") -> None:
        self.name, self.wrong_at, self.calls = name, wrong_at, 0

    def encode(self, text: str, add_special_tokens: bool) -> bytes:
        self.calls += 1
        ids = [*([1] if add_special_tokens else []), *text.encode()]
        return ids_to_bytes(ids[:-1] if self.wrong_at and self.wrong_at in text else ids)


def right(text: str) -> bytes:
    return ids_to_bytes(list(text.encode()))


def test_a_small_log_never_builds() -> None:
    late = LateEncoder(Bytes("judge"), lambda: pytest.fail("built"))
    for number in range(200):
        assert late.encode(f"{number}", False) == right(f"{number}")
    assert late.name == "judge" and not late.waiting


def test_the_judge_serves_until_the_engine_is_there_and_which_texts_it_encodes_is_no_matter_of_time() -> None:
    long = "x" * (BUILD_AFTER_CHARACTERS // 8)
    for slow in (False, True):
        judge, fast, ready = Bytes("judge"), Bytes("fast"), threading.Event()

        def build(fast: Bytes = fast, ready: threading.Event = ready) -> Bytes:
            ready.wait()
            return fast

        if not slow:
            ready.set()
        late = LateEncoder(judge, build)
        for number in range(ALWAYS_CHECKED):
            assert not late.waiting
            assert late.encode(long + str(number), False) == right(long + str(number))
        assert (late.name, judge.calls) == ("judge", ALWAYS_CHECKED)
        if slow:
            assert late.waiting
            ready.set()
        assert late.encode("next", False) == right("next")
        assert late.name == "fast" and fast.calls == ALWAYS_CHECKED + 1


def test_who_only_decodes_builds_nothing_and_no_process_ends_while_something_is_built() -> None:
    """Foreign code that runs in a daemon while the interpreter ends aborts the process."""
    ready = threading.Event()

    def build() -> Bytes:
        ready.wait()
        return Bytes("fast")

    before = set(threading.enumerate())
    late = LateEncoder(Bytes("judge"), build, ahead=True)
    assert set(threading.enumerate()) == before and not late.waiting
    late.encode("a", False)
    (thread,) = set(threading.enumerate()) - before
    assert not thread.daemon
    ready.set()
    thread.join()


def test_an_engine_that_can_not_be_built_is_done_without() -> None:
    def build() -> Bytes:
        raise RuntimeError("no such model")

    late = LateEncoder(Bytes("judge"), build)
    texts = ["x" * BUILD_AFTER_CHARACTERS, *map(str, range(100))]
    assert [late.encode(text, False) for text in texts] == [right(text) for text in texts]
    assert late.name == "judge"


def test_an_engine_wrong_on_the_first_texts_is_dropped_before_it_serves() -> None:
    late = LateEncoder(Bytes("judge"), lambda: Bytes("fast", wrong_at="17"))
    texts = ["x" * BUILD_AFTER_CHARACTERS, *map(str, range(200))]
    assert [late.encode(text, False) for text in texts] == [right(text) for text in texts]
    assert late.disagreed and late.name == "judge (fast gave other ids and was dropped)"


def test_an_engine_wrong_later_asks_to_start_over() -> None:
    late = LateEncoder(Bytes("judge"), lambda: Bytes("fast", wrong_at="bad"))
    late.encode("x" * BUILD_AFTER_CHARACTERS, False)
    with pytest.raises(EncoderDisagreement):
        for number in range(20_000):
            late.encode(f"{'bad' if number > 100 else ''} {number}", False)
    assert late.disagreed


# -- segments -------------------------------------------------------------------------------------------------------


def small_tokenizer(**changes: Any) -> Tokenizer:
    """A tokenizer of single characters whose pieces depend on where a piece begins (Metaspace)."""
    letters = {character: number for number, character in enumerate("▁abcdefghijklmnopqrstuvwxyz<>/|. \n", start=10)}
    tokenizer = Tokenizer(models.BPE(vocab={"<unk>": 0, **letters}, merges=[], unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first")
    if changes.get("lowercase"):
        tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.add_special_tokens([AddedToken("<s>", special=True), AddedToken("<|end|>", special=True)])
    return tokenizer


def test_segments_equal_the_whole_and_are_encoded_once() -> None:
    backend = small_tokenizer()
    segments, judge = SegmentEncoder(backend, backend.to_str()), TokenizersEncoder(as_loaded(backend))
    assert set(segments._cuts) == {"<s>", "<|end|>"}
    text = "<s>hello there<|end|> <s> hello there<|end|><s>hello there"
    assert segments.encode(text, False) == judge.encode(text, False)
    spent = segments.encoded_characters
    assert segments.encode(text, False) == judge.encode(text, False)
    assert segments.encoded_characters == spent
    assert segments.encode("hello <s>", False) == judge.encode("hello <s>", False)
    assert segments.encode("", False) == b""


def test_a_memo_without_room_still_answers() -> None:
    backend = small_tokenizer()
    segments, judge = SegmentEncoder(backend, backend.to_str(), memory=30), TokenizersEncoder(as_loaded(backend))
    draw = random.Random(3)
    for _ in range(50):
        text = "<s>".join("".join(draw.choices("abc ", k=20)) for _ in range(4))
        assert segments.encode(text, False) == judge.encode(text, False)
        assert len(segments._known) <= 2


def added(content: str, number: int, **flags: bool) -> dict[str, Any]:
    usual = {"lstrip": False, "rstrip": False, "single_word": False, "normalized": False, "special": True}
    return {"content": content, "id": number, **usual, **flags}


@pytest.mark.parametrize(
    "token",
    [added("<x>", 1, lstrip=True), added("<x>", 1, rstrip=True), added("<x>", 1, single_word=True),
     added("<x>", 1, special=False), added("<x>", 1, normalized=True), added("xx", 1), added("<a><a>", 1)],
)  # fmt: skip
def test_what_breaks_the_rule_is_no_cut(token: dict[str, Any]) -> None:
    """Blanks are swallowed, words looked at, text normalised first, or the token can overlap itself."""
    assert cut_tokens({"added_tokens": [token], "normalizer": {"type": "Lowercase"}}) == {}


def test_a_tokenizer_made_to_break_the_rule_is_caught_by_its_judge() -> None:
    """The serialised form promises a token that stands for itself, and the backend does something else."""
    backend = small_tokenizer()

    class Lying:
        """Whose ids depend on how long the whole text is."""

        def encode(self, text: str, add_special_tokens: bool) -> Any:
            ids = backend.encode(text, add_special_tokens=add_special_tokens).ids
            return SimpleNamespace(ids=[*ids, len(text) % 7])

        def encode_batch_fast(self, texts: list[str], add_special_tokens: bool) -> list[Any]:
            return [self.encode(text, add_special_tokens) for text in texts]

    lying = Lying()
    judge = TokenizersEncoder(as_loaded(lying, ""))
    checked = CheckedEncoder(SegmentEncoder(lying, backend.to_str()), judge)
    text = "<s>hello<|end|>there"
    assert checked.encode(text, False) == judge.encode(text, False)
    assert checked.disagreed and checked.name.startswith("tokenizers (tokenizers with a segment memo gave other ids")


# -- repeats --------------------------------------------------------------------------------------------------------


def test_types_order_and_settings_are_told_apart() -> None:
    values: list[Any] = [
        "1",
        1,
        True,
        1.0,
        None,
        [1],
        [True],
        {"a": 1, "b": 2},
        {"b": 2, "a": 1},
        float("nan"),
        "\ud800",
    ]
    given = [Conversation(({"role": "user", "content": value},)) for value in values]
    one = Conversation(({"role": "user", "content": "x"},))
    given += [one, Conversation(one.messages, tools=()), Conversation(one.messages, options={"a": 1}),
              Conversation(one.messages, add_generation_prompt=False), Conversation(one.messages, documents=()),
              Conversation(({"content": "x", "role": "user"},))]  # fmt: skip
    assert len({canonical(conversation) for conversation in given}) == len(given)
    repeats = Repeats()
    for number, conversation in enumerate(given):
        assert repeats.get(conversation, "a") is None
        repeats.put(conversation, PromptText(str(number)), "a")
        assert repeats.get(conversation, "b") is None
    for number, conversation in enumerate(given):
        again = repeats.get(copy.deepcopy(conversation), "a")
        assert again is not None and again.text == str(number)


def test_equal_values_are_equal_whichever_objects_they_share() -> None:
    shared = {"x": "long text"}
    assert canonical(Conversation((shared, shared))) == canonical(Conversation((shared, dict(shared))))
    odd = Conversation(({"role": object()},))
    assert canonical(odd) is None
    repeats = Repeats()
    repeats.put(odd, PromptText("x"))
    assert repeats.get(odd) is None


def test_repeats_stay_in_their_room() -> None:
    repeats = Repeats(room=100)
    for number in range(50):
        repeats.put(str(number), PromptText("x" * 30))
    assert [number for number in range(50) if repeats.get(str(number))] == [47, 48, 49]
    assert repeats.found == 3


def test_the_limits_are_what_the_documentation_says() -> None:
    assert (ALWAYS_CHECKED, encode.CHECKED_ONE_IN) == (64, 2048)


# -- another spelling -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("before", ["", "hello there ", " "])
def test_a_respelled_tokenizer_gives_the_same_ids(before: str) -> None:
    words = [*(f"<0x{byte:02X}>" for byte in range(256)), *"▁abcdefghijklmnopqrstuvwxyz", "▁a", "he", "ab", "▁ab", "▁▁"]
    vocabulary = {word: number for number, word in enumerate(words)}
    merges = [("▁", "a"), ("h", "e"), ("a", "b"), ("▁", "ab"), ("▁", "▁")]
    backend = Tokenizer(models.BPE(vocab=vocabulary, merges=merges, byte_fallback=True, fuse_unk=True))
    backend.add_special_tokens([AddedToken("<s>", special=True), AddedToken("<|end|>", special=True)])
    backend.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    fast = encode._fast_engine(as_loaded(backend))
    assert fast.name == "fastokens (blanks spelled out)"
    judge = TokenizersEncoder(as_loaded(backend))
    draw = random.Random(4)
    for _ in range(200):
        text = before + "".join(draw.choices(("<s>", "<|end|>", " ", "abc", "hello", "\n", "▁"), k=12))
        for special in (False, True):
            assert fast.encode(text, special) == judge.encode(text, special), repr(text)


@pytest.mark.parametrize(("scheme", "split"), [("always", False), ("first", True)])
def test_what_can_not_be_respelled_has_a_memory(scheme: str, split: bool) -> None:
    backend = small_tokenizer()
    backend.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme=scheme, split=split)
    fast, judge = encode._fast_engine(as_loaded(backend)), TokenizersEncoder(as_loaded(backend))
    assert fast.name == "tokenizers with a segment memo"
    text = "<s>hello there<|end|> <s> hello there"
    assert fast.encode(text, False) == judge.encode(text, False)
