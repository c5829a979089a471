"""The sandbox that chat templates run in, with its verdicts remembered.

jinja2's sandbox asks for every attribute anew whether it is safe, which is most of the time of rendering a chat. For
plain data the answer depends on nothing but type and name, so it is asked once, and the compiled template does not ask
for the usual cases at all (template_code.py). Nothing else is different: the filters, tests, globals and extensions are
those of the environment given, and whatever is not plain data takes jinja2's own way.
"""

from __future__ import annotations

import marshal
from collections.abc import Callable
from types import BuiltinMethodType, NoneType
from typing import Any, cast

from jinja2 import Environment
from jinja2.runtime import Context, LoopContext
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace

from prefixscope.models.template_code import OF_DICT, DirectCode

__all__ = ["RememberingSandbox", "remembering"]

_PLAIN = frozenset({dict, list, tuple, str, int, float, bool, NoneType})
_OF_NAMESPACE: Any = Namespace.__getattribute__
_FORMATTING = ("format", "format_map")
"""Methods of str that the sandbox replaces by its own."""


class RememberingSandbox(ImmutableSandboxedEnvironment):
    """ImmutableSandboxedEnvironment with the same answers, found faster. Made by `remembering` only."""

    code_generator_class = DirectCode
    _safe: dict[tuple[type, str], bool]
    _namespaces: frozenset[type] = frozenset()

    def getattr(self, obj: Any, attribute: str) -> Any:
        kind = type(obj)
        if kind is dict and attribute not in OF_DICT:
            # no attribute of a dict has this name, so jinja2 would go on to the key
            return obj[attribute] if attribute in obj else self.undefined(obj=obj, name=attribute)
        if kind in self._namespaces:
            names = object.__getattribute__(obj, "_Namespace__attrs")
            if attribute in names and attribute[:1] != "_":
                value = names[attribute]
                return value if type(value) in _PLAIN else self.wrap_str_format(value) or value
        safe = self._safe.get((kind, attribute))
        if safe is None:
            safe = self._safe[kind, attribute] = self._always_safe(obj, kind, attribute)
        if safe:
            try:
                value = getattr(obj, attribute)
            except AttributeError:
                return super().getattr(obj, attribute)
            if kind in _PLAIN or type(value) in _PLAIN:
                return value
            return self.wrap_str_format(value) or value
        return super().getattr(obj, attribute)

    def _always_safe(self, obj: Any, kind: type, attribute: str) -> bool:
        """Whether the sandbox allows this attribute on every object of this type: its rules look at nothing else."""
        if kind in _PLAIN:
            return hasattr(kind, attribute) and attribute not in _FORMATTING and self._allows(obj, attribute)
        return (kind is LoopContext or issubclass(kind, Namespace)) and self._allows(obj, attribute)

    def _allows(self, obj: Any, attribute: str) -> bool:
        return bool(self.is_safe_attribute(obj, attribute, None))

    def call(__self, __context: Context, __obj: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N805
        # a method of a string is neither marked as unsafe nor wants the context: it can carry no marks at all
        if type(__obj) is BuiltinMethodType and type(__obj.__self__) is str:
            kwargs.pop("_block_vars", None)
            kwargs.pop("_loop_vars", None)
            return __obj(*args, **kwargs)
        # nor is the class of namespaces, which was looked at when it was taken up
        if type(__obj) is type and __obj in __self._namespaces and not args:
            kwargs.pop("_block_vars", None)
            kwargs.pop("_loop_vars", None)
            return __obj(**kwargs)
        return super().call(__context, __obj, *args, **kwargs)


class _RememberedJson:
    """A tojson filter that writes equal values once: agents send the same tools with every request."""

    ROOM = 4 << 20

    def __init__(self, tojson: Callable[..., str]) -> None:
        self._tojson = tojson
        self._known: dict[bytes, str] = {}
        self._room = self.ROOM

    def __call__(self, value: Any, *args: Any, **kwargs: Any) -> str:
        try:
            # bytes that depend on the types, values and order inside and on nothing else
            key = marshal.dumps((value, args, kwargs), 2)
        except ValueError:  # not plain data
            return self._tojson(value, *args, **kwargs)
        known = self._known.get(key)
        if known is None:
            known = self._tojson(value, *args, **kwargs)
            self._room -= len(known)
            if self._room < 0:
                self._known.clear()
                self._room = self.ROOM
            self._known[key] = known
        return known


def remembering(environment: Environment) -> RememberingSandbox:
    """A copy of an environment whose class is exactly jinja2's ImmutableSandboxedEnvironment.

    >>> from jinja2.sandbox import ImmutableSandboxedEnvironment
    >>> quick = remembering(ImmutableSandboxedEnvironment(trim_blocks=True))
    >>> quick.from_string("{{ a.b }}{{ a.keys()|list }}{{ a.__class__ }}").render(a={"b": 1})
    "1['b']"
    """
    assert type(environment) is ImmutableSandboxedEnvironment, "another sandbox has other rules"
    copy = environment.overlay()
    copy.__class__ = RememberingSandbox
    quick = cast(RememberingSandbox, copy)
    quick._safe = {}
    namespace: Any = environment.globals["namespace"]
    if type(namespace) is type and getattr(namespace, "__getattribute__", None) is _OF_NAMESPACE:
        marks = ("unsafe_callable", "alters_data", "jinja_pass_arg")
        if not any(hasattr(namespace, mark) for mark in marks):
            quick._namespaces = frozenset({namespace})
    tojson = environment.filters["tojson"]
    if not hasattr(tojson, "jinja_pass_arg"):  # jinja2's own is also given its surroundings
        quick.filters = {**environment.filters, "tojson": _RememberedJson(tojson)}
    return quick
