"""Questions about long documents: many prompts begin with the same document and end with different questions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from making.draw import Draw
from making.session import Arrivals, Session, Step, read_texts

CLAUSES_IN_A_SECTION = 12


@dataclass(frozen=True, slots=True)
class Clause:
    """One numbered clause of a document."""

    number: str
    subject: str
    sentence: str


@dataclass(frozen=True, slots=True)
class Document:
    """A document with the clauses that it was put together from."""

    key: str
    model: str
    text: str
    clauses: list[Clause]


def written_document(draw: Draw, source: dict[str, Any]) -> Document:
    """Put a document together: a title, an introduction, sections with numbered clauses."""
    lines, clauses = [f"# {source['title']}", "", source["intro"]], []
    for section_number, section in enumerate(source["sections"], 1):
        lines += ["", f"## {section_number} {section}"]
        subjects = draw.shuffled(source["subjects"])[:CLAUSES_IN_A_SECTION]
        for place, subject in enumerate(subjects, 1):
            clause = written_clause(draw, source, f"{section_number}.{place}", subject)
            clauses.append(clause)
            lines.append(f"{clause.number} {clause.sentence}")
    return Document(source["key"], source["model"], "\n".join(lines), clauses)


def written_clause(draw: Draw, source: dict[str, Any], number: str, subject: str) -> Clause:
    """One clause: what holds for a subject, and a sentence about it."""
    action, reason = draw.one_of(source["actions"]), draw.one_of(source["reasons"])
    sentence = draw.filled(f"On {subject}: this {action}. {reason}", {})
    return Clause(number, subject, sentence)


def document_sessions(name: str, count: int) -> list[Session]:
    """Planned readings of one day: most readers ask one thing, some ask what comes next."""
    draw, texts = Draw(name), read_texts("documents")
    documents = [written_document(draw, source) for source in texts["documents"]]
    arrivals = Arrivals(draw, mean_gap_ms=110_000)
    sessions, document = [], documents[0]
    for number in range(1, count + 1):
        # readers come in groups: a document that was just opened is likely to be asked about again
        document = document if draw.chance(0.8) else draw.one_of(documents)
        sessions.append(reading(draw, texts, document, f"{name}-{number:03d}", arrivals))
    return sessions


def reading(draw: Draw, texts: dict[str, Any], document: Document, session_id: str, arrivals: Arrivals) -> Session:
    """One reader of one document."""
    place = draw.integer(0, len(document.clauses) - 2)
    clause, following = document.clauses[place], document.clauses[place + 1]
    question = filled(draw, texts["questions"], clause)
    prompt = f"Document:\n{document.text}\n\nQuestion: {question}"
    system = {"role": "system", "content": texts["system"]}
    first = Step([system, user(prompt)], assistant(filled(draw, texts["answers"], clause)), 0)
    steps = [first]
    if draw.chance(0.25):
        answer = assistant(filled(draw, texts["follow_up_answer"], following))
        steps.append(Step([user(draw.one_of(texts["follow_up"]))], answer, 9_000 + draw.waiting_ms(25_000)))
    return Session(session_id, document.model, arrivals.next_ms(), steps)


def filled(draw: Draw, sentences: list[str], clause: Clause) -> str:
    """One of the sentences about a clause, beginning with a capital letter."""
    values = {"clause": clause.number, "subject": clause.subject, "sentence": clause.sentence}
    sentence = draw.filled(draw.one_of(sentences), values)
    return sentence[0].upper() + sentence[1:]


def user(content: str) -> dict[str, Any]:
    """A message of the user."""
    return {"role": "user", "content": content}


def assistant(content: str) -> dict[str, Any]:
    """A message of the model."""
    return {"role": "assistant", "content": content}
