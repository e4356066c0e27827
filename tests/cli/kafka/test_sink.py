"""Examples: `inorder sink` checks its arguments before it reads, and prints no secret."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.kafka.sink import group_of, make_summary
from sinks.counts import Counts
from sinks.postgres import PostgresSink
from sinks.redis import address_of, connect
from tests.cli.invoking import inorder

SOURCE = ("--brokers", "127.0.0.1:1", "--topic", "results.windows")
NOBODY = (*SOURCE, "--brokers-wait", "0s")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("redis", *SOURCE), "--redis"),
        (("redis", *SOURCE, "--redis", "http://127.0.0.1"), "--redis"),
        (("redis", *SOURCE, "--redis", "redis://h", "--name", "a{b"), "is not a name for results"),
        (("redis", *SOURCE, "--redis", "redis://h", "--max-feed", "0"), "--max-feed"),
        (("postgres", *SOURCE), "--postgres"),
        (("postgres", *SOURCE, "--postgres", "mysql://h/x"), "postgresql://USER@HOST"),
        (("postgres", *SOURCE, "--postgres", "host=h", "--table", "a-b"), "name of a table"),
        (("files", *SOURCE), "--folder"),
        (("files", *SOURCE, "--folder", "out", "--format", "csv"), "--format"),
        (("files", *SOURCE, "--folder", "out", "--roll-seconds", "0"), "--roll-seconds"),
        (("files", *SOURCE, "--folder", "out", "--http", "here"), "--http here"),
        (("files", *SOURCE, "--folder", "out", "--session", "soon"), "--session"),
        (("files", *SOURCE, "--folder", "out", "--refill", "--adopt"), "give one"),
        (("files", "--brokers", "embedded", "--topic", "t", "--folder", "out"), "embedded"),
    ],
)
def test_bad_arguments_are_refused(arguments: tuple[str, ...], message: str) -> None:
    unset = {"INORDER_REDIS": None, "INORDER_POSTGRES": None}
    inorder("sink", *arguments, env=unset).refused(message)  # type: ignore[arg-type]


def test_password_is_not_printed() -> None:
    url = "postgresql://u:hidden@h:1/x?nothing=1"
    answer = inorder("sink", "postgres", *SOURCE, env={"INORDER_POSTGRES": url}).refused()
    assert "hidden" not in answer.err


def test_each_store_has_its_own_group() -> None:
    """Two stores in one group would each get only a part of the results."""
    groups = {
        group_of("redis", address_of(connect(url)), name)
        for url in ("redis://h", "redis://h/1", "redis://other:secret@i:7/0", "unix:///s")
        for name in ("a", "b")
    }
    groups |= {
        group_of("postgres", PostgresSink(f"postgresql://u:secret@{at}", table).address, table)
        for at in ("h/x", "h/y", "h:1/x", "i/x")
        for table in ("a", "b")
    }
    assert len(groups) == 16
    same = {PostgresSink(f"postgresql://{who}@h/x", "a").address for who in ("u:one", "v:two")}
    assert same == {"h//x"}


def test_failed_start_makes_no_folder(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    answer = inorder("sink", "files", *NOBODY, "--folder", folder)
    answer.refused("no broker answers at 127.0.0.1:1")
    assert not folder.exists()


def test_json_summary_counts_outcomes() -> None:
    counts = Counts(records=5, control=1)
    counts.written.update(["emit", "emit", "update"])
    counts.written.subtract(["update"])
    counts.dead.update(["refused"])
    written = {"written": {"emit": 2}, "dead": {"refused": 1}}
    assert make_summary(counts) == {
        "records": 5,
        **written,
        "control": 1,
        "expired": 0,
        "refills": 0,
    }
