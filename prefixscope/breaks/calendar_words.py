"""Names of months and days as prompts print them: English as written, and eight other languages in any case.

Days of the week as Chinese, Japanese and Korean write them stand alone: their words have no boundaries."""

from __future__ import annotations

__all__ = ["DAY", "MONTH", "SIGN_DAY"]

_ENGLISH_MONTH = (
    r"Jan(?:uary)?|Feb(?:ruary)?|Mar(?:ch)?|Apr(?:il)?|May|June?|July?|Aug(?:ust)?|Sep(?:t(?:ember)?)?|Oct(?:ober)?"
    r"|Nov(?:ember)?|Dec(?:ember)?"
)
_OTHER_MONTHS = "|".join((
    "januar|jänner|februar|märz|mrz|mär|mai|juni|juli|oktober|okt|dezember|dez",
    "janvier|f[ée]vrier|mars|avril|juin|juillet|ao[ûu]t|septembre|octobre|novembre|d[ée]cembre",
    "enero|febrero|marzo|abril|mayo|junio|julio|agosto|septiembre|setiembre|octubre|noviembre|diciembre",
    "janeiro|fevereiro|março|maio|junho|julho|setembro|outubro|novembro|dezembro",
    "gennaio|febbraio|aprile|maggio|giugno|luglio|settembre|ottobre|dicembre",
    "januari|februari|maart|april|mei|augustus|september|november|december",
    "января|февраля|марта|апреля|мая|июня|июля|августа|сентября|октября|ноября|декабря",
    "stycznia|lutego|marca|kwietnia|maja|czerwca|lipca|sierpnia|września|października|listopada|grudnia",
))  # fmt: skip
_ENGLISH_DAY = (
    r"Mon(?:day)?|Tue(?:s(?:day)?)?|Wed(?:nesday)?|Thu(?:r(?:s(?:day)?)?)?|Fri(?:day)?|Sat(?:urday)?|Sun(?:day)?"
)
_OTHER_DAYS = "|".join((
    "montag|dienstag|mittwoch|donnerstag|freitag|samstag|sonnabend|sonntag",
    "lundi|mardi|mercredi|jeudi|vendredi|samedi|dimanche",
    "lunes|martes|mi[ée]rcoles|jueves|viernes|s[áa]bado|domingo",
    "(?:segunda|ter[çc]a|quarta|quinta|sexta)-feira",
    "luned[ìi]|marted[ìi]|mercoled[ìi]|gioved[ìi]|venerd[ìi]|sabato|domenica",
    "maandag|dinsdag|woensdag|donderdag|vrijdag|zaterdag|zondag",
    "понедельник|вторник|сред[ау]|четверг|пятниц[ау]|суббот[ау]|воскресенье",
    "poniedziałek|wtorek|środa|czwartek|piątek|sobota|niedziela",
))  # fmt: skip

MONTH = rf"(?:{_ENGLISH_MONTH}|(?i:{_OTHER_MONTHS}))"
"""A month's name, as a pattern."""
SIGN_DAY = r"(?:(?:星期|周|週|礼拜|禮拜)[一二三四五六日天]|[月火水木金土日]曜日?|[월화수목금토일]요일)"
"""A day's name in Chinese, Japanese or Korean, as a pattern."""
DAY = rf"(?:{_ENGLISH_DAY}|(?i:{_OTHER_DAYS}))"
"""A day's name, as a pattern."""
