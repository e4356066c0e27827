"""Examples: a producer's journal gives the epoch and number with which it starts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from inorder.failure import JournalError
from inorder.journal import Journal


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "s1.journal"


def opened(path: Path, first_epoch: int = 100) -> Journal:
    return Journal(path, "s1", "default", first_epoch)


def test_clean_close_keeps_epoch_and_number(path: Path) -> None:
    journal = opened(path)
    assert (journal.epoch, journal.next_seq) == (100, 0)
    journal.close(17)
    journal = opened(path, first_epoch=999)
    assert (journal.epoch, journal.next_seq) == (100, 17)
    journal.close(17)
    journal = opened(path)
    assert (journal.epoch, journal.next_seq) == (100, 17)
    journal.release()


def test_each_crash_starts_new_epoch(path: Path) -> None:
    opened(path).close(17)
    for epoch in (100, 101, 102):
        journal = opened(path)
        assert (journal.epoch, journal.next_seq) == (epoch, 17 if epoch == 100 else 0)
        journal.release()  # Like a crash, this releases the lock and writes nothing.


def test_crash_in_write_keeps_old_page(path: Path) -> None:
    opened(path).close(17)
    path.with_name(f"{path.name}.new").write_text('{"format":1,"so')
    journal = opened(path)
    assert journal.next_seq == 17
    journal.release()


def test_journal_in_use_is_refused(path: Path) -> None:
    journal = opened(path)
    with pytest.raises(JournalError, match="in use by another producer"):
        opened(path)
    journal.close(1)
    opened(path).release()


def page(**other: object) -> str:
    """Return a valid page with these fields changed."""
    sound = {"format": 1, "source": "s1", "stream": "default", "epoch": 1, "next_seq": 0}
    return json.dumps({**sound, **other})


@pytest.mark.parametrize(
    ("content", "says"),
    [
        pytest.param("", "cannot be read as a journal", id="empty"),
        pytest.param("hello", "cannot be read as a journal", id="not JSON"),
        pytest.param('{"epoch": 3}', "cannot be read as a journal", id="fields missing"),
        pytest.param(page(format=2), "of this version", id="another version"),
        pytest.param(page(next_seq=-4), "of this version", id="a negative number"),
        pytest.param(page(source="s2"), "belongs to source 's2'", id="another source"),
        pytest.param(page(stream="pitch"), "stream 'pitch'", id="another stream"),
        pytest.param(
            page(epoch=2**63 - 1, next_seq=None), f"not in 0..{2**63 - 1}", id="epochs used up"
        ),
    ],
)
def test_bad_journal_stays_unchanged(path: Path, content: str, says: str) -> None:
    path.write_text(content)
    with pytest.raises(JournalError, match=says):
        opened(path)
    assert path.read_text() == content
    path.unlink()
    opened(path).release()  # The lock is free too.


def test_unwritable_path_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(JournalError, match="cannot be locked"):
        opened(tmp_path / "file" / "s1.journal")
