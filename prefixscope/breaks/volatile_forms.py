"""How clocks, dates and ids are written, as patterns: the forms of several languages, libraries and logs."""

from __future__ import annotations

import re
from functools import cache

from prefixscope.breaks.calendar_words import DAY, MONTH, SIGN_DAY

__all__ = ["from_digit", "whole"]

_TIME = r"\d{1,2}:\d{2}(?::\d{2}(?:[.,]\d{1,9})?)?(?:\s?[AaPp]\.?[Mm]\b\.?)?"
_ZONE = r"(?:\s?(?:Z\b|UTC\b|[A-Z]{1,4}T\b|[+-]\d{2}:?\d{2}\b))?"
_DIGIT_DATES = "|".join((
    r"\d{4}-\d{1,2}-\d{1,2}",
    r"\d{4}/\d{1,2}/\d{1,2}",
    r"\d{4}\.\d{1,2}\.\d{1,2}",
    r"\d{4}-W\d{2}(?:-\d)?",
    r"\d{1,2}/\d{1,2}/\d{2,4}",
    r"\d{1,2}\.\d{1,2}\.(?:\d{4}|\d{2})\b",
    rf"\d{{1,2}}(?:st|nd|rd|th|er|[º°])?\.?[ -](?:of |de |di )?{MONTH}\.?(?:,?[ -](?:de |del )?\d{{2,4}})?",
))  # fmt: skip
_NAME_DATES = rf"{MONTH}\.? \d{{1,2}}(?:st|nd|rd|th)?(?:,? \d{{4}})?|{MONTH}\.? (?:de )?\d{{4}}"
_DATE = rf"(?:{DAY}\.?,?\s(?:der |den |dem |the )?)?(?:{_DIGIT_DATES}|{_NAME_DATES})"
_SIGN_DATES = r"(?:\d{4}年\d{1,2}月\d{1,2}日(?:[（(][月火水木金土日一二三四五六][)）])?|\d{4}년 ?\d{1,2}월 ?\d{1,2}일)"
_SIGN_TIMES = r"(?:\d{1,2}\s?[时時点點]\s?\d{1,2}\s?分(?:\s?\d{1,2}\s?秒)?|\d{1,2}시 ?\d{1,2}분(?: ?\d{1,2}초)?)"
_NUMBERS = r"\d{4}, ?\d{1,2}, ?\d{1,2}"
_PACKED = r"(?<![\w.])20[2-3]\d(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])"


def _forms(date: str, names: str) -> str:
    """The pattern of all of them, with these forms for a date that comes first and for names that stand alone."""
    return (
        rf"(?P<timestamp>{date}(?:[T_]|,?\s(?:at\s)?){_TIME}{_ZONE}(?:\s\d{{4}}\b)?|\b{_TIME}{_ZONE},?\s(?:on\s)?{_DATE}"
        rf"|(?<![\d:]){_TIME}{_ZONE}"
        r"|(?<![\w.])1[4-9]\d{8}(?:\.\d{1,9}|\d{3}|\d{6}|\d{9})?(?![\w])"
        r"|\b\d{8}T\d{4,6}Z?\b"
        rf"|\d{{1,2}}/{MONTH}/\d{{4}}:\d{{2}}:\d{{2}}:\d{{2}}(?: [+-]\d{{4}})?"
        r"|(?<![\w.])\d{4}-\d{2}-\d{2}[T_-]\d{2}-\d{2}(?:-\d{2})?(?!\w)"
        rf"|{_PACKED}(?:[01]\d|2[0-3])[0-5]\d(?:[0-5]\d(?:\d{{3}})?)?(?!\w)"
        r"|\b\d{1,2}\s?[hH]\s?[0-5]\d\b|\b\d{1,2}\s?(?:Uhr\b|o'clock\b)"
        r"|\b\d{1,2}\s?[AaPp]\.?[Mm]\b\.?"
        r"|\b(?:\d+|an?|one|two|three) (?:second|minute|hour)s? ago\b"
        rf"|(?:{_SIGN_DATES}\s?)?{_SIGN_TIMES}|(?<=datetime\(){_NUMBERS}(?:, ?\d{{1,6}}){{1,5}})"
        r"|(?P<volatile_id>\b[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}\b"
        r"|(?<![\w.])(?:\d{1,3}\.){3}\d{1,3}(?::\d{2,5})?(?![\w]|\.\d))"
        rf"|(?P<date>(?<![\w.]){date}(?![\w:])|{_PACKED}(?!\w){names}"
        r"|\b(?:\d+|an?|one|two|three) (?:day|week|month)s? ago\b"
        rf"|{_SIGN_DATES}|{SIGN_DAY}|(?<=[Ww]eek )\d{{1,2}}\b(?: of \d{{4}}\b)?"
        rf"|(?<=[Dd]ay )\d{{1,3}} of (?:the year )?\d{{4}}\b|(?<=[Yy]ear )20\d\d\b|(?<=[Yy]ear is )20\d\d\b"
        rf"|(?<=datetime\(){_NUMBERS}|(?<=date\(){_NUMBERS})"
    )


@cache
def whole() -> re.Pattern[str]:
    """Compiled when first needed: that takes longer than many a short log."""
    return re.compile(_forms(_DATE, rf"|\b{DAY}\b|\b{MONTH}\b"))


@cache
def from_digit() -> re.Pattern[str]:
    """The same for those that begin with a digit, without trying every name first."""
    return re.compile(_forms(rf"(?:{_DIGIT_DATES})", ""))
