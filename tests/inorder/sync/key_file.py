"""Write the text of a key file."""

from __future__ import annotations

import json


def key_table(key_id: int | str, secret: str, *sources: str) -> str:
    """Return the table of one key; without sources it is a group key.

    Strings are written as JSON, which TOML reads alike.
    """
    named = f"sources = {json.dumps(sources)}\n" if sources else ""
    return f"[[key]]\nid = {key_id}\nsecret = {json.dumps(secret)}\n{named}"
