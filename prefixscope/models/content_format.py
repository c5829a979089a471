"""Does a chat template take a message's content as a string or as a list of parts?

Engines ask this before they convert a request. Both rules read the template's syntax tree and look for a loop over
message content; they differ in what they follow:

- vLLM 0.32.0, vllm/renderers/hf.py:_detect_content_format: follows assignments from `messages` to other names, the
  loops over those, and macros that receive message content; slices, filters and tests are looked through.
- SGLang 0.5.23, sglang/srt/parser/jinja_template_utils.py:detect_jinja_template_content_format: a template that
  speaks of image, audio, video or vision takes parts; else a loop over `message`, `msg` or `m` content does.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from jinja2 import nodes

__all__ = ["ContentFormat", "sglang_content_format", "vllm_content_format"]

ContentFormat = Literal["string", "openai"]

_MEDIA_WORDS = ("image", "audio", "video", "vision")


def vllm_content_format(source: str, tree: nodes.Template) -> ContentFormat:
    """What vLLM finds in a template's syntax tree; `string` when the tree is of a shape it does not expect."""
    del source
    try:
        return "openai" if any(_content_loops(tree)) else "string"
    except TypeError:
        return "string"


def sglang_content_format(source: str, tree: nodes.Template) -> ContentFormat:
    """What SGLang finds."""
    if any(word in source for word in _MEDIA_WORDS):
        return "openai"
    loops = tree.find_all(nodes.For)
    return (
        "openai"
        if any(_reaches(loop.iter, name, "content") for loop in loops for name in _SGLANG_NAMES)
        else ("string")
    )


_SGLANG_NAMES = ("message", "msg", "m")


def _reaches(node: nodes.Node | None, name: str, key: str | None = None) -> bool:
    """Whether an expression is `name` (or `name.key`), perhaps sliced, filtered or tested."""
    while True:
        if isinstance(node, (nodes.Filter, nodes.Test)) or (
            isinstance(node, nodes.Getitem) and isinstance(node.arg, nodes.Slice)
        ):
            node = node.node
            continue
        if key is None:
            return _loads(node, name)
        if isinstance(node, nodes.Getitem):
            return _loads(node.node, name) and isinstance(node.arg, nodes.Const) and node.arg.value == key
        return isinstance(node, nodes.Getattr) and _loads(node.node, name) and node.attr == key


def _loads(node: nodes.Node | None, name: str) -> bool:
    return isinstance(node, nodes.Name) and node.ctx == "load" and node.name == name


def _target_name(target: nodes.Node) -> str:
    if not isinstance(target, nodes.Name):
        raise TypeError("a loop or assignment with several targets")
    return target.name


def _aliases(tree: nodes.Template, name: str) -> list[str]:
    """`name` and every variable assigned from it, transitively."""
    found, pending = [name], [name]
    while pending:
        current = pending.pop(0)
        for assignment in tree.find_all(nodes.Assign):
            if _reaches(assignment.node, current):
                target = _target_name(assignment.target)
                found.append(target)
                if target != current and target not in found[:-1]:
                    pending.append(target)
    return found


def _message_names(tree: nodes.Template) -> list[str]:
    """The loop variables that hold one message."""
    conversations = _aliases(tree, "messages")
    return [
        _target_name(loop.target)
        for loop in tree.find_all(nodes.For)
        if any(_reaches(loop.iter, name) for name in conversations)
    ]


def _content_loops(tree: nodes.Template) -> Iterator[bool]:
    messages = _message_names(tree)
    in_macros: set[int] = set()
    macro_contents: dict[int, set[str]] = {}
    for macro in tree.find_all(nodes.Macro):
        parameters = _content_parameters(tree, macro, messages)
        for loop in macro.find_all(nodes.For):
            in_macros.add(id(loop))
            if parameters:
                macro_contents[id(loop)] = parameters
    for loop in tree.find_all(nodes.For):
        if any(_reaches(loop.iter, name, "content") for name in messages):
            yield True
        elif isinstance(loop.iter, nodes.Name):
            given = loop.iter.name in macro_contents.get(id(loop), ())
            if given or (id(loop) not in in_macros and loop.iter.name == "content"):
                yield bool(_target_name(loop.target))


def _content_parameters(tree: nodes.Template, macro: nodes.Macro, messages: list[str]) -> set[str]:
    """The parameters through which a macro is handed message content somewhere in the template."""
    names = [argument.name for argument in macro.args]
    found: set[str] = set()
    for call in tree.find_all(nodes.Call):
        if not (isinstance(call.node, nodes.Name) and call.node.name == macro.name):
            continue
        given = [*zip(names, call.args, strict=False)]
        given += [(keyword.key, keyword.value) for keyword in call.kwargs if keyword.key in names]
        found |= {name for name, value in given if any(_reaches(value, message, "content") for message in messages)}
    return found
