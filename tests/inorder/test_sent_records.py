"""Examples: the records that a source keeps for resending are found, bounded and crash-safe."""

from __future__ import annotations

import logging
import os
import signal
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from inorder.failure import JournalError
from inorder.sent_records import COMMIT_RECORDS, RECORD_BYTES, Sent, SentRecords
from tests.kit.programs import python

PLENTY = 1 << 20


def sent(seq: int, epoch: int = 1, payload: bytes | None = b"x") -> Sent:
    return Sent(epoch, seq, 1_000 + seq, "A", "", payload)


def kept_in(folder: Path, max_bytes: int = PLENTY, source: str = "s1") -> SentRecords:
    return SentRecords(folder / "kept", source, "default", max_bytes)


def numbers(kept: SentRecords, epoch: int, first: int, last: int) -> list[int]:
    return [each.seq for each in kept.read_range(epoch, first, last)]


def test_records_are_found_in_order(tmp_path: Path) -> None:
    heartbeat = Sent(2, 0, 5, "", "heartbeat", None)
    with closing(kept_in(tmp_path / "deep")) as kept:
        for each in (sent(3), sent(1), sent(2), heartbeat):
            kept.add(each)
        assert list(kept.read_range(1, 2, 9)) == [sent(2), sent(3)]
        assert list(kept.read_range(2, 0, 0)) == [heartbeat]
        assert numbers(kept, 3, 0, 9) == []


def test_reading_crosses_batches(tmp_path: Path) -> None:
    count = 2 * COMMIT_RECORDS + 7
    with closing(kept_in(tmp_path)) as kept:
        for seq in range(count):
            kept.add(sent(seq))
        assert numbers(kept, 1, 0, 10 * count) == list(range(count))


def test_records_survive_restart(tmp_path: Path) -> None:
    with closing(kept_in(tmp_path)) as kept:
        kept.add(sent(0))
        kept.note_answered(3, 17)
    with closing(kept_in(tmp_path)) as kept:
        assert (numbers(kept, 1, 0, 0), kept.next_offset_of(3), kept.next_offset_of(4)) == (
            [0],
            17,
            None,
        )
        assert kept.bytes == 1 + 1 + RECORD_BYTES


def test_oldest_records_are_dropped(tmp_path: Path) -> None:
    with closing(kept_in(tmp_path, 100_000)) as kept:
        for epoch in (1, 2):
            for seq in range(300):
                kept.add(sent(seq, epoch, bytes(1_000)))
        kept.commit()
        assert kept.bytes <= 100_000
        left = numbers(kept, 2, 0, 300)
        assert numbers(kept, 1, 0, 300) == []
        assert left == list(range(left[0], 300))
        assert 80 < len(left) < 100
    with closing(kept_in(tmp_path, 100_000)) as kept:
        assert kept.bytes == len(left) * (1_000 + 1 + RECORD_BYTES)


def test_kill_keeps_committed_records(tmp_path: Path) -> None:
    script = (
        "import os, signal, sys; from pathlib import Path\n"
        "from inorder.sent_records import Sent, SentRecords\n"
        "kept = SentRecords(Path(sys.argv[1]), 's1', 'default', 1 << 20)\n"
        "for seq in range(9): kept.add(Sent(1, seq, 0, '', '', b''))\n"
        "kept.commit(); kept.add(Sent(1, 9, 0, '', '', b''))\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = python("-c", script, tmp_path / "kept")
    assert done.returncode == -signal.SIGKILL
    with closing(kept_in(tmp_path)) as kept:
        assert numbers(kept, 1, 0, 99) == list(range(9))


def test_forked_child_harms_no_file(tmp_path: Path) -> None:
    kept = kept_in(tmp_path)
    kept.add(sent(0))
    kept.commit()
    child = os.fork()
    if child == 0:
        del kept
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    kept.add(sent(1))
    assert numbers(kept, 1, 0, 9) == [0, 1]
    kept.close()


def test_foreign_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "kept"
    path.write_bytes(b"not a database, but long enough to be looked at" * 30)
    with pytest.raises(JournalError, match=r"kept: file is not a database; remove the file"):
        SentRecords(path, "s1", "default", PLENTY)
    other = tmp_path / "other"
    with closing(sqlite3.connect(other)) as db:
        db.execute("PRAGMA user_version = 99")
    with pytest.raises(JournalError, match="format 99 is not 1"):
        SentRecords(other, "s1", "default", PLENTY)


def test_file_has_one_owner(tmp_path: Path) -> None:
    kept = kept_in(tmp_path)
    with pytest.raises(JournalError, match="in use by another producer"):
        kept_in(tmp_path)
    kept.close()
    with pytest.raises(JournalError, match=r"keeps what source 's1' sent .* not 's2'"):
        kept_in(tmp_path, source="s2")
    kept_in(tmp_path).close()


def test_full_disk_is_tolerated(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    kept = kept_in(tmp_path)
    kept.add(sent(0))
    kept.commit()
    kept._db.execute("PRAGMA max_page_count = 1")  # As on a full disk, nothing more fits.
    with caplog.at_level(logging.ERROR, "inorder.producers"):
        for seq in range(1, 50):
            kept.add(sent(seq, payload=bytes(10_000)))
        kept.commit()
    assert kept.not_kept > 0
    assert "records cannot be sent again" in caplog.text
    assert numbers(kept, 1, 0, 0) == [0]
    assert kept.bytes == 1 + 1 + RECORD_BYTES
    kept.close()
