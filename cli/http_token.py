"""The token of HTTP ports, for who serves one and for who asks one. Loads no server."""

from __future__ import annotations

import os
import urllib.error
import urllib.request

from agents.watch.port.token import FILE_VARIABLE, VARIABLE, TokenRefused, bearing, token_in
from cli.topology_file import refusing


def http_token() -> str | None:
    """What who asks the port has to have, None where nothing is asked for; `Refused` where what
    the environment has is no token."""
    with refusing(TokenRefused):
        return token_in(os.environ)


def answered(address: str, path: str, timeout_s: float) -> tuple[int, str]:
    """Return the status and the text of what the port at HOST:PORT answers; OSError if nobody is
    there."""
    request = urllib.request.Request(f"http://{address}{path}", headers=bearing(http_token()))
    try:
        with urllib.request.urlopen(request, timeout=timeout_s) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def hand_on(token: str | None) -> None:
    """Stages are to ask for this very one, though the file that it came from may change."""
    if token is not None:
        os.environ[VARIABLE] = token
        os.environ.pop(FILE_VARIABLE, None)
