"""Examples: docs/reference/sync_protocol.md shows the packet as it is, and a program that works."""

from __future__ import annotations

import contextlib
import io
import json
import re
import struct

from inorder.sync.packet import LAYOUT, REPORT, SIZE, Packet
from producers.sync_server.answering import sample_line
from tests import ROOT
from tests.inorder.sync.sockets import serving

PAGE = (ROOT / "docs/reference/sync_protocol.md").read_text(encoding="utf-8")
ROW = re.compile(r"^\| (\d+) \| (\d+) \| ", re.M)


def test_the_table_has_the_fields_of_the_packet() -> None:
    rows = [(int(at), int(size)) for at, size in ROW.findall(PAGE)]
    sizes = [struct.calcsize(f">{form}") for form in re.findall(r"\d*[A-Za-z]", LAYOUT.format)]
    assert [size for _, size in rows] == sizes
    assert [at for at, _ in rows] == [sum(sizes[:number]) for number in range(len(sizes))]
    assert sum(sizes) == SIZE


def test_the_program_does_a_round() -> None:
    ((code, printed),) = re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)```", PAGE, re.S)
    said = io.StringIO()
    with serving() as server, contextlib.redirect_stdout(said):
        exec(compile(code.replace("4123", str(server.port)), "sync_protocol.md", "exec"), {})
    assert said.getvalue() == printed
    assert [sample.source for sample in server.taken] == ["press-7"]


def test_a_sample_has_the_keys_of_the_page() -> None:
    (shown,) = map(json.loads, re.findall(r"```json\n(.*?)```", PAGE, re.S))
    t1, t2, t3, t4, mono = (shown[name] for name in ("t1", "t2", "t3", "t4", "mono"))
    packet = Packet(REPORT, 0, 0, 1, 0, 0, 1, t1, t2, t3, t4, mono, "press-7")
    assert sample_line(packet, "sync-1") == shown
