"""The token of HTTP ports, for who serves one and for who asks one. Loads no server."""

from __future__ import annotations

import os

from agents.watch.port.token import FILE_VARIABLE, VARIABLE, TokenRefused, token_in
from cli.topology_file import Refused


def http_token() -> str | None:
    """What who asks the port has to have, None where nothing is asked for; `Refused` where what
    the environment has is no token."""
    try:
        return token_in(os.environ)
    except TokenRefused as error:
        raise Refused(str(error)) from error


def hand_on(token: str | None) -> None:
    """Stages are to ask for this very one, though the file that it came from may change."""
    if token is not None:
        os.environ[VARIABLE] = token
        os.environ.pop(FILE_VARIABLE, None)
