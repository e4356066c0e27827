"""Laws: every decoder agrees with the scanner on each object that the scanner accepts, and common
objects are accepted.
"""

from __future__ import annotations

import json
from random import Random
from typing import Any

import msgspec
import orjson
import pytest

pytest.importorskip("codec.native.scanner", reason="the compiled codec is not built")

from codec.native.scanner import Scanner
from tests.codec.logs import FIRST, SEEDS
from topology.base.payload import MAX_SCANNED, read_payload

NAMES = ("device", "n", "\xe4", "")
SCALARS: list[Any] = [
    "s1", "", "x" * 9, "\xe4\u20ac\U0001f600", 'a"b', "a\\b", "\n", "\x7f", "\u2028", 0, 7, -7, 1.5,
    -1.5, 0.1, 1e22, 1e-7, 10**17 - 1, 10**17, 2**63, True, False, None,
]  # fmt: skip
PARTS = [b'{"n":1', b",", b":", b"}", b"]", b'"', b"\\", b"\\u0061", b"-0", b"1e5", b"1E+05", b" "]
PARTS += [
    b"\t\r\n",
    b"\xff",
    b"\xc0\xaf",
    b"\xed\xa0\x80",
    b"\xf4\x90\x80\x80",
    b"nul",
    b"01",
    b".",
]
PARTS += [
    b"\xc3\xa4",
    b"\x00",
    b"\x1f",
    b'"n":2',
    b"NaN",
    b"1e400",
    b"//",
    b"\xef\xbb\xbf",
    b"[",
    b"{",
]


def value_of(dice: Random, depth: int = 0) -> Any:
    if depth < 3 and dice.random() < (0.2 if depth else 0.05):
        items = [value_of(dice, depth + 1) for _ in range(dice.randrange(3))]
        return items if dice.random() < 0.5 else {dice.choice((*NAMES, "o")): i for i in items}
    return dice.choice(SCALARS)


def text_of(dice: Random) -> bytes:
    fields = {dice.choice((*NAMES, "other", "a\\b")): value_of(dice) for _ in range(4)}
    separators = dice.choice([(",", ":"), (" , ", "\t: "), (",\r\n", ": ")])
    text = json.dumps(fields, ensure_ascii=dice.random() < 0.1, separators=separators).encode()
    for _ in range(dice.choice([0, 0, 1, 2])):
        begin = dice.randrange(len(text) + 1)
        end = begin + dice.choice([0, 0, 1, 2, 9])
        text = text[:begin] + dice.choice(PARTS) + text[end:]
    return text


@pytest.mark.parametrize("seed", range(FIRST, FIRST + SEEDS))
def test_law_decoders_agree_with_scanner(seed: int) -> None:
    dice = Random(seed)
    scan = Scanner(NAMES).read
    plain = 0
    for _ in range(2_000):
        text = text_of(dice)
        found = scan(text)
        if found is None:
            continue
        plain += 1
        for whole in (read_payload(text), msgspec.json.decode(text), json.loads(text)):
            wanted = {name: whole[name] for name in NAMES if name in whole}
            assert repr([found.get(name) for name in wanted]) == repr([*wanted.values()]), text
            assert found.keys() == wanted.keys(), text
    assert plain > 200


@pytest.mark.parametrize(
    "text",
    [
        b"{}",
        b' {"n" : 1 } ',
        b'{"device":"s1","n":7,"at":1795878419999,"x":[1,-2.5,{"y":null}],"z":"\\"\\n"}',
        '{"device":"\xe4\u20ac\U0001f600","other":"\xdf"}'.encode(),
        b'{"n":12345678901234567,"x":-1.5e-07,"y":0.1,"z":0}',
        b'{"n":1,"n":2}',
        b'{"a":' + b"[" * 31 + b"]" * 31 + b"}",
    ],
)
def test_common_objects_are_accepted(text: bytes) -> None:
    whole = orjson.loads(text)
    assert Scanner(NAMES).read(text) == {name: whole[name] for name in NAMES if name in whole}


@pytest.mark.parametrize(
    "text",
    [
        b"", b" ", b"[1]", b"1", b"null", b"{", b'{"n"', b'{"n":', b'{"n":1', b'{"n":1,}', b"{,}",
        b'{"n":1}x', b'{"n":1}{', b'{n:1}', b"{'n':1}", b'{"n" 1}', b'{"n":1 "m":2}',
        b'{"n":01}', b'{"n":-0}', b'{"n":-0.0}', b'{"n":+1}', b'{"n":1.}', b'{"n":.1}', b'{"n":1e}',
        b'{"n":123456789012345678}', b'{"n":1e100}', b'{"o":1e400}', b'{"n":NaN}', b'{"n":tru}',
        b'{"n":{}}', b'{"n":[]}', b'{"n":"\\n"}', b'{"o":"\\u0041"}', b'{"o":"\\x"}', b'{"o":"\\',
        b'{"\\n":1}', b'{"o":"\x1f"}', b'{"o":"\xff"}', b'{"o":"\xc0\xaf"}',
        b'{"o":"\xed\xa0\x80"}',
        b'{"o":"\xf4\x90\x80\x80"}', b'{"o":"\xe2\x82"}', b'{"o":"\xe2\x82', b'{"o":[1,]}',
        b'{"o":[1}}', b'{"o":{"p":1]}', b'{"o":{1:2}}', b'{"a":' + b"[" * 32 + b"]" * 32 + b"}",
        b"\xef\xbb\xbf{}", b'{"n":1}\x00',
    ],
)  # fmt: skip
def test_unsupported_texts_are_refused(text: bytes) -> None:
    assert Scanner(NAMES).read(text) is None


def test_truncated_texts_are_refused() -> None:
    text = b'{"device":"12345678","n":12345678901234567,"o":[true,false,null,"\xc3\xa4"]}'
    assert Scanner(NAMES).read(text) is not None
    assert {Scanner(NAMES).read(text[:size]) for size in range(len(text))} == {None}


def test_number_of_names_is_bounded() -> None:
    names = [f"n{at}" for at in range(MAX_SCANNED)]
    text = json.dumps(dict.fromkeys(names, 1)).encode()
    assert Scanner(names).read(text) == dict.fromkeys(names, 1)
    with pytest.raises(ValueError, match="17 names, and 16 are allowed"):
        Scanner([*names, "more"])
