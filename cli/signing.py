"""Reads the keys of signed streams, for commands that check or sign.

Missing or faulty keys are refused at the start.
"""

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
    """Return the keys that verify signed streams of these topics; empty if no stream is signed."""
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
    """Return the key to sign with, None if the environment has none."""
    with refusing(KeysRefused):
        return signing_key_in(os.environ)
