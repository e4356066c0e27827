"""Reads the keys of signed streams from the environment or from files.

Master keys (`inorder.signature`) are in the file that `INORDER_MASTER_KEYS_FILE` names, or in
`INORDER_MASTER_KEYS`, separated by white space. A signing key is in
`INORDER_SIGNING_KEY_FILE` or `INORDER_SIGNING_KEY`. Neither comes from the command line or the
topology file. Keys are read once, at the start: a worker needs a restart to learn a new one. A key
file that everybody on the machine can read causes a warning.

Only readers of input topics need master keys: the first stage, `inorder dump`, and the backfill of
an archive.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from stat import S_IROTH
from typing import Final

from inorder.signing_keys import BadSigningKey, SigningKey, parse_master_keys, read_key_file

log = logging.getLogger(__name__)

MASTERS: Final = "INORDER_MASTER_KEYS"
SIGNING_KEY: Final = "INORDER_SIGNING_KEY"
FILE: Final = "_FILE"


class KeysRefused(ValueError):
    """Invalid keys; the message names the variable and what to write, but no key."""


def masters_in(environment: Mapping[str, str]) -> tuple[bytes, ...]:
    """Return the master keys, the newest first; no keys if neither variable is set."""
    place, given = _find_given(MASTERS, environment)
    if given is None:
        return ()
    try:
        return parse_master_keys("\n".join(given.split()) if place == MASTERS else given)
    except BadSigningKey as error:
        raise KeysRefused(f"{place}: {error}") from error


def signing_key_in(environment: Mapping[str, str]) -> SigningKey | None:
    place, given = _find_given(SIGNING_KEY, environment)
    try:
        return None if given is None else SigningKey.parse(given)
    except BadSigningKey as error:
        raise KeysRefused(f"{place}: {error}") from error


def _find_given(variable: str, environment: Mapping[str, str]) -> tuple[str, str | None]:
    """Return the name of the variable that is set, with its file if any, and the value."""
    value, path = environment.get(variable), environment.get(variable + FILE)
    if value is not None and path is not None:
        raise KeysRefused(f"{variable} and {variable}{FILE} are both set; leave one out")
    if path is None:
        return variable, value
    try:
        content = read_key_file(path)
        if Path(path).stat().st_mode & S_IROTH:
            log.warning(
                "%s%s: every user of this machine can read %s; run chmod 600 on it",
                variable,
                FILE,
                path,
            )
    except OSError as error:
        raise KeysRefused(f"{variable}{FILE}: {path}: {error.strerror}") from error
    except BadSigningKey as error:
        raise KeysRefused(f"{variable}{FILE}: {error}") from error
    return f"{variable}{FILE}: {path}", content
