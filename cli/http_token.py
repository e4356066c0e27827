"""Finds the token of HTTP ports, passes it to stages, and sends requests with it.

Importing this module loads no HTTP server.
"""

from __future__ import annotations

import os
import urllib.error
import urllib.request

from agents.watch.port.token import (
    FILE_VARIABLE,
    VARIABLE,
    TokenRefused,
    make_bearer_headers,
    token_in,
)
from cli.topology_file import refusing


def read_http_token() -> str | None:
    """Return the token that clients of the HTTP port must send, or None if none is set.

    Raises `Refused` if the token in the environment is not valid.
    """
    with refusing(TokenRefused):
        return token_in(os.environ)


def fetch(address: str, path: str, timeout_s: float) -> tuple[int, str]:
    """Request the path from HOST:PORT, and return the status and the text of the answer.

    Raises `OSError` if nobody listens there.
    """
    request = urllib.request.Request(
        f"http://{address}{path}", headers=make_bearer_headers(read_http_token())
    )
    try:
        with urllib.request.urlopen(request, timeout=timeout_s) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def export_token(token: str | None) -> None:
    """Pass the token itself in the environment of the stages, because its file may change."""
    if token is not None:
        os.environ[VARIABLE] = token
        os.environ.pop(FILE_VARIABLE, None)
