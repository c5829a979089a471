"""The jinja2 environment that chat templates run in: transformers' own, or one that was proven to be the same.

Importing transformers takes longer than many a log. So the environment is also written down here, and the first run
with these versions of transformers and jinja2 compares the two: every setting, filter, test, global and extension by
name, and by what a page of probes renders. Only where they are equal, and the user has a cache folder to note it in,
do later runs without transformers use this one; else it is transformers' environment, always.
"""

from __future__ import annotations

import json
from datetime import datetime
from functools import lru_cache
from importlib.metadata import version
from typing import Any

import xxhash
from jinja2 import TemplateError, nodes
from jinja2.exceptions import SecurityError, UndefinedError
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace

from prefixscope.models.quietly import quiet_transformers
from prefixscope.user_cache import keep, kept

__all__ = ["equal_environments", "own_environment", "template_environment"]

_ROOM = "templates"
_FORMAT = "1"
_PROBES = (
    "{{ x|tojson }}{{ x|tojson(true) }}{{ x|tojson(false, 2) }}{{ x|tojson(indent=1, sort_keys=true) }}",
    "{{ x|tojson(separators=[',', ':']) }}{{ 'caf\u00e9 <&> \u4f60'|tojson }}{{ none|tojson }}{{ u|tojson }}",
    "{{ x|tojson(unknown=1) }}",
    "{{ raise_exception('told ' ~ x.a) }}",
    "{{ raise_exception() }}",
    "{{ strftime_now('%%') }}",
    "{{ strftime_now() }}",
    "{{ dict(a=1, b=x) }}{{ dict([('a', 2)], c=3) }}{{ dict.fromkeys('ab', 1) }}{{ dict(x).a }}",
    "{{ dict.update(x) }}",
    "{{ dict.__class__ }}",
    "{{ dict is mapping }}{{ dict is callable }}{{ namespace is callable }}{{ namespace is mapping }}",
    "{% set n = namespace(self=1, b=2) %}{% set n.b = n.self + 1 %}{% set n.c = x %}{{ n.b }}{{ n.c.a }}{{ n.d }}",
    "{% set n = namespace(x) %}{{ n.a }}{% set n.a = 4 %}{{ x.a }}",
    "{% set n = namespace(_x=1) %}",
    "{% set n = namespace(x) %}{% set n._y = 1 %}",
    "{% set n = namespace(x) %}{% set n.__class__ = 1 %}",
    "{{ namespace(x) }}",
    "{% for i in [1, 2, 3] %}{% if i == 2 %}{% continue %}{% endif %}{{ i }}{% if i == 3 %}{% break %}{% endif %}"
    "{% endfor %}",
    "a\n  {% generation %}b\n{{ x.a }}{% endgeneration %}\n  {# c #}\n  {%- if x %}\n d \n{% endif -%}\n e\n",
    "{% generation %}{% set y = 1 %}{{ y }}{% generation %}{{ x }}{% endgeneration %}{% endgeneration %}",
    "{% generation %}",
    "{{ u }}{{ u.v }}",
    "{{ x.__class__ }}{{ x['__class__'] }}{{ ''.__class__.__mro__ }}",
    "{{ x.update(a=2) }}",
    "{{ '%s' % x }}{{ '{}'.format(x.a) }}{{ '{0.__class__}'.format(x) }}",
    "{{ '<b>'|e }}{{ '<b>'|safe }}{{ lipsum }}{{ cycler(1).next() }}{{ joiner()() }}{{ range(3)|list }}",
    "{% macro m(a, b=1) %}{{ a }}{{ b }}{{ varargs }}{{ kwargs }}{{ caller is defined }}{% endmacro %}{{ m(1, 2) }}",
    "{% import 'x' as y %}",
)
_SETTINGS = (
    "block_start_string", "block_end_string", "variable_start_string", "variable_end_string", "comment_start_string",
    "comment_end_string", "line_statement_prefix", "line_comment_prefix", "trim_blocks", "lstrip_blocks",
    "newline_sequence", "keep_trailing_newline", "undefined", "optimized", "finalize", "autoescape", "is_async",
    "sandboxed", "overlayed", "code_generator_class", "context_class", "template_class", "policies",
    "intercepted_binops", "intercepted_unops", "binop_table", "unop_table", "loader", "bytecode_cache",
)  # fmt: skip


class _Generation(Extension):
    """`{% generation %}`: marks what a model said, for training. Rendering leaves no trace of it."""

    tags = {"generation"}  # noqa: RUF012 - jinja2's own way to name the tags of an extension

    def parse(self, parser: Parser) -> nodes.Node:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.CallBlock(self.call_method("_said"), [], [], body).set_lineno(line)

    def _said(self, caller: Any) -> str:
        return str(caller())


class _Dict:
    """`dict` without the attributes of the type."""

    def __call__(self, *args: Any, **kwargs: Any) -> dict[Any, Any]:
        return dict(*args, **kwargs)

    def fromkeys(self, *args: Any, **kwargs: Any) -> dict[Any, Any]:
        return dict.fromkeys(*args, **kwargs)


class _Namespace(Namespace):
    """A namespace whose names don't begin with an underscore."""

    def __init__(*args: Any, **kwargs: Any) -> None:  # no name of its own, so that `self` can be one of the names
        own, *rest = args
        names = dict(*rest, **kwargs)
        for name in names:
            _check(name)
        Namespace.__init__(own, names)

    def __setitem__(self, name: str, value: Any) -> None:
        _check(name)
        super().__setitem__(name, value)


def _check(name: Any) -> None:
    if isinstance(name, str) and name.startswith("_"):
        raise SecurityError(
            f"Chat templates cannot store underscore-prefixed attributes on a namespace, but got {name!r}. "
            "Please rename the attribute."
        )


def _raise(message: str) -> None:
    raise TemplateError(message)


def _tojson(
    x: Any, ensure_ascii: bool = False, indent: Any = None, separators: Any = None, sort_keys: bool = False
) -> str:
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def _now(format: str) -> str:
    return datetime.now().strftime(format)


def own_environment() -> ImmutableSandboxedEnvironment:
    """The environment as of transformers 5.24, without transformers."""
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, loopcontrols]
    )
    environment.filters["tojson"] = _tojson
    environment.globals.update(raise_exception=_raise, strftime_now=_now, dict=_Dict(), namespace=_Namespace)
    return environment


@lru_cache(maxsize=1)
def template_environment() -> ImmutableSandboxedEnvironment:
    """The environment of every chat template of this process."""
    name = _proof_name()
    if kept(_ROOM, name) is not None:
        return own_environment()
    theirs = _transformers_environment()
    if equal_environments(own_environment(), theirs):
        keep(_ROOM, name, b"equal\n")
    return theirs


def _transformers_environment() -> ImmutableSandboxedEnvironment:
    quiet_transformers()
    from transformers.utils.chat_template_utils import _compile_jinja_template

    environment = _compile_jinja_template("").environment
    assert isinstance(environment, ImmutableSandboxedEnvironment)
    return environment


def _proof_name() -> str:
    """The versions that were compared, and this file: another one has to be compared again."""
    parts = [_FORMAT, version("transformers"), version("jinja2")]
    with open(__file__, "rb") as source:
        parts.append(xxhash.xxh3_128_hexdigest(source.read()))
    return "-".join(parts)


def equal_environments(one: ImmutableSandboxedEnvironment, other: ImmutableSandboxedEnvironment) -> bool:
    """Whether two environments render every template alike: settings and names are compared, and the probes."""
    return (
        type(one) is type(other)
        and all(getattr(one, name) == getattr(other, name) for name in _SETTINGS)
        and all(_same_names(getattr(one, room), getattr(other, room)) for room in ("filters", "tests", "globals"))
        and sorted(_tags(one)) == sorted(_tags(other))
        and all(_rendered(one, probe) == _rendered(other, probe) for probe in _PROBES)
    )


def _same_names(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """The same names, and the same things under all that transformers does not replace (those have probes)."""
    replaced = {"tojson", "raise_exception", "strftime_now", "dict", "namespace"}
    return one.keys() == other.keys() and all(one[name] is other[name] or name in replaced for name in one)


def _tags(environment: ImmutableSandboxedEnvironment) -> list[str]:
    return [tag for extension in environment.extensions.values() for tag in extension.tags]


def _rendered(environment: ImmutableSandboxedEnvironment, probe: str) -> str:
    values = {"x": {"a": 1, "b": ["\u00e4", None, True, 1.5, {"c": "<'\">"}]}}
    try:
        text = environment.from_string(probe).render(values)
    except Exception as error:  # refusing is an answer, too; what Python itself says holds names of functions
        told = isinstance(error, TemplateError) and not isinstance(error, UndefinedError)
        text = f"{type(error).__name__}: {error if told else ''}"
    return text.partition(" at 0x")[0]
