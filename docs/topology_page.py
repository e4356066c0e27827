"""Write the reference of the topology file in Markdown, from its JSON schema."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import yaml

from topology.answer.settings import AnswerSettings
from topology.config.reading import SECTIONS
from topology.config.reference import Document, schema
from topology.spelling.problem import Path

INTRO: Final = """\
# The topology file

This page describes every key of the topology file. `make docs-reference` generates it from the
code; do not edit it. One YAML file describes what runs. Only `streams` is required, and an unknown
key is an error.

```sh
inorder check FILE              # check the file, and print what would run
inorder check --defaults FILE   # print the file with every default filled in
inorder check --schema          # print its JSON schema, for editors
inorder init EVENTS.jsonl       # write a first file for recorded events
```

For an editor with YAML support, run `inorder check --schema > topology.schema.json`. Then begin the
file with `# yaml-language-server: $schema=topology.schema.json`.

A duration always has a unit: `500ms` (ns, us, ms, s, min, h, d). A size has one too: `256MiB`. A
share is `0.001` or `0.1%`.

A path of a query leads into the payload, like `payload.pos.x`. Backquotes enclose a name with a
blank, a dot or another sign, like ``payload.`Temp (°C)` ``. A backquote inside is doubled. A place
in `fields` has the same form, and may have a list item (`payload.a[0]`).

See also: [time and watermarks](../concepts/watermarks.md), [how to connect your
data](../guides/connect.md), [what to monitor](../operate/alerts.md).
"""


def page() -> str:
    """Return the reference in Markdown."""
    described = schema()
    parts = [INTRO]
    for path, section in ((path, each) for path, of in SECTIONS.items() for each in of):
        of = described if not path else described["$defs"][section.__name__]
        entries = {key: of["properties"][key] for key in section.list_keys()}
        kind = f" with `{section.kind}`" if issubclass(section, AnswerSettings) else ""
        parts.append("\n".join(_section_lines(path, kind, entries)))
    return "\n".join(parts)


def _section_lines(path: Path, kind: str, entries: Document) -> Iterator[str]:
    title = ".".join("<name>" if part == "*" else str(part) for part in path)
    yield f"## `{title}`{kind}\n" if path else "## The file\n"
    yield "| key | default | takes | |"
    yield "| --- | --- | --- | --- |"
    for key, entry in entries.items():
        default = entry.get("default")
        shown = "" if default is None or isinstance(default, dict) else f"`{_yaml(default)}`"
        takes = _takes(entry).replace("|", "\\|")
        yield f"| `{key}` | {shown} | {takes} | {entry['description']} |"
    yield ""


def _yaml(value: Any) -> str:
    if isinstance(value, str):
        return value
    return str(yaml.safe_dump(value, default_flow_style=True)).removesuffix("...\n").strip()


def _takes(entry: Document) -> str:
    entry = next((each for each in entry.get("anyOf", ()) if each.get("type") != "null"), entry) | {
        key: entry[key] for key in ("title", "examples") if key in entry
    }
    title = str(entry.get("title", ""))
    if "enum" in entry:
        return ", ".join(f"`{_yaml(word)}`" for word in entry["enum"])
    if "$ref" in entry or entry.get("type") == "object":
        return "a section"
    if entry.get("type") == "integer":
        most = entry.get("maximum", 2**63 - 1)
        return f"integer from {entry['minimum']}" + (f" to {most}" if most < 2**62 else "")
    if entry.get("type") == "boolean":
        return "`true`, `false`"
    if entry.get("type") == "array":
        return "a list"
    examples = ", ".join(f"`{each}`" for each in entry.get("examples", ()))
    named = title if title in ("duration", "size", "rate", "share") else "text"
    return f"{named}, like {examples}" if examples else named


if __name__ == "__main__":
    print(page(), end="")
