"""Find the commands that pages tell a reader to type, and the options and names in their text.

In a fenced block a command is a line that begins with a program, or in a console with `$ `. A line
that ends in a backslash or within quotes continues. In text a command is a backquoted span that
begins with a program, often only a part such as `inorder topics create`.

CHANGELOG.md, docs/decisions and docs/roadmap.md are about other times, and have no commands to
type. Names in docs/decisions and in deployed files (`NAMED`) are checked, since a reader meets them
today.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests import ROOT

OF_ANOTHER_TIME = {ROOT / "docs/decisions", ROOT / "docs/roadmap.md"}
PAGES = [
    *(p for p in sorted((ROOT / "docs").rglob("*.md")) if not OF_ANOTHER_TIME & {p, *p.parents}),
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "ARCHITECTURE.md")),
    ROOT / "benchmarks/README.md",
    ROOT / "inorder/README.md",
]
DEPLOYED = ROOT / "infra/helm/inorder"
NAMED = [
    *PAGES,
    *sorted((ROOT / "docs/decisions").glob("*.md")),
    *sorted(p for p in DEPLOYED.rglob("*") if p.suffix in {".yaml", ".json", ".txt", ".tpl"}),
    *(ROOT / "infra" / name for name in ("topology.yaml", "compose.yaml")),
]
"""Pages, and all other files that name options, keys, metrics and alerts."""
PROGRAMS = frozenset(
    {
        *("inorder", "make", "helm", "kubectl", "docker", "pip", "python"),
        *("spark-submit", "openssl", "printf", "cat", "export", "umask"),
    }
)
BLOCK = re.compile(r"^```(?P<kind>\w*)\n(?P<lines>.*?)^```", re.M | re.S)
NAME = re.compile(r"[^\s\"'`(){}\[\],]*[-_.:][^\s\"'`(){}\[\],]*")
SPAN = re.compile(r"`(?P<said>[^`\n]+)`")
ALTERNATIVES = re.compile(r"(?<=\w)(\|\w+)+")
"""Alternatives as in `sink redis|postgres|files`, of which the first stands for all."""
ENDS = frozenset({"|", ";", "&&", "||", "&", "(", ")"})
"""Marks at which a command ends."""
WRITES = frozenset({">", ">>", "<"})
SHELLS = frozenset({"", "console", "sh", "bash"})
LEFT_OUT = ("…", "...")


class Command(NamedTuple):
    """A command on a page.

    `words` are those that a shell would pass; `is_whole` is true in a block if nothing is left out.
    """

    page: str
    line: int
    words: tuple[str, ...]
    is_whole: bool

    @property
    def program(self) -> str:
        return program_of(self.words[0])

    def __str__(self) -> str:
        return f"{self.page}:{self.line}: {shlex.join(self.words)}"


def program_of(word: str) -> str:
    return word.removeprefix(".venv/bin/").removeprefix("./")


def commands_of(page: Path, root: Path = ROOT) -> list[Command]:
    text = page.read_text(encoding="utf-8")
    name = str(page.relative_to(root))
    return [*_in_blocks(name, text), *_in_texts(name, text)]


def spans_of(page: Path) -> list[str]:
    """Return the backquoted spans of a page's text.

    A file that is not a page also gives each word that can only be a name.
    """
    text = page.read_text("utf-8")
    spans = [span["said"] for span in SPAN.finditer(_without_blocks(text))]
    return spans if page.suffix == ".md" else [*spans, *NAME.findall(text)]


def _without_blocks(text: str) -> str:
    """Return the text without its blocks, but with as many lines as before."""
    return BLOCK.sub(lambda block: "\n" * block[0].count("\n"), text)


def _in_blocks(page: str, text: str) -> Iterator[Command]:
    for block in BLOCK.finditer(text):
        if block["kind"] not in SHELLS:
            continue
        first = text.count("\n", 0, block.start("lines")) + 1
        lines = block["lines"].split("\n")
        is_console = any(line.startswith("$ ") for line in lines)
        at = 0
        while at < len(lines):
            line, number = lines[at], first + at
            at += 1
            if is_console:
                if not line.startswith("$ "):
                    continue
                line = line[2:]
            words = line.split()
            if not words or program_of(words[0]) not in PROGRAMS:
                continue
            while not _is_over(line) and at < len(lines):
                line = f"{line.removesuffix(chr(92))}\n{lines[at]}"
                at += 1
            for part in _parts(line):
                if part and program_of(part[0]) in PROGRAMS:
                    yield Command(page, number, part, not any(map(leaves_out, part)))


def _in_texts(page: str, text: str) -> Iterator[Command]:
    bare = _without_blocks(text)
    for span in SPAN.finditer(bare):
        said = ALTERNATIVES.sub("", span["said"])
        if program_of(said.split(" ")[0]) in PROGRAMS and _is_over(said):
            words = next(_parts(said))
            yield Command(page, bare.count("\n", 0, span.start()) + 1, words, is_whole=False)


def _is_over(line: str) -> bool:
    if line.endswith("\\"):
        return False
    try:
        shlex.split(line, comments=True)
    except ValueError:  # The line ends within quotes.
        return False
    return True


def _parts(line: str) -> Iterator[tuple[str, ...]]:
    """Yield each command of a line, without its redirections."""
    reader = shlex.shlex(line, posix=True, punctuation_chars=True)
    reader.whitespace_split = True
    part: list[str] = []
    is_name = False
    for word in reader:
        if word in ENDS:
            yield tuple(part)
            part = []
        elif word in WRITES:
            is_name = True
        elif is_name:
            is_name = False
        else:
            part.append(word)
    yield tuple(part)


def leaves_out(word: str) -> bool:
    return any(mark in word for mark in LEFT_OUT)
