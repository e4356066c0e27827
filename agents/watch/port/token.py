"""Reads the token that the web server requires, and checks its form.

The token comes from the environment variable `INORDER_HTTP_TOKEN`, or from a file that
`INORDER_HTTP_TOKEN_FILE` names, but never from the command line.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

VARIABLE: Final = "INORDER_HTTP_TOKEN"
FILE_VARIABLE: Final = "INORDER_HTTP_TOKEN_FILE"
SHORTEST: Final = 16
BEARER: Final = "Bearer "


class TokenRefused(ValueError):
    """The given token is invalid; the message says why."""


def make_bearer_headers(token: str | None) -> dict[str, str]:
    """Return the HTTP headers that send the token; no headers if `token` is None."""
    return {} if token is None else {"Authorization": f"{BEARER}{token}"}


def token_in(environment: Mapping[str, str]) -> str | None:
    """Return the token, or None if none is set.

    Raises TokenRefused if both variables are set, or if the token is too short or cannot be read.
    """
    given, path = environment.get(VARIABLE), environment.get(FILE_VARIABLE)
    if given is not None and path is not None:
        raise TokenRefused(f"{VARIABLE} and {FILE_VARIABLE} are both set; leave one out")
    if path is not None:
        try:
            given = Path(path).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise TokenRefused(f"{FILE_VARIABLE}: {path} cannot be read: {error}") from error
    if given is not None and not (len(given) >= SHORTEST and given.isascii() and given.isalnum()):
        raise TokenRefused(
            f"the token of {VARIABLE} needs {SHORTEST} or more ASCII letters and digits, such"
            " as the output of `openssl rand -hex 32`"
        )
    return given
