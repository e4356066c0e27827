"""A key file's text."""

from __future__ import annotations

import json


def key_table(key_id: int | str, secret: str, *sources: str) -> str:
    """One key of it; without sources a group key. Texts are spelled alike in JSON and TOML."""
    named = f"sources = {json.dumps(sources)}\n" if sources else ""
    return f"[[key]]\nid = {key_id}\nsecret = {json.dumps(secret)}\n{named}"
