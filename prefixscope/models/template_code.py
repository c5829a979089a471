"""The Python that a chat template is compiled to, with the usual case of an access written out.

jinja2's sandbox is asked by a method call for every key of a message, every method of a text and every place in a loop,
which is most of the time of rendering a chat. Where the value at hand is exactly a dict, a str or jinja2's own loop,
its answer is known beforehand (see sandbox.py), so the compiled template takes it by itself. The sandbox is asked for
every other value, and for everything that could be anything else.
"""

from __future__ import annotations

from typing import Any

from jinja2 import nodes
from jinja2.compiler import CodeGenerator, Frame, optimizeconst
from jinja2.tests import TESTS

__all__ = ["OF_DICT", "DirectCode"]

OF_DICT = frozenset(dir(dict))
"""These names are attributes of every dict, and its keys come second."""

_TEXT_METHODS = frozenset({
    "startswith", "endswith", "strip", "lstrip", "rstrip", "split", "rsplit", "splitlines", "partition", "rpartition",
    "replace", "find", "rfind", "index", "count", "removeprefix", "removesuffix", "upper", "lower", "title",
    "capitalize", "isdigit", "isspace", "isalpha", "isalnum", "isupper", "islower",
})  # fmt: skip
"""Methods that give what their arguments say and nothing of the interpreter; `format` and its like are not here."""

_LOOP_NUMBERS = frozenset({
    "index", "index0", "revindex", "revindex0", "first", "last", "length", "depth", "depth0",
})  # fmt: skip

_TESTS = {
    "defined": "(not isinstance({}, Undefined))",
    "undefined": "isinstance({}, Undefined)",
    "none": "({} is None)",
    "string": "isinstance({}, str)",
}
"""What jinja2's own tests of these names do."""


class DirectCode(CodeGenerator):
    """Compiles templates for RememberingSandbox: the same values, errors and order of evaluation.

    A value is kept under `_value`, a name that no variable of a template has. Methods are named as jinja2 calls them.
    """

    @optimizeconst
    def visit_Getattr(self, node: nodes.Getattr, frame: Frame, **named: Any) -> None:  # noqa: N802
        """`x.key`."""
        if _is_loop(node.node) and node.attr in _LOOP_NUMBERS:
            self._either(f"_value.{node.attr}", node.node, "type({}) is LoopContext", frame)
        elif node.attr not in OF_DICT:
            self._of_dict(node.node, node.attr, frame)
        else:
            super().visit_Getattr(node, frame, **named)
            return
        self.write(f"environment.getattr(_value, {node.attr!r}))")

    @optimizeconst
    def visit_Getitem(self, node: nodes.Getitem, frame: Frame, **named: Any) -> None:  # noqa: N802
        """`x['key']`."""
        key = node.arg.value if isinstance(node.arg, nodes.Const) else None
        if type(key) is not str:
            super().visit_Getitem(node, frame, **named)
            return
        self._either(f"_value[{key!r}]", node.node, f"type({{}}) is dict and {key!r} in _value", frame)
        self.write(f"environment.getitem(_value, {key!r}))")

    @optimizeconst
    def visit_Call(self, node: nodes.Call, frame: Frame, forward_caller: bool = False, **named: Any) -> None:  # noqa: N802
        """`x.method(arguments)`."""
        callee = node.node
        # arguments are written twice, so nothing that could itself be written twice may be in them
        plain = all(isinstance(argument, nodes.Const | nodes.Name) for argument in node.args)
        plain = plain and not (node.kwargs or node.dyn_args or node.dyn_kwargs or forward_caller)
        if not (plain and isinstance(callee, nodes.Getattr) and callee.attr in _TEXT_METHODS):
            super().visit_Call(node, frame, forward_caller=forward_caller, **named)
            return
        self.write("(")
        self._arguments(f"_value.{callee.attr}(", node, frame)
        self._condition("type({}) is str", callee.node, frame)
        self._arguments(f"environment.call(context, environment.getattr(_value, {callee.attr!r}), ", node, frame)
        self.write(")")

    @optimizeconst
    def visit_Test(self, node: nodes.Test, frame: Frame, **named: Any) -> None:  # noqa: N802
        """`x is test`."""
        form = _TESTS.get(node.name)
        own = self.environment.tests.get(node.name) is TESTS.get(node.name)
        if form is None or not own or node.args or node.kwargs or node.dyn_args or node.dyn_kwargs:
            super().visit_Test(node, frame, **named)
            return
        before, after = form.split("{}")
        self.write(before)
        self.visit(node.node, frame)
        self.write(after)

    def _of_dict(self, node: nodes.Node, key: str, frame: Frame) -> None:
        self._either(
            f"(_value[{key!r}] if {key!r} in _value else undefined(obj=_value, name={key!r}))", node,
            "type({}) is dict", frame,
        )  # fmt: skip

    def _either(self, direct: str, node: nodes.Node, condition: str, frame: Frame) -> None:
        self.write(f"({direct}")
        self._condition(condition, node, frame)

    def _condition(self, condition: str, node: nodes.Node, frame: Frame) -> None:
        before, after = condition.split("{}", 1)
        self.write(f" if {before}_value := ")
        self.visit(node, frame)
        self.write(f"{after} else ")

    def _arguments(self, opening: str, node: nodes.Call, frame: Frame) -> None:
        self.write(opening)
        for argument in node.args:
            self.visit(argument, frame)
            self.write(", ")
        self.write(")")


def _is_loop(node: nodes.Node) -> bool:
    return isinstance(node, nodes.Name) and node.name == "loop"
