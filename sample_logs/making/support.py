"""Support conversations: one long system prompt for all shops, a few lines for each shop, two adapters on one base."""

from __future__ import annotations

from typing import Any

from making.draw import Draw
from making.session import Arrivals, Session, Step, read_texts

WEEKDAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"]
TOWNS = ["Almery", "Orrinfield", "Tavelle", "Maristow", "Saint Orrin", "Upper Thane", "Wexcombe", "Old Harrow Bridge"]
STREETS = ["Mill Road", "Ropewalk", "Lower Quay", "Chapel Lane", "Pear Tree Close", "Station Street", "Weaver's Row"]


def support_sessions(name: str, count: int, with_header: bool) -> list[Session]:
    """Planned conversations of one day."""
    draw, texts = Draw(name), read_texts("support")
    arrivals = Arrivals(draw, mean_gap_ms=190_000)
    header = texts["header"] if with_header else None
    return [support_session(draw, texts, f"{name}-{number:03d}", arrivals, header) for number in range(1, count + 1)]


def support_session(
    draw: Draw, texts: dict[str, Any], session_id: str, arrivals: Arrivals, header: str | None
) -> Session:
    """One customer with one to six questions."""
    shop, topic = draw.one_of(texts["shops"]), draw.one_of(texts["topics"])
    details = customer_details(draw, texts, shop)
    system = {"role": "system", "content": system_prompt(texts, shop)}
    steps = [question_step(draw, topic["opening"], topic["answer"], details, 0)]
    steps[0].added.insert(0, system)
    for follow_up in draw.shuffled(texts["follow_ups"])[: draw.integer(0, 5)]:
        pause_ms = 15_000 + draw.waiting_ms(40_000)
        steps.append(question_step(draw, follow_up["question"], follow_up["answer"], details, pause_ms))
    model = f"harbour-8b-{topic['adapter']}"
    return Session(session_id, model, arrivals.next_ms(), steps, tenant=shop["tenant"], header=header)


def system_prompt(texts: dict[str, Any], shop: dict[str, Any]) -> str:
    """The rules that all shops share, then the lines of this shop."""
    return f"{texts['system'].strip()}\n\n## Languages\n{texts['languages']}\n\n## The shop\n{shop['text']}"


def customer_details(draw: Draw, texts: dict[str, Any], shop: dict[str, Any]) -> dict[str, str]:
    """The values that the sentences of one conversation have in common."""
    item, other = draw.shuffled(shop["items"])[:2]
    return {
        "item": item,
        "other": other,
        "order": f"{draw.one_of('BDKLMPT')}{draw.one_of('AEHRXZ')}{draw.integer(100000, 999999)}",
        "name": draw.one_of(texts["first_names"]),
        "day": draw.one_of(WEEKDAYS),
        "town": draw.one_of(TOWNS),
        "street": draw.one_of(STREETS),
        "postcode": str(draw.integer(10000, 98999)),
        "amount": f"{draw.integer(6, 420)}.{draw.one_of(['00', '50', '90', '95'])}",
        "part": f"{draw.one_of('ABCEFG')}-{draw.integer(10, 99)}",
        "tax": f"TX{draw.integer(10000000, 99999999)}",
        "voucher": f"{draw.hexadecimal(4).upper()}-{draw.hexadecimal(4).upper()}",
        "case": f"C-{draw.integer(20000, 89999)}",
    }


def question_step(draw: Draw, questions: list[str], answers: list[str], details: dict[str, str], pause_ms: int) -> Step:
    """One question of the customer and the answer to it."""
    question = draw.filled(draw.one_of(questions), details)
    if draw.chance(0.2):
        question = f"{question}\n{draw.one_of(['Regards', 'Thanks', 'Best wishes'])}, {details['name']}"
    answer = draw.filled(draw.one_of(answers), details)
    return Step([{"role": "user", "content": question}], {"role": "assistant", "content": answer}, pause_ms)
