"""The keys of signed streams, for the commands that check or sign: refused at the start where they
are none, or missing."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING

from agents.master_keys import KeysRefused, masters_in, signing_key_in
from cli.topology_file import Refused, refusing

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
    with refusing(KeysRefused):
        masters = masters_in(os.environ)
    if not masters:
        raise Refused(f"stream {signed[0]} is signed; {NO_MASTERS}")
    return masters


def signing_key() -> SigningKey | None:
    """What is to be signed with, None where nothing is."""
    with refusing(KeysRefused):
        return signing_key_in(os.environ)
