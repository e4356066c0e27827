"""Keeps the marks of readers (`sinks.marks`) in a folder of results.

`_marks-<digest of group and topic>` has a line of LINE_BYTES for each partition, which is its next
offset. A line is overwritten in place and synced, after the journal. So a crash leaves the old
offset or the new one. An empty file tells whether the folder had results (`_marks-older`) or none
(`_marks-new`) when it got its first marks.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Final

from inorder.journal import sync_folder
from sinks.sink import BegunAnew, Marks, Progress, Reader, SinkUnusable

PREFIX: Final = "_marks-"
OLDER: Final = f"{PREFIX}older"
NEW: Final = f"{PREFIX}new"
LINE_BYTES: Final = 32
"""The length of a line; it divides the sector of a disk, so no line is written in part."""

OPEN: Final = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW


class FolderMarks:
    """The marks in a folder; raises OSError if the disk fails, SinkUnusable for a damaged file."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def exist(self) -> bool:
        return any((self._folder / name).exists() for name in (OLDER, NEW))

    def begin(self, has_results: bool) -> None:
        """Note that the folder gets marks now, and whether it has results."""
        (self._folder / (OLDER if has_results else NEW)).touch()
        sync_folder(self._folder)

    def read(self, reader: Reader) -> Marks:
        path = self._path(reader)
        lines = path.read_bytes() if path.exists() else b""
        positions = {}
        for begin in range(0, len(lines), LINE_BYTES):
            # A partition that was skipped has zero bytes.
            if text := lines[begin : begin + LINE_BYTES].strip(b"\0 \n"):
                positions[begin // LINE_BYTES] = _offset_in(text, path)
        return Marks(f"folder {self._folder}", positions, (self._folder / OLDER).exists())

    def raise_to(self, reader: Reader, positions: Mapping[int, int]) -> None:
        """Raise marks; create their file if it is absent."""
        self._raise(reader, positions, OPEN | os.O_CREAT)
        sync_folder(self._folder)

    def move(self, reader: Reader, positions: Mapping[int, int]) -> None:
        """Raise marks whose file must exist, because another folder may have taken the place."""
        self._raise(reader, positions, OPEN)

    def _raise(self, reader: Reader, positions: Mapping[int, int], flags: int) -> None:
        descriptor = os.open(self._path(reader), flags, 0o644)
        try:
            # Another member of the group may write its partitions at the same time.
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            known = self.read(reader).positions
            for partition, position in positions.items():
                if position > known.get(partition, -1):
                    line = f"{position:<{LINE_BYTES - 1}}\n".encode()
                    os.pwrite(descriptor, line, partition * LINE_BYTES)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def require(self, progress: Progress) -> None:
        """Raise BegunAnew unless the marks are at least as high as the reader knows."""
        found = self.read(progress.reader).positions if self.exist() else {}
        if any(found.get(each, -1) < step.known for each, step in progress.steps.items()):
            raise BegunAnew(f"folder {self._folder}: its marks (_marks-…) are absent or behind")

    def _path(self, reader: Reader) -> Path:
        digest = sha256(f"{reader.topic}/{reader.group}".encode()).hexdigest()[:16]
        return self._folder / f"{PREFIX}{digest}"


def _offset_in(text: bytes, path: Path) -> int:
    if not text.isdigit():
        raise SinkUnusable(
            f"{path} is damaged: {text!r} is not an offset; restore the file from a backup, or"
            " remove it and start the sink once with --refill"
        )
    return int(text)
