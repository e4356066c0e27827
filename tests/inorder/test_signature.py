"""Examples and laws: signatures of records, signing keys, and files of master keys."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inorder import signature
from inorder.contract import PRESETS, HeaderContract
from inorder.header_writer import HeaderWriter
from inorder.signature import Mac, signed_content, signed_names
from inorder.signing_keys import (
    MAX_FILE_BYTES,
    BadSigningKey,
    SigningKey,
    parse_master_keys,
    read_key_file,
    signing_key,
)

NAMES = PRESETS["plain"]
ORDER = signed_names(NAMES)
MASTER = bytes(range(32))
PAYLOAD = b'{"force": 12.5}'
HEADERS = [
    ("sourceId", b"press-7"),
    ("seqNum", b"17"),
    ("ts", b"1700000000000000000"),
    ("epoch", b"1700000000"),
]


def test_signed_bytes_match_documentation() -> None:
    content = signed_content(ORDER, dict(HEADERS), PAYLOAD)
    assert content.hex() in "".join((signature.__doc__ or "").split())


@pytest.mark.parametrize(
    ("kind", "name", "begin"),
    [("source", "press-7", b"hmac-sha256-128:"), ("prefix", "press-", b"hmac-sha256-128:6:")],
)
def test_signature_matches_plain_hmac(kind: Any, name: str, begin: bytes) -> None:
    """A user without this package would compute the signature with this code."""
    sizes = b"".join(size.to_bytes(4, signed=True) for size in (-1, 7, 10, 2, 19, -1, -1, 15))
    said = b'press-71700000000171700000000000000000{"force": 12.5}'
    key = hmac.new(MASTER, f"{kind} {name}".encode(), hashlib.sha256).digest()
    tag = hmac.new(key, b"inorder-1" + sizes + said, hashlib.sha256).hexdigest()[:32]
    line = signing_key(MASTER, kind, name)
    assert line == f"{kind} {key.hex()} {name}"
    assert SigningKey.parse(line).signature(NAMES, HEADERS, PAYLOAD) == begin + tag.encode()


@given(st.binary(min_size=1, max_size=200), st.binary(max_size=300))
def test_law_mac_matches_hmac(key: bytes, content: bytes) -> None:
    assert Mac(key).tag(content) == hmac.digest(key, content, "sha256")[:16]


FIELD = st.none() | st.binary(max_size=4) | st.sampled_from([b"1", b"12", b"-", b"1 1\n"])
RECORD = st.tuples(*[FIELD] * 8)


def _content(fields: tuple[bytes | None, ...]) -> bytes:
    names = (NAMES.stream, NAMES.source, NAMES.epoch, NAMES.seq, NAMES.ts, NAMES.type, NAMES.kind)
    return signed_content(ORDER, dict(zip(names, fields[:7], strict=True)), fields[7])


@given(RECORD, RECORD)
def test_law_signed_bytes_are_unique(
    one: tuple[bytes | None, ...], other: tuple[bytes | None, ...]
) -> None:
    assert (_content(one) == _content(other)) == (one == other)


def test_headers_are_signed_as_written() -> None:
    key = SigningKey.parse(signing_key(MASTER, "source", "s"))
    for contract in (HeaderContract(), HeaderContract(preset="cloudevents", sig="who")):
        names = contract.names()
        plain = HeaderWriter(contract)
        signing = HeaderWriter(contract, key)
        said = {"ts_ns": 5, "epoch": 1, "stream": "x", "type": "A", "kind": "bye", "value": b"v"}
        headers = signing.write("s", 3, **said)  # type: ignore[arg-type]
        assert [h for h in headers if h[0] != names.sig] == plain.write("s", 3, **said)  # type: ignore[arg-type]
        assert headers[-1] == (names.sig, key.signature(names, headers[:-1], b"v"))


def test_key_covers_its_sources() -> None:
    own = SigningKey.parse(signing_key(MASTER, "source", "press-7"))
    assert [own.speaks_for(name) for name in ("press-7", "press-", "press-77")] == [
        True,
        False,
        False,
    ]
    group = SigningKey.parse(signing_key(MASTER, "prefix", "press-"))
    assert [group.speaks_for(n) for n in ("press-7", "press-", "Press-7")] == [True, True, False]
    everybody = SigningKey.parse(signing_key(MASTER, "prefix", ""))
    assert everybody.speaks_for("anybody")
    assert repr(own) == "SigningKey(source 'press-7')"


HEX = MASTER.hex()


@pytest.mark.parametrize(
    ("read", "text", "says"),
    [
        (SigningKey.parse, "", "not a signing key"),
        (SigningKey.parse, HEX, "not a signing key"),
        (SigningKey.parse, f"gateway {HEX} a", "not a signing key"),
        (SigningKey.parse, f"source {HEX}", "not a signing key"),
        (SigningKey.parse, f"source {HEX} ", "at most 256 bytes"),
        (SigningKey.parse, f"source {HEX} {'x' * 257}", "at most 256 bytes"),
        (SigningKey.parse, f"source {HEX[2:]} a", "32 bytes, but this one has 31"),
        (SigningKey.parse, f"source {'g' * 64} a", "is not hex"),
        (parse_master_keys, "", "there is no master key"),
        (parse_master_keys, "# none\n\n", "there is no master key"),
        (parse_master_keys, f"{HEX}\nxyz\n", "line 2 is not hex"),
        (parse_master_keys, f"{HEX[:30]}\n", "line 1 has 15 bytes"),
        (parse_master_keys, f"{'ab' * 65}\n", "line 1 has 65 bytes"),
        (parse_master_keys, f"{HEX}\n{HEX}\n", "line 2 has a master key a second time"),
        (parse_master_keys, "".join(f"{n:032x}\n" for n in range(5)), "5 master keys are too many"),
    ],
)
def test_refusal_hides_the_secret(read: Callable[[str], object], text: str, says: str) -> None:
    with pytest.raises(BadSigningKey, match=says) as refused:
        read(text)
    assert HEX[:30] not in str(refused.value)


def test_source_name_can_have_spaces(tmp_path: Path) -> None:
    (tmp_path / "key").write_text(signing_key(MASTER, "source", "press 7") + "\n")
    assert SigningKey.read(tmp_path / "key").name == "press 7"


def test_master_keys_keep_their_order(tmp_path: Path) -> None:
    """Files that are missing, too large or not UTF-8 are refused."""
    assert parse_master_keys(f"# since May\n{'ab' * 16}\n\n  {HEX}  \n") == (b"\xab" * 16, MASTER)
    with pytest.raises(BadSigningKey, match="No such file"):
        read_key_file(tmp_path / "absent")
    (tmp_path / "latin").write_bytes(b"\xff")
    with pytest.raises(BadSigningKey, match="not UTF-8"):
        read_key_file(tmp_path / "latin")
    (tmp_path / "large").write_bytes(b"#" * (MAX_FILE_BYTES + 1))
    with pytest.raises(BadSigningKey, match="larger than"):
        read_key_file(tmp_path / "large")
