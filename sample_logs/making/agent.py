"""An agent with ten tools: the history grows with every tool call and every result.

Half of the sessions think before each step. The client sends that reasoning back, and the chat template shows it to the
model only until the next task arrives.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from making.draw import Draw
from making.session import Arrivals, Message, Session, Step, read_texts
from making.tool_results import TOOL_RESULTS, order_number


@dataclass(frozen=True, slots=True)
class Desk:
    """What all tasks of one session share."""

    draw: Draw
    texts: dict[str, Any]
    thinks: bool


def agent_sessions(name: str, count: int) -> list[Session]:
    """Planned sessions of one morning."""
    draw, texts = Draw(name), read_texts("agent")
    arrivals = Arrivals(draw, mean_gap_ms=600_000)
    tools = [{"type": "function", "function": tool} for tool in texts["tools"]]
    return [agent_session(draw, texts, f"{name}-{number:03d}", arrivals, tools) for number in range(1, count + 1)]


def agent_session(draw: Draw, texts: dict[str, Any], session_id: str, arrivals: Arrivals, tools: list[Any]) -> Session:
    """One to three tasks, one after another, in one conversation."""
    desk = Desk(draw, texts, draw.chance(0.5))
    steps: list[Step] = []
    for _ in range(draw.integer(1, 3)):
        steps += task_steps(desk, first=not steps)
    return Session(session_id, "harbour-8b", arrivals.next_ms(), steps, tools=tools)


def task_steps(desk: Desk, first: bool) -> list[Step]:
    """The requests of one task: a tool call each, and the report at the end."""
    plan, values = desk.draw.one_of(desk.texts["plans"]), task_values(desk.draw, desk.texts)
    task: Message = {"role": "user", "content": desk.draw.filled(plan["task"], values)}
    added = [{"role": "system", "content": desk.texts["system"].strip()}, task] if first else [task]
    pause_ms = 20_000 + desk.draw.waiting_ms(60_000)
    steps = []
    for tool in calls_with_mistakes(desk.draw, plan["steps"]):
        answer, result = tool_step(desk, tool, values)
        steps.append(Step(added, answer, pause_ms))
        added, pause_ms = [result], desk.draw.integer(120, 2600)
    report = spoken(desk, desk.draw.filled(plan["report"], values), "Everything is done, the report can be written.")
    return [*steps, Step(added, report, pause_ms)]


def task_values(draw: Draw, texts: dict[str, Any]) -> dict[str, str]:
    """The values that task, calls, results and report have in common."""
    area, target = draw.shuffled(texts["areas"])[:2]
    return {
        "order": order_number(draw),
        "other_order": order_number(draw),
        "person": draw.one_of(texts["people"]),
        "goods": draw.one_of(texts["goods"]),
        "condition": draw.one_of(texts["conditions"]),
        "carrier": draw.one_of(texts["carriers"]),
        "place": draw.one_of(texts["scan_places"]),
        "area": area,
        "target": target,
        "weight": f"{draw.integer(0, 18)}.{draw.integer(1, 9)}",
        "amount": f"{draw.integer(12, 149)}.{draw.one_of(['00', '49', '90', '95'])}",
        "return_id": f"RT-{draw.integer(30000, 79999)}",
    }


def calls_with_mistakes(draw: Draw, tools: list[str]) -> list[str]:
    """The tools of a plan; now and then a call goes wrong first and is made again."""
    calls = []
    for tool in tools:
        if tool in ("get_order", "get_shipment") and draw.chance(0.1):
            calls.append(f"{tool}!")
        calls.append(tool)
    return calls


def tool_step(desk: Desk, tool: str, values: dict[str, str]) -> tuple[Message, Message]:
    """The message that calls a tool, and the message with its result.

    A name ending in ! is a call that fails; get_order:other_order reads the other order of the task.
    """
    name, _, subject = tool.removesuffix("!").partition(":")
    values = values | {"order": values[subject]} if subject else values
    arguments, result = TOOL_RESULTS[name](desk.draw, desk.texts, values)
    if tool.endswith("!"):
        arguments["order_id"] = arguments["order_id"][2:]
        message = f"order_id must be two letters and six digits, got {arguments['order_id']}"
        result = {"error": {"code": "invalid_argument", "message": message}}
    call = {
        "id": f"call_{desk.draw.hexadecimal(16)}",
        "type": "function",
        "function": {"name": name, "arguments": json.dumps(arguments, ensure_ascii=False)},
    }
    thought = desk.draw.filled(desk.draw.one_of(desk.texts["thoughts"][name]), values)
    answer = spoken(desk, None, thought) | {"tool_calls": [call]}
    content = result if isinstance(result, str) else json.dumps(result, ensure_ascii=False)
    return answer, {"role": "tool", "tool_call_id": call["id"], "content": content}


def spoken(desk: Desk, content: str | None, thought: str) -> Message:
    """A message of the model, with its reasoning in sessions that think."""
    message: Message = {"role": "assistant", "content": content}
    return message | {"reasoning": thought} if desk.thinks else message
