"""Write the reference of the topology file in Markdown, from its JSON schema."""

from __future__ import annotations

from collections import Counter
from itertools import chain
from typing import Any, Final

import yaml

from topology.answer.settings import AnswerSettings
from topology.config.reading import SECTIONS
from topology.config.reference import Document, schema
from topology.spelling.section import Section
from topology.spelling.values import MAX_INT

INTRO: Final = """\
# The topology file

One YAML file describes what runs. This page has all of its keys, with defaults in bold. Only
`streams` is required. `make docs-reference` generates this page; do not edit it.

```sh
inorder init EVENTS.jsonl                       # write a first file for recorded events
inorder check FILE                              # check the file, and print what would run
inorder check --defaults FILE                   # print the file with every default filled in
inorder check --schema > topology.schema.json   # write its JSON schema, for editors
```

An editor with YAML support checks a file that begins with
`# yaml-language-server: $schema=topology.schema.json`. A duration always has a unit: `500ms` (ns,
us, ms, s, min, h, d). A size has one too: `256MiB`. A share is `0.001` or `0.1%`.

A path of a query leads into the payload, like `payload.pos.x`. Backquotes enclose a name with a
blank, a dot or another sign, like ``payload.`Temp (°C)` ``. A backquote inside is doubled. A place
in `fields` has the same form, and may have a list item (`payload.a[0]`)."""
UNITS: Final = {"duration", "size", "rate", "share"}
HEAD: Final = "\n| key | value | |\n| --- | --- | --- |"


def page() -> str:
    """Return the reference in Markdown; the keys that kinds of queries share come before them."""
    described, parts = schema(), [INTRO]
    for path, sections in SECTIONS.items():
        title = ".".join("<name>" if part == "*" else str(part) for part in path)
        title = f"\n## `{title}`" if path else "\n## The file"
        tables = [
            _rows(described["$defs"].get(each.__name__, described), each) for each in sections
        ]
        times = Counter(chain.from_iterable(tables))
        shared = [row for row in times if times[row] > 1]
        parts += [title, HEAD, *shared] if shared else []
        for section, rows in zip(sections, tables, strict=True):
            kind = f" with `{section.kind}`" if issubclass(section, AnswerSettings) else ""
            parts += [title + kind, HEAD, *(row for row in rows if row not in shared)]
            also = ", ".join(row.split()[1] for row in rows if row in shared)
            parts += [f"\nAlso: {also}."] if also else []
    return "\n".join(parts) + "\n"


def _rows(described: Document, section: type[Section]) -> list[str]:
    entries = ((key, described["properties"][key]) for key in section.list_keys())
    return [f"| `{key}` | {_takes(of)} | {of['description']} |" for key, of in entries]


def _yaml(value: Any) -> str:
    if isinstance(value, str):
        return value
    return str(yaml.safe_dump(value, default_flow_style=True)).removesuffix("...\n").strip()


def _takes(entry: Document) -> str:
    inner = next((each for each in entry.get("anyOf", ()) if each.get("type") != "null"), entry)
    kind, most = inner.get("type"), inner.get("maximum", MAX_INT)
    if "$ref" in inner or kind in ("object", "array"):
        return "a list" if kind == "array" else "a section"
    parts = [each["title"] for each in (entry, inner) if each.get("title") in UNITS][:1]
    if kind == "integer":
        parts = [f"{inner['minimum']} to {most}" if most < MAX_INT else f"from {inner['minimum']}"]
    words = [_yaml(each) for each in inner.get("enum", [True, False] if kind == "boolean" else [])]
    if "default" in entry:
        parts.append(f"**`{_yaml(entry['default'])}`**")
    parts += [f"`{each}`" for each in words if f"**`{each}`**" not in parts]
    if not parts and (examples := {**inner, **entry}.get("examples")):
        parts = ["like " + ", ".join(f"`{each}`" for each in examples)]
    return ", ".join(parts) or "text"
