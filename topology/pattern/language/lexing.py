"""Texts of queries as tokens.

The patterns of grammar.lark cut the text; what is a keyword depends on its place:
after a dot or a dollar sign, and in square brackets, no word is reserved. Lexing never fails:
what belongs to nothing becomes a token that no rule has a place for.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Final

from lark import Lark, Token
from lark.lark import PostLex

from topology.pattern.tree.words import KEYWORDS, RESERVED_WORDS, STRATEGIES

END: Final = "SEMICOLON"
UNCLOSED: Final = frozenset({"OPEN_STRING", "OPEN_NAME"})
STRANGE: Final = "STRANGE"
NAME: Final = "WORD"

_SAYING: Final = frozenset({
    "STRICT", "NEXT", "ANY", "ONE", "MAXIMAL", "ALL", "NONE", "FIRST", "LAST", "EAGER", "FINAL",
    "SLACK", "KEY", "REPORT", "IGNORE", "NOMINAL", "POSSIBLE", "TRUE",
    "FALSE", "NULL", "SETS", "BEST",
})  # fmt: skip
"""Keywords that a rule looks at; the others have an underscore in their token's name."""


def terminal(keyword: str) -> str:
    """The token's name of a keyword in lower case."""
    if keyword in STRATEGIES and keyword != "strict":
        return "STRATEGY"
    upper = keyword.upper()
    return upper if upper in _SAYING else f"_{upper}"


_TERMINALS: Final = {keyword: terminal(keyword) for keyword in KEYWORDS | STRATEGIES.keys()}


_BORDERS: Final = frozenset({
    "LSQB", "RSQB", "LPAR", "RPAR", "LBRACE", "RBRACE", "COMPARISON", END,
})  # fmt: skip
"""Where square brackets begin and end, closed or forgotten."""


class _Keywords(PostLex):
    """Gives keywords and numbers the names that the grammar has for them."""

    always_accept = ("NUMBER", "DASHED", "OPEN_STRING", "OPEN_NAME", "STRANGE", "SEMICOLON")

    def process(self, stream: Iterator[Token]) -> Iterator[Token]:
        before = ""
        in_brackets = False
        for token in stream:
            kind = token.type
            if kind in {"WORD", "DASHED"}:
                is_free = (in_brackets or before in {"DOT", "DOLLAR"}) and "-" not in token
                word = token.lower().replace("-", "_")
                token.type = NAME if is_free else _TERMINALS.get(word, NAME)
            elif kind == "NUMBER":
                token.type = "INT" if token.isdigit() else "FLOAT"
            elif kind in _BORDERS:
                in_brackets = kind == "LSQB"
            before = kind
            yield token


@cache
def grammar() -> Lark:
    """The parser's tables, made when the first query is read (0.2 s)."""
    return Lark.open_from_package(
        "topology.pattern.language",
        "grammar.lark",
        parser="lalr",
        lexer="basic",
        start="query",
        postlex=_Keywords(),
        maybe_placeholders=False,
        propagate_positions=True,
    )


def tokens(text: str) -> list[Token]:
    return list(grammar().lex(text))


def is_reserved(token: Token) -> bool:
    return token.lower().replace("-", "_") in RESERVED_WORDS and token.type != NAME


CLAUSES: Final = frozenset({
    "_WHERE", "_WITHIN", "_USING", "_MATCHES", "_SKIP", "_EMIT", "_TIES", "_LATE", "_UNCERTAIN",
    "_RETURN", "_SELECT", END,
})  # fmt: skip
