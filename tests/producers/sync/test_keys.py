"""Examples: what a key file says, and how a bad one is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from producers.sync.keys import BadKeys, KeyRing
from producers.sync.packet import NO_SEAL, REQ, UNKNOWN_MONO, Packet, body

SECRET = "0123456789abcdef" * 4
OTHER = "fedcba9876543210" * 4


def request(key_id: int, source: str = "s1") -> bytes:
    return body(Packet(REQ, 0, key_id, 1, 0, 0, 5, 10, 0, 0, 0, UNKNOWN_MONO, source))


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("", "keys: no key in it; write lines of: KEY-ID HEX-SECRET"),
        ("# only this\n\n", "no key in it"),
        ("7", "line 1: a key without a secret"),
        (f"\n\nx {SECRET}", "line 3: 'x' is no key id; write a whole number from 1 to 4294967295"),
        (f"0 {SECRET}", "'0' is no key id"),
        (f"4294967296 {SECRET}", "'4294967296' is no key id"),
        (f"-1 {SECRET}", "'-1' is no key id"),
        (f"{'9' * 100} {SECRET}", "is no key id"),
        ("1 s3cr3t", "the secret of key 1 is not hex; make one with: openssl rand -hex 32"),
        ("1 abf", "is not hex"),
        ("1 abfe", "the secret of key 1 has 2 bytes, not 16 to 64"),
        (f"1 {'ab' * 65}", "has 65 bytes"),
        (f"1 {SECRET}\n1 {OTHER}", "line 2: key 1 stands here twice"),
        (f"1 {SECRET} {'x' * 65}", "its name takes 65 bytes"),
        (f"1 {SECRET} 's1", "line 1: No closing quotation"),
        (f"1 {SECRET} 's1 # the press", "line 1: No closing quotation"),
        (f"\n1 {SECRET} #5", "keys, line 2: a '#' next to other characters; for a comment write"),
        (f"1 {SECRET} press#7", "if it belongs to a source's name put the name in quotes"),
        (f"1 {SECRET} press#", "a '#' next to"),
        (f"1 {SECRET}#", "a '#' next to"),
        (f"1 {SECRET}# s1", "a '#' next to"),
        (f"1 {SECRET[:32]}#{SECRET[32:]}", "a '#' next to"),
        (f"1# {SECRET}", "a '#' next to"),
        (f"1 {SECRET} s1 #comment", "a '#' next to"),
        (f"1 {SECRET} s1 ## comment", "a '#' next to"),
        (f"1 {SECRET} s1\u00a0# comment", "a '#' next to"),
        (f"1 {SECRET} 's1'# comment", "a '#' next to"),
        (f"1 {SECRET} s1 #'comment'", "a '#' next to"),
    ],
)
def test_a_bad_file(content: str, told: str) -> None:
    with pytest.raises(BadKeys) as refused:
        KeyRing.parse(content)
    assert told in str(refused.value)
    for secret in (SECRET, "s3cr3t", "abf", "abab"):
        assert secret not in str(refused.value)  # secrets do not go into logs


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(BadKeys, match=r"absent: No such file or directory; give a readable"):
        KeyRing.read(tmp_path / "absent")
    with pytest.raises(BadKeys, match="Is a directory"):
        KeyRing.read(tmp_path)
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(BadKeys, match="not UTF-8"):
        KeyRing.read(tmp_path / "binary")


def test_who_may_speak_for_whom(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    path.write_text(
        f"# press hall\n1 {SECRET} s1 'two words'  # both\n2 {OTHER}\n\n3 {SECRET} s1\n"
    )
    keys = KeyRing.read(path)
    assert len(keys) == 3
    admitted = {
        (key_id, source)
        for key_id in (0, 1, 2, 3, 4)
        for source in ("s1", "two words", "anybody")
        if keys.admits(key_id, source)
    }
    # The group key is not for those who have keys of their own.
    assert admitted == {(1, "s1"), (3, "s1"), (1, "two words"), (2, "anybody")}
    assert [keys.of(source).id for source in ("s1", "two words", "anybody")] == [3, 1, 2]


@pytest.mark.parametrize(
    ("line", "sources"),
    [
        (f"1 {SECRET} s1 # it's the press #5, \"new", ["s1"]),
        (f"1 {SECRET} s1 #", ["s1"]),
        (f"1 {SECRET}\ts1\t#\tthe press", ["s1"]),
        (f"1 {SECRET} 'press#7' \"#8\" hall\\#9", ["press#7", "#8", "hall#9"]),
        (f'1 {SECRET} \'press # 7\' "a \\" # b" # both', ["press # 7", 'a " # b']),
    ],
)
def test_comments_and_names_with_a_number_sign(line: str, sources: list[str]) -> None:
    commented = f"#9 {OTHER}\n  # 8 {OTHER} 's\n{line}\n##\n"
    keys = KeyRing.parse(commented)
    assert len(keys) == 1
    assert [keys.of(source).id for source in sources] == [1] * len(sources)
    assert not keys.admits(1, "anybody")  # no group key came of it


def test_a_path_may_be_text(tmp_path: Path) -> None:
    (tmp_path / "keys").write_text(f"1 {SECRET} s1\n")
    assert KeyRing.read(str(tmp_path / "keys")).of("s1").id == 1


def test_a_source_without_a_key_is_told() -> None:
    keys = KeyRing.parse(f"1 {SECRET} s1")
    with pytest.raises(BadKeys, match="no key for source 's2'; add it"):
        keys.of("s2")


def test_signatures() -> None:
    keys = KeyRing.parse(f"1 {SECRET}\n2 {OTHER}")
    one, two = keys.key(1), keys.key(2)
    assert one is not None
    assert two is not None
    raw = one.signed(request(1))
    assert one.has_signed(raw)
    assert not two.has_signed(raw)
    for at in (0, 5, 100, 159, 160, 175):
        assert not one.has_signed(raw[:at] + bytes([raw[at] ^ 1]) + raw[at + 1 :])
    assert not one.has_signed(raw[:160] + NO_SEAL)


def test_without_keys_everybody_may_and_the_signature_is_empty() -> None:
    keys = KeyRing.open_to_all()
    assert keys.admits(0, "anybody")
    key = keys.of("anybody")
    raw = key.signed(request(0))
    assert raw.endswith(NO_SEAL)
    assert key.has_signed(raw)
    assert not key.has_signed(raw[:-1] + b"\1")
    assert keys.key(1) is None
