"""The keys of signed streams, for the commands that check or sign: refused at the start where they
are none, or missing."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING

from agents.master_keys import KeysRefused, masters_in, signing_key_in
from cli.topology_file import Refused

if TYPE_CHECKING:
    from inorder.signing_keys import SigningKey
    from topology.config import Topology


def master_keys(topology: Topology, topics: Iterable[str]) -> tuple[bytes, ...]:
    """By which the signed streams of these input topics are checked; none where none is signed."""
    from agents.stage.arrangement import NO_MASTERS

    read = {*topics}
    signed = [name for name, s in topology.streams.items() if s.signed and s.input in read]
    if not signed:
        return ()
    try:
        masters = masters_in(os.environ)
    except KeysRefused as error:
        raise Refused(str(error)) from error
    if not masters:
        raise Refused(f"stream {signed[0]} is signed; {NO_MASTERS}")
    return masters


def signing_key() -> SigningKey | None:
    """What is to be signed with, None where nothing is."""
    try:
        return signing_key_in(os.environ)
    except KeysRefused as error:
        raise Refused(str(error)) from error
