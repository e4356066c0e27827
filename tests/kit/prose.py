"""Find sentences that readers stumble over: too long, with a bad first word, or with private words.

The rules are those in CONTRIBUTING ("How we write"). Code and links are left out; a table cell
counts as a separate text.
"""

from __future__ import annotations

import ast
import inspect
import io
import re
import tokenize
from collections.abc import Iterator
from typing import Final, NamedTuple

MOST_WORDS: Final = 25
TITLE_WORDS: Final = 4
"""A title such as *What it is* may begin with a clause."""
CLAUSE: Final = re.compile(r"^(What|Who|Whom|Whose|Where|Of|Which|Whoever|Whatever|Wherever)\b")
PRIVATE: Final[dict[str, str]] = {
    r"hol(?:e|es)\b(?! of)": "gap",
    r"incarnations?\b": "epoch",
    r"newcomers?\b": "new source",
    r"doz(?:e|es|ing)\b": "idle",
    r"untold\b": "not reported",
    r"is told\b|are told\b": "is reported",
    r"taken back\b|takes back\b|withdrawn\b": "retracted",
    r"let go\b|lets go\b": "emitted",
    r"overtaken\b|overtakes\b": "late, or out of order",
    r"differing cop(?:y|ies)\b": "conflict",
    r"true times?\b": "event time",
    r"reference times?\b": "corrected timestamp",
    r"append times?\b(?! \()": "arrival time",
    r"what is known\b": "early result",
    r"reads? ahead\b|reading ahead\b": "speculative",
    r"complete frontier\b": "completeness frontier",
    r"final frontier\b": "finality horizon",
    r"byes?\b": "end-of-stream marker",
    r"amid\b": "in the middle of",
    r"thereof\b|whereof\b|wherein\b|hitherto\b": "plain words",
}
_FENCE: Final = re.compile(r"^(```|~~~).*?^\1[^\n]*$", re.M | re.S)
_COMMENT: Final = re.compile(r"<!--.*?-->", re.S)
_FRONT: Final = re.compile(r"\A---\n.*?^---\n", re.M | re.S)
_SPAN: Final = re.compile(r"``[^`]+``|`[^`\n]*`")
_LINK: Final = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
_END: Final = re.compile(r"(?<=[.!?:;])[\"')*_]*\s+(?=[A-Z`\"'(*_\[]|inorder\b)|\n{2,}")
_WORD: Final = re.compile(r"[A-Za-z0-9][\w'’/.-]*")
_DIRECTIVE: Final = re.compile(r"#\s*(noqa|type:|pragma|fmt:|mypy)|#!")
_PLACEHOLDER: Final = "Xcode"


class Finding(NamedTuple):
    """A sentence that a rule refuses, and why."""

    sentence: str
    why: str

    def __str__(self) -> str:
        return f"{self.why}: {self.sentence}"


def of_markdown(text: str) -> list[Finding]:
    """Return the findings on a page."""
    return [found for sentence in sentences(text) for found in of_sentence(sentence)]


def of_python(source: str) -> list[Finding]:
    """Return the findings in a module's docstrings and comments."""
    texts = (*docstrings(source), *_comments(source))
    return [found for text in texts for found in of_markdown(text)]


def docstrings(source: str) -> Iterator[str]:
    """Yield the docstrings of modules, classes, functions and attributes."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Expr(value=ast.Constant(value=str(text))):
                yield inspect.cleandoc(text)


def _comments(source: str) -> Iterator[str]:
    """Yield comments; those on adjacent lines are one text."""
    held: list[str] = []
    last = 0
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT and not _DIRECTIVE.match(token.string):
            if held and token.start[0] != last + 1:
                yield "\n".join(held)
                held = []
            held.append(token.string.lstrip("#: "))
            last = token.start[0]
    yield "\n".join(held)


def sentences(text: str) -> Iterator[str]:
    """Yield a page's sentences, from paragraphs, list items, headings and table cells."""
    for hidden in (_FRONT, _COMMENT, _FENCE):
        text = hidden.sub("\n\n", text)
    for block in re.split(r"\n\s*\n", text):
        for part in _parts(block):
            plain = _LINK.sub(r"\1", _SPAN.sub(_PLACEHOLDER, part))
            for sentence in _END.split(" ".join(plain.split())):
                if sentence.strip():
                    yield sentence.strip()


def _parts(block: str) -> Iterator[str]:
    lines = block.split("\n")
    if lines[0].startswith(("    ", "\t")) and not lines[0].strip().startswith(("-", "*", "1")):
        return
    held: list[str] = []
    for line in lines:
        bare = line.strip()
        if bare.startswith("|"):
            yield from (cell for cell in re.split(r"(?<!\\)\|", bare.strip("|")) if cell.strip())
        elif re.match(r"(?:[-*+]|\d+\.)\s|#+\s|>\s|\[\^", bare):
            if held:
                yield "\n".join(held)
            held = [re.sub(r"^(?:[-*+]|\d+\.|#+|>)\s+", "", bare)]
        else:
            held.append(bare)
    if held:
        yield "\n".join(held)


def of_sentence(sentence: str) -> Iterator[Finding]:
    """Yield what is wrong with one sentence."""
    count = len(_WORD.findall(sentence))
    is_clause = CLAUSE.match(sentence) and count > TITLE_WORDS
    if is_clause and not sentence.rstrip("*_\"')").endswith("?"):
        yield Finding(sentence, "begins with a clause; begin with the subject")
    if count > MOST_WORDS:
        yield Finding(sentence, f"has {count} words, at most {MOST_WORDS}")
    for word, better in PRIVATE.items():
        if found := re.search(rf"\b(?:{word})", sentence, re.I):
            yield Finding(sentence, f"`{found[0]}` is a private word; write {better}")


def words(text: str) -> int:
    """Return the number of words on a page without its code."""
    for hidden in (_FRONT, _COMMENT, _FENCE):
        text = hidden.sub("\n", text)
    return len(_WORD.findall(_LINK.sub(r"\1", _SPAN.sub(_PLACEHOLDER, text))))
