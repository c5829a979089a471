"""What the tools of the agent log are called with and what they return, one function for each tool."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from making.draw import Draw

Values = dict[str, str]
Texts = dict[str, Any]
CallAndResult = tuple[dict[str, Any], Any]


def order_number(draw: Draw) -> str:
    """Two letters and six digits."""
    return f"{draw.one_of('KRSVW')}{draw.one_of('ABCDE')}{draw.integer(100000, 999999)}"


def moment(draw: Draw) -> str:
    """A time in the two weeks before the day of the log."""
    return f"2026-03-{draw.integer(3, 16):02d}T{draw.integer(5, 21):02d}:{draw.integer(0, 59):02d}:00"


def find_orders(draw: Draw, texts: Texts, values: Values) -> CallAndResult:
    """A list of orders; the two that the task is about stand in it."""
    orders = [values["order"], values["other_order"], *(order_number(draw) for _ in range(draw.integer(2, 5)))]
    found = [
        {
            "order_id": order,
            "goods": values["goods"],
            "status": draw.one_of(["open", "packed", "sent"]),
            "placed_at": moment(draw),
            "amount": f"{draw.integer(10, 240)}.{draw.integer(10, 99)}",
        }
        for order in orders
    ]
    return {"query": values["goods"], "status": "open"}, {"orders": found, "more": False}


def get_order(draw: Draw, texts: Texts, values: Values) -> CallAndResult:
    """One order."""
    result = {
        "order_id": values["order"],
        "status": draw.one_of(["sent", "returned"]),
        "placed_at": moment(draw),
        "lines": [
            {"goods": values["goods"], "pieces": 1, "price": values["amount"], "area": values["area"]},
            {"goods": draw.one_of(texts["goods"]), "pieces": draw.integer(1, 3), "price": "9.90", "area": "C"},
        ],
        "address_area": draw.one_of(["north", "south", "islands", "abroad"]),
        "notes": [],
    }
    return {"order_id": values["order"]}, result


def get_shipment(draw: Draw, texts: Texts, values: Values) -> CallAndResult:
    """One shipment with its scans, the last of them at the place of the task."""
    scans = sorted(
        ({"at": moment(draw), "place": draw.one_of(texts["scan_places"])} for _ in range(draw.integer(5, 12))),
        key=lambda scan: scan["at"],
    )
    scans[-1]["place"] = values["place"]
    result = {
        "order_id": values["order"],
        "carrier": values["carrier"],
        "tracking": f"{draw.integer(10**11, 10**12 - 1)}",
        "weight_kg": f"{draw.integer(0, 18)}.{draw.integer(1, 9)}",
        "size_cm": [draw.integer(20, 80), draw.integer(15, 60), draw.integer(5, 40)],
        "scans": [scan | {"event": draw.one_of(texts["scan_events"])} for scan in scans],
    }
    return {"order_id": values["order"], "with_scans": True}, result


def list_returns(draw: Draw, texts: Texts, values: Values) -> CallAndResult:
    """The one return of the order, already checked."""
    entry = {
        "return_id": values["return_id"],
        "condition": values["condition"],
        "checked": True,
        "checked_at": moment(draw),
        "checked_by": draw.one_of(texts["people"]),
    }
    return {"order_id": values["order"]}, {"returns": [entry]}


def create_return(draw: Draw, texts: Texts, values: Values) -> CallAndResult:
    """A new return."""
    photographs = [f"table-{draw.integer(1000, 9999)}.jpg" for _ in range(draw.integer(1, 3))]
    arguments = {"order_id": values["order"], "condition": values["condition"], "photographs": photographs}
    return arguments, {"return_id": values["return_id"], "state": "open", "label": None}


def book_refund(draw: Draw, texts: Texts, values: Values) -> CallAndResult:
    """A refund below the limit."""
    arguments = {"order_id": values["order"], "amount": float(values["amount"]), "reason": values["condition"]}
    return arguments, {"booked": True, "amount": values["amount"], "booking": f"BK{draw.integer(10**6, 10**7 - 1)}"}


def list_stock(draw: Draw, texts: Texts, values: Values) -> CallAndResult:
    """What lies in an area."""
    others = draw.shuffled([name for name in texts["goods"] if name != values["goods"]])
    goods = sorted([values["goods"], *others[: draw.integer(5, 10)]])
    shelves = [
        {"goods": name, "pieces": draw.integer(1, 24), "shelf": f"{values['area']}{draw.integer(1, 40):02d}"}
        for name in goods
    ]
    return {"area": values["area"]}, {"area": values["area"], "shelves": shelves}


def move_stock(draw: Draw, texts: Texts, values: Values) -> CallAndResult:
    """Pieces moved from one area to another."""
    pieces = draw.integer(1, 6)
    target = values["target"]
    arguments = {"goods": values["goods"], "from_area": values["area"], "to_area": target, "pieces": pieces}
    return arguments, {"moved": pieces, "shelf": f"{target}{draw.integer(1, 40):02d}"}


def search_articles(draw: Draw, texts: Texts, values: Values) -> CallAndResult:
    """An article of the handbook, as plain text."""
    title = draw.one_of(texts["articles"])
    lines = draw.shuffled(texts["article_lines"])[: draw.integer(3, 6)]
    numbered = "\n".join(f"{number}. {line}" for number, line in enumerate(lines, 1))
    return {"query": title.lower()}, f"{title}\n\n{numbered}\n\nArticle {draw.integer(100, 180)}, edition 7."


def add_note(draw: Draw, texts: Texts, values: Values) -> CallAndResult:
    """A note on the order."""
    text = draw.filled("Last scan at {place}, {carrier}. The {goods}: {condition}. Weighed {weight} kg.", values)
    return {"order_id": values["order"], "text": text}, {"note_id": draw.integer(5000, 9999), "saved": True}


TOOL_RESULTS: dict[str, Callable[[Draw, Texts, Values], CallAndResult]] = {
    "find_orders": find_orders,
    "get_order": get_order,
    "get_shipment": get_shipment,
    "list_returns": list_returns,
    "create_return": create_return,
    "book_refund": book_refund,
    "list_stock": list_stock,
    "move_stock": move_stock,
    "search_articles": search_articles,
    "add_note": add_note,
}
