"""`inorder keys` prints the keys with which sources sign, derived from the newest master key.

Each key is a line that `SigningKey.parse` reads. Nothing is stored, because the same master and
name always give the same key.
"""

from __future__ import annotations

import os

import click

from agents.master_keys import MASTERS, KeysRefused, masters_in
from cli.topology_file import Refused, refusing
from inorder.contract import source_name_fault
from inorder.signature import PREFIX, SOURCE
from inorder.signing_keys import signing_key


@click.command("keys")
@click.option(
    "--prefix",
    multiple=True,
    help="Print a key for all sources whose names begin with this (repeatable).",
)
@click.argument("sources", nargs=-1, metavar="[SOURCE…]")
def command(prefix: tuple[str, ...], sources: tuple[str, ...]) -> None:
    """Print the signing key of each SOURCE, for streams that are `signed`."""
    if not (prefix or sources):
        raise Refused("there is no name to make a key for; write a source's name, or --prefix")
    with refusing(KeysRefused):
        masters = masters_in(os.environ)
    if not masters:
        raise Refused(
            f"there is no master key; name a file with one in {MASTERS}_FILE"
            " (`openssl rand -hex 32`)"
        )
    for name in (*sources, *(each for each in prefix if each)):
        if (fault := source_name_fault(name)) or "\n" in name:
            raise Refused(f"{name!r}: {fault or 'has a line feed in it'}")
    for source in sources:
        click.echo(signing_key(masters[0], SOURCE, source))
    for each in prefix:
        click.echo(signing_key(masters[0], PREFIX, each))
