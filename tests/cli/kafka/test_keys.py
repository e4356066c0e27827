"""Examples: `inorder keys`, and commands that refuse to start without the master keys."""

from __future__ import annotations

from pathlib import Path

import pytest

from inorder.signing_keys import signing_key
from tests.cli.invoking import inorder

MASTER = "ab" * 32
SIGNED = "streams: {default: {input: raw, signed: true}}\n"


def test_names_and_prefixes_get_keys(tmp_path: Path) -> None:
    (tmp_path / "masters").write_text(f"{MASTER}\n{'cd' * 32}\n")
    env = {"INORDER_MASTER_KEYS_FILE": str(tmp_path / "masters")}
    done = inorder(
        "keys", "press-7", "press 8", "--prefix", "oven-", "--prefix", "", env=env
    ).well()
    master = bytes.fromhex(MASTER)  # the first key of the file
    made = [signing_key(master, "source", name) for name in ("press-7", "press 8")]
    made += [signing_key(master, "prefix", name) for name in ("oven-", "")]
    assert done.out.splitlines() == made


@pytest.mark.parametrize(
    ("arguments", "env", "says"),
    [
        ((), {"INORDER_MASTER_KEYS": MASTER}, "no name to make a key for"),
        (("s",), {}, "there is no master key"),
        (("s",), {"INORDER_MASTER_KEYS": "short"}, "is not hex"),
        (("",), {"INORDER_MASTER_KEYS": MASTER}, "a source's name is empty"),
        (("a\nb",), {"INORDER_MASTER_KEYS": MASTER}, "has a line feed in it"),
    ],
)
def test_bad_arguments_are_refused(
    arguments: tuple[str, ...], env: dict[str, str], says: str
) -> None:
    inorder("keys", *arguments, env=env).refused(says)


@pytest.mark.parametrize("command", ["worker", "dump", "spark live"])
def test_signed_stream_needs_master_keys(command: str, tmp_path: Path) -> None:
    (tmp_path / "t.yaml").write_text(SIGNED)
    reaching: list[str | Path] = ["--topology", tmp_path / "t.yaml", "--brokers", "127.0.0.1:1"]
    reaching += ["--out", tmp_path, "--checkpoint", tmp_path] if "live" in command else []
    inorder(*command.split(), *reaching).refused(
        "stream default is signed; name the file of the master keys in"
    )
    inorder(*command.split(), *reaching, env={"INORDER_MASTER_KEYS": "zz"}).refused(
        "INORDER_MASTER_KEYS: line 1 is not hex"
    )


def test_produce_refuses_a_master_key() -> None:
    reaching = ("--topic", "raw", "--brokers", "127.0.0.1:1")
    done = inorder("produce", *reaching, env={"INORDER_SIGNING_KEY": MASTER}).refused(
        "INORDER_SIGNING_KEY: this is not a signing key"
    )
    assert MASTER not in done.err
