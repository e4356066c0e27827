"""Splits the text of queries into tokens.

The regular expressions in grammar.lark find the tokens; whether a word is a keyword depends on its
context. No word is reserved after a dot or a dollar sign, or in square brackets. Lexing never
fails: text that matches no expression becomes a token that no grammar rule accepts.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Final

from lark import Lark, Token
from lark.lark import PostLex
from lark.lexer import PatternStr

from topology.queries.pattern.tree.words import KEYWORDS, RESERVED_WORDS

END: Final = "SEMICOLON"
UNCLOSED: Final = frozenset({"OPEN_STRING", "OPEN_NAME"})
STRANGE: Final = "STRANGE"
NAME: Final = "WORD"


def terminal_of(word: str) -> str:
    """Return the grammar's token type for a keyword in lower case."""
    upper = word.upper()
    return upper if upper in _names_in_rules() else f"_{upper}"


@cache
def _names_in_rules() -> frozenset[str]:
    return frozenset(symbol.name for rule in grammar().rules for symbol in rule.expansion)


_BORDERS: Final = frozenset({
    "LSQB", "RSQB", "LPAR", "RPAR", "LBRACE", "RBRACE", "COMPARISON", END,
})  # fmt: skip
"""Tokens that set whether the text is inside square brackets.

Only `[` begins brackets. All others end them, even if the closing bracket was forgotten.
"""


class _Keywords(PostLex):
    """A token filter that gives keywords and numbers the token types of the grammar."""

    always_accept = ("NUMBER", "OPEN_STRING", "OPEN_NAME", "STRANGE", "SEMICOLON")

    def process(self, stream: Iterator[Token]) -> Iterator[Token]:
        before = ""
        in_brackets = False
        for token in stream:
            kind = token.type
            if kind == "WORD":
                is_free = in_brackets or before in {"DOT", "DOLLAR"}
                word = token.lower()
                token.type = NAME if is_free or word not in KEYWORDS else terminal_of(word)
            elif kind == "NUMBER":
                token.type = "INT" if token.isdigit() else "FLOAT"
            elif kind in _BORDERS:
                in_brackets = kind == "LSQB"
            before = kind
            yield token


@cache
def grammar() -> Lark:
    """Return the parser; the first call builds its tables, which takes 0.1 to 0.2 s."""
    return Lark.open_from_package(
        "topology.queries.pattern.language",
        "grammar.lark",
        parser="lalr",
        lexer="basic",
        start=["query", "expr"],
        postlex=_Keywords(),
        maybe_placeholders=False,
        propagate_positions=True,
    )


def list_signs() -> dict[str, str]:
    """Return the grammar's fixed signs, like `+`, by the names of their tokens."""
    fixed = (each for each in grammar().terminals if isinstance(each.pattern, PatternStr))
    return {each.name: f"`{each.pattern.value}`" for each in fixed}


def is_reserved(token: Token) -> bool:
    return token.lower() in RESERVED_WORDS and token.type != NAME


CLAUSES: Final = frozenset({
    "_WHERE", "_WITHIN", "_USING", "_MATCHES", "_SKIP", "_EMIT", "_TIES", "_UNCERTAIN",
    "_RETURN", END,
})  # fmt: skip
