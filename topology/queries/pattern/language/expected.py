"""Describes which words are valid at a place in a query, and guesses which word the user meant."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from lark import Token

from topology.queries.pattern.language.lexing import (
    CLAUSES,
    END,
    NAME,
    is_reserved,
    list_signs,
    terminal_of,
)
from topology.queries.pattern.tree.errors import find_nearest, shorten
from topology.queries.pattern.tree.words import KEYWORDS, UNITS_NS
from topology.spelling.values import ELSEWHERE

MANY: Final = 6
"""The maximum number of alternatives that a message lists."""

_KINDS: Final = {
    "INT": "a number",
    "STRING": "a string",
    "DURATION": "a duration like 10 s",
    "$END": "the end",
}
_NAME: Final = frozenset({"WORD", "QUOTED", "FIRST", "LAST", "SETS", "BEST"})
_VALUE: Final = _NAME | {
    "LPAR", "RPAR", "LSQB", "MINUS", "DOLLAR", "STRING", "INT", "FLOAT", "DURATION", "TRUE",
    "FALSE", "NULL", "_NOT",
}  # fmt: skip
_COMPARISON: Final = frozenset({
    "PLUS", "MINUS", "STAR", "SLASH", "PERCENT", "COMPARISON", "_IN", "_NOT", "_BETWEEN", "_IS",
    "_LIKE", "DOT",
})  # fmt: skip
_COUNT: Final = frozenset({"PLUS", "STAR", "QMARK", "LBRACE", "VBAR", "LSQB", "_LOOP", "_UNTIL"})
_LENGTH: Final = frozenset({"INT", "FLOAT", "DURATION", "MINUS"})
_EVENT: Final = _NAME | {"BANG"}
_GROUPS: Final = (
    ("LPAR", "STRING", "a value", _VALUE),
    ("COMPARISON", "PLUS", "a comparison", _COMPARISON),
    ("QMARK", "PLUS", "", _COUNT),
    ("INT", "FLOAT", "a duration like 10 s", _LENGTH),
    ("BANG", "WORD", "an event type", _EVENT),
    ("WORD", "QUOTED", "a name", _NAME),
)
"""Groups of tokens, each with two test tokens, a description, and all tokens of the group.

If the grammar accepts both test tokens, a message shows the description in place of the tokens.
"""

_OF_OTHERS: Final = {
    "event": ("_PATTERN", "write PATTERN"),
    "select": ("_RETURN", "write RETURN"),
    "not": ("BANG", "write ! for a negation"),
}
"""Words of SASE and SQL, each with the token that replaces it and a remedy."""

_STRATEGIES: Final = frozenset({"STRICT", "PARTITION", "SKIP_TILL_NEXT", "SKIP_TILL_ANY"})

_EXAMPLES: Final = {
    "RPAR": "a parenthesis is not closed",
    "_WITHIN": "a pattern needs a window, like WITHIN 10 s",
    "_PATTERN": "a query is like PATTERN SEQ(A a, B b) WITHIN 10 s",
}


def list_wanted(accepted: Collection[str]) -> str:
    left = set(accepted) - {"$END"} if len(accepted) > 1 else set(accepted)
    words_expected = []
    for first, second, words, members in _GROUPS:
        if first in left and second in left:
            left -= members
            words_expected += [words] if words else []
    kinds = {**list_signs(), **_KINDS}
    words_expected += sorted(kinds[each] for each in left if each in kinds)
    keywords = sorted(each.lstrip("_") for each in left if each.lstrip("_").lower() in KEYWORDS)
    words_expected += keywords
    if len(words_expected) > MANY:
        words_expected = [*words_expected[: MANY - 1], "the like"]
    return (
        f"{', '.join(words_expected[:-1])} or {words_expected[-1]}"
        if len(words_expected) > 1
        else "".join(words_expected) or "nothing"
    )


def hint_for_token(accepted: Collection[str], token: Token, before: Token | None) -> str:
    """Return a hint for an unexpected token, or an empty string if there is none."""
    if hint := translate(accepted, token, before):
        return hint
    words = [word for word in KEYWORDS if terminal_of(word) in accepted]
    close = find_nearest(token, words) if token.type == NAME else ""
    if close:
        return f"did you mean `{close.upper()}`?"
    if token.type == NAME and before is not None and before.type in {"INT", "FLOAT"}:
        return hint_for_unit(token)
    return _hint_for_habit(accepted, token, before.type if before else "", str(before))


def translate(accepted: Collection[str], token: Token, before: Token | None) -> str:
    """Return a hint for a word that has this place in another language, or an empty string."""
    if token.type in _STRATEGIES and before is not None and before.type == "_WHERE":
        return f"write USING {token} after WITHIN"
    ours, hint = _OF_OTHERS.get(token.lower(), ("", ""))
    return hint if ours in accepted else ""


UNITS: Final = "units are ns, us, ms, s, min, h and d"


def hint_for_unit(word: str) -> str:
    """Return a hint for an unknown unit of time: the nearest unit, or a list of all units."""
    ours = ELSEWHERE.get(word.lower()) or find_nearest(word, UNITS_NS)
    return f"did you mean `{ours}`?" if ours in UNITS_NS else UNITS


def _hint_for_habit(accepted: Collection[str], token: Token, before: str, word: str) -> str:
    """Return a hint for a common mistake, or an empty string.

    `before` and `word` are the type and the text of the preceding token.
    """
    if token.type == "LPAR" and before == NAME:
        compound = find_nearest(word, ("seq", "and", "or"))
        if compound:
            return f"did you mean `{compound.upper()}` for `{shorten(word)}`?"
    if is_reserved(token) and NAME in accepted:
        return f"to use it as a name, write it in back-ticks: `{shorten(token)}`"
    if before in {"STRICT", "NEXT", "ANY"}:
        return f"`{word}` is a reserved word; to use it as a name, write it in back-ticks: `{word}`"
    if token.type == "GREEDY" and "_LOOP" in accepted:
        return "write LOOP GREEDY"
    if token.type == "_WHERE" and "_RETURN" in accepted:
        return "WHERE comes before WITHIN"
    if token.type in CLAUSES and "_INTO" in accepted:
        return "options come between WITHIN and RETURN"
    if token.type in {END, "$END", *CLAUSES}:
        return next((hint for each, hint in _EXAMPLES.items() if each in accepted), "")
    return ""
