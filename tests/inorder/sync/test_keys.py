"""Examples: the keys in a key file, and the errors for a bad one."""

from __future__ import annotations

from pathlib import Path

import pytest

from inorder.sync.keys import BadKeys, KeyRing
from tests.inorder.sync.key_file import key_table

SECRET = "0123456789abcdef" * 4
OTHER = "fedcba9876543210" * 4


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("", "keys: contains no key; write each as: [[key]]"),
        ("# only this\n\n", "contains no key"),
        (f"1 {SECRET} s1", "keys: Expected '=' after a key in a key/value pair (at line 1, column"),
        ("[[key]]\nid = 7", "table 1: `secret` is missing; write each key as:"),
        ("[[keys]]\nid = 7", "the file: 'keys' is not allowed here"),
        (key_table(1, SECRET) + "source = 's1'", "table 1: 'source' is not allowed here"),
        (key_table(1, SECRET) + "sources = 's1'", "table 1: `sources` is not a list of names"),
        (key_table(1, SECRET) + "sources = []", "key 1: `sources` is empty; name one, or leave it"),
        (key_table("'x'", SECRET), "table 1: `id` is not an integer from 1 to"),
        (key_table(0, SECRET), "table 1: `id` is not an integer from 1 to"),
        (
            key_table(1, OTHER) + key_table(4294967296, SECRET),
            "table 2: `id` is not an integer from 1 to",
        ),
        (
            key_table(1, "s3cr3t"),
            "the secret of key 1 is not hex; make one with: openssl rand -hex",
        ),
        (key_table(1, "abf"), "is not hex"),
        (key_table(1, "abfe"), "the secret of key 1 has 2 bytes, not 16 to 64"),
        (key_table(1, "ab" * 65), "has 65 bytes"),
        (key_table(1, SECRET) + key_table(1, OTHER), "keys: key 1 occurs twice"),
        (key_table(1, SECRET, "x" * 65), "key 1: "),
        (key_table(1, SECRET, "x" * 65), "its name has 65 bytes"),
        (f"[[key]]\nid = 1\nsecret = {SECRET}", "at line 3"),
        (f"[[key]]\nid = 1\nsecret = '{SECRET}", "(at end of document)"),
    ],
)
def test_bad_key_file_is_refused(content: str, told: str) -> None:
    with pytest.raises(BadKeys) as refused:
        KeyRing.parse(content)
    assert told in str(refused.value)
    for secret in (SECRET, "s3cr3t", "abf", "abab"):
        assert secret not in str(refused.value)  # Secrets must not appear in logs.


def test_unreadable_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadKeys, match=r"absent: No such file or directory; name a readable"):
        KeyRing.read(tmp_path / "absent")
    with pytest.raises(BadKeys, match="Is a directory"):
        KeyRing.read(tmp_path)
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(BadKeys, match="not UTF-8"):
        KeyRing.read(tmp_path / "binary")
    (tmp_path / "short").write_text(key_table(1, SECRET) + key_table(2, SECRET[:10]))
    with pytest.raises(BadKeys, match="short: the secret of key 2 has 5 bytes"):
        KeyRing.read(tmp_path / "short")


def test_key_admits_only_its_sources(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    both = key_table(1, SECRET, "s1", "two words")
    path.write_text(f"# press hall\n{both}{key_table(2, OTHER)}{key_table(3, SECRET, 's1')}")
    keys = KeyRing.read(str(path))
    assert len(keys) == 3
    admitted = {
        (key_id, source)
        for key_id in (0, 1, 2, 3, 4)
        for source in ("s1", "two words", "anybody")
        if keys.admits(key_id, source)
    }
    # The group key does not admit sources that have their own keys.
    assert admitted == {(1, "s1"), (3, "s1"), (1, "two words"), (2, "anybody")}
    assert [keys.of(source).id for source in ("s1", "two words", "anybody")] == [3, 1, 2]
