"""Law: a recording that is cut in two or more parts and resumed gives the output of the whole,
without Spark. Examples: what is refused, and a run that was killed while it added its files.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Collection, Sequence
from functools import partial
from itertools import count
from pathlib import Path
from random import Random
from shutil import copytree
from typing import Any

import pytest
from pyarrow.fs import LocalFileSystem
from pyspark.sql import SparkSession

from recordings.file import InputError
from spark_analytics.backfill import resuming
from spark_analytics.backfill.place import Place, PlaceRefused
from spark_analytics.backfill.resuming import ParquetTables, Resumed, TableForm
from spark_analytics.backfill.run import (
    ReadInput,
    RunOutput,
    canonical_path,
    mark_of,
    new_files,
    refuse_mixed,
)
from spark_analytics.backfill.work import OrderGroups
from spark_analytics.executors.setting import Setting, difference, digests, topology_of
from tests.spark_analytics.answers import assert_refused
from tests.spark_analytics.backfill import streams
from tests.spark_analytics.backfill.outputs import (
    backfill,
    by_query,
    each_apart,
    newest_lines,
    parts_of,
    replayed,
    run_of_several,
    tabled,
    tasks_run,
)
from topology.config import parse
from topology.records.marked import StateUnreadable

FEW = range(12)
MANY = range(2_000, 2_250)
PIECE_BYTES = 3_000
WRITTEN_NS = 1_700_000_000_000_000_007


def run(setting: Setting, part: Path, out: Path, number: int, *, last: bool) -> None:
    """Do one of several runs."""

    def tasks(order: OrderGroups) -> RunOutput:
        return tasks_run(setting, [part], order, PIECE_BYTES)

    run_of_several(setting, out, number, tasks, last=last)


def agrees(seed: int, folder: Path) -> None:
    rng = Random(seed)
    setting = streams.some(seed, rng, folder)
    events = streams.recording(rng, folder / "events.jsonl")
    count = len(events.read_text().splitlines())
    cuts = sorted(rng.randrange(count + 1) for _ in range(rng.choice((1, 1, 3))))
    parts = parts_of(events, folder / "parts", cuts)
    for number, part in enumerate(parts, start=1):
        run(setting, part, folder / "out", number, last=number == len(parts))
    assert tabled(folder / "out") == replayed(folder / "t.yaml", events)[0], (seed, cuts)


@pytest.mark.in_turns(3)
@pytest.mark.parametrize("seed", FEW)
def test_resumed_runs_match_one_run(seed: int, tmp_path: Path) -> None:
    agrees(seed, tmp_path)


@pytest.mark.long
@pytest.mark.timeout(1_800)
def test_runs_over_many_cuts_match_one_run(tmp_path: Path) -> None:
    each_apart(MANY, tmp_path, agrees)


TIED = ("near", "newest", "cells", "found_d", "above")
"""Joins that tie streams together, and detectors of which one reads the other's results."""


def without(setting: Setting, queries: Collection[str]) -> Setting:
    lines = setting.topology.splitlines(keepends=True)
    kept = [line for line in lines if line.strip().partition(":")[0] not in queries]
    return setting._replace(topology="".join(kept))


def current_values(texts: Sequence[str]) -> list[str]:
    """Return the current values alone, because when a detector emits them depends on the other
    queries.
    """
    lines = map(json.loads, newest_lines({(None, "match"): list(texts)}))
    return sorted(f"{each['id']} {each['values']}" for each in lines if each["op"] != "retract")


def agrees_without(seed: int, folder: Path) -> bool:
    """Return whether queries could be removed; assert that this changed no other result."""
    rng = Random(seed)
    were = streams.some(seed, rng, folder)
    events = streams.recording(rng, folder / "events.jsonl")
    lines = len(events.read_text().splitlines())
    names = sorted({*topology_of(were).queries} - {*TIED})
    left = {*rng.sample(names, rng.choice((1, 2)))}
    are = without(were, left)
    parts = parts_of(events, folder / "parts", sorted(rng.choices(range(lines + 1), k=2)))
    out = folder / "out"
    run(were, parts[0], out, 1, last=False)
    if difference(digests(were), digests(are)):
        with pytest.raises(PlaceRefused, match=r"with another topology \(.*operators.*\); resume"):
            Resumed(str(out)).find_new_queries(digests(are), TableForm())
        return False
    (folder / "are.yaml").write_text(are.topology)
    wanted, before = by_query(replayed(folder / "are.yaml", events)[0]), by_query(tabled(out))
    run(are, parts[1], out, 2, last=False)
    run(are, parts[2], out, 3, last=True)
    found = by_query(tabled(out))
    for key in {*wanted, *found}:
        said, now = (before if key[2] in left else wanted).get(key), found.get(key)
        if (key[2] or "").startswith("found_"):
            said, now = current_values(said or []), current_values(now or [])
        assert now == said, (seed, key, left)
    return True


def test_removed_queries_leave_their_rows(tmp_path: Path) -> None:
    assert {*each_apart(FEW, tmp_path, agrees_without)} == {True, False}


@pytest.mark.long
@pytest.mark.timeout(1_800)
def test_more_removals_leave_their_rows(tmp_path: Path) -> None:
    each_apart(MANY, tmp_path, agrees_without)


def test_incompatible_change_is_named(tmp_path: Path) -> None:
    text = "streams: {a: {}, b: {}}\nqueries:\n  w: {stream: a, window: tumbling 1s}\n"
    count = "aggregate: {n: count()}"
    were = digests(Setting(text.replace("1s", f"1s, {count}")))
    changed = digests(Setting(text.replace("1s", f"2s, {count}")))
    join = "  j: {join: interval 1s, sides: {x: {stream: a}, y: {stream: b}}}\n"
    joined = digests(Setting(text.replace("1s", f"1s, {count}") + join))
    assert difference(were, were) == []
    assert difference(were, changed) == ["queries.w"]
    assert difference(were, joined) == ["joined streams", "operators", "queries.j"]
    assert difference(joined, were) == ["joined streams", "operators"]


def begun_at(folder: Path) -> tuple[Setting, Path]:
    setting = Setting("streams: {s: {}}\n")
    line = {"source": "a", "ts": 5, "arrival": 5}
    part = folder / "1.jsonl"
    part.write_text("".join(json.dumps({**line, "seq": n, "arrival": n}) + "\n" for n in range(9)))
    run(setting, part, folder / "out", 1, last=False)
    return setting, part


class Killed(BaseException):
    """A kill: no code after it runs."""


class Dying:
    """A file system whose user is killed at change number `dies_at`."""

    changes = ("move", "delete_file", "delete_dir", "create_dir", "open_output_stream")

    def __init__(self, files: Any, dies_at: int) -> None:
        self._files = files
        self._left = dies_at

    def __getattr__(self, name: str) -> Any:
        if name in self.changes:
            self._left -= 1
            if self._left < 0:
                raise Killed
        return getattr(self._files, name)


def dying_at(change: int, path: str, _: str = "") -> tuple[Dying, str]:
    return Dying(LocalFileSystem(), change), path


def test_next_run_completes_killed_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that was killed before it added any rows is repeated."""
    rng = Random(2)
    topology = tmp_path / "t.yaml"
    topology.write_text(streams.topology(rng))
    whole = streams.recording(rng, tmp_path / "whole.jsonl", 60)
    parts = parts_of(whole, tmp_path / "parts", (20, 40))
    setting, first = Setting(topology.read_text()), tmp_path / "first"
    run(setting, parts[0], first, 1, last=False)
    wanted = replayed(topology, whole)[0]
    begun_again = ended = 0
    for dies_at in count():
        out = tmp_path / f"out-{dies_at}"
        copytree(first, out)
        with monkeypatch.context() as patched:
            patched.setattr(resuming, "file_system", partial(dying_at, dies_at))
            try:
                run(setting, parts[1], out, 2, last=False)
                ended += 1
            except Killed:
                pass
        there = Resumed(str(out))
        if there.is_unfinished:
            with pytest.raises(PlaceRefused, match="a run was killed while it added rows to"):
                Resumed(str(out), reader="--from-backfill")
            assert not there.finish(ParquetTables(str(out)))
        if there.known["run"] == 1:
            begun_again += 1
            run(setting, parts[1], out, 2, last=False)
        run(setting, parts[2], out, 3, last=True)
        assert tabled(out) == wanted, dies_at
        state = [each.name for each in (out / "_state").iterdir()]
        assert state == ["current.json"], dies_at
        if ended:
            break
    assert 0 < begun_again < 5 < dies_at


def test_clock_reports_are_carried_over(tmp_path: Path) -> None:
    """A first run has no event, and its clock report applies to the event of the next run."""
    (tmp_path / "t.yaml").write_text("streams: {s: {clock: {unsynced: reject}}}\n")
    setting = Setting((tmp_path / "t.yaml").read_text())
    word = json.dumps({"clock": "a", "at": 0, "offset": 7, "error": 2})
    event = json.dumps({"source": "a", "seq": 0, "ts": 5, "arrival": 9})
    for number, text in enumerate((word, event), start=1):
        part = tmp_path / f"{number}.jsonl"
        part.write_text(f"{text}\n")
        run(setting, part, tmp_path / "out", number, last=number == 2)
    (tmp_path / "whole.jsonl").write_text(f"{word}\n{event}\n")
    wanted = replayed(tmp_path / "t.yaml", tmp_path / "whole.jsonl")[0]
    assert tabled(tmp_path / "out") == wanted
    assert len(wanted["s", "event"]) == 1


def test_changed_topology_is_refused(tmp_path: Path) -> None:
    setting, _ = begun_at(tmp_path)
    resumed = Resumed(str(tmp_path / "out"))
    other = setting._replace(topology=setting.topology + "correct_for: 300ms\n")
    with pytest.raises(PlaceRefused, match=r"another topology \(correct_for\)"):
        resumed.find_new_queries(digests(other), TableForm())
    text = f"# {setting.topology.splitlines()[0]}\n{setting.topology}\ntopics: {{partitions: 3}}\n"
    resumed.find_new_queries(digests(setting._replace(topology=text)), TableForm())


def test_change_affects_reading_queries() -> None:
    queries = {
        "ab": "PATTERN SEQ(A a, B b) WITHIN 1 s RETURN * INTO AB",
        "abc": "PATTERN SEQ(AB x, C c) WITHIN 1 s RETURN * INTO ABC",
        "last": "PATTERN SEQ(ABC x, D d) WITHIN 2 s",
        "cd": "PATTERN SEQ(C c, D d) WITHIN 1 s",
    }

    def parts(**changed: str) -> dict[str, str]:
        lines = [f"  {name}: {{pattern: '{text}'}}" for name, text in (queries | changed).items()]
        return digests(Setting("\n".join(["streams: {default: {}}", "queries:", *lines, ""])))

    changed = difference(parts(), parts(ab="PATTERN SEQ(A a, B b) WITHIN 2 s RETURN * INTO AB"))
    assert changed == ["queries.ab", "queries.abc", "queries.last"]
    came = difference(parts(), parts(ba="PATTERN SEQ(B b, A a) WITHIN 1 s RETURN * INTO ABC"))
    assert came == ["queries.ba", "queries.last"]


def test_other_tables_are_refused(tmp_path: Path) -> None:
    setting, _ = begun_at(tmp_path)
    resumed = Resumed(str(tmp_path / "out"))
    resumed.find_new_queries(digests(setting), TableForm())
    resumed.find_new_queries(
        digests(setting), TableForm(schema="v INT")
    )  # Tables check the schema.
    other = TableForm("iceberg", "http://c", "v INT")
    says = "was written with --format parquet, .* --format iceberg --catalog http://c --schema 'v"
    with pytest.raises(PlaceRefused, match=says):
        resumed.find_new_queries(digests(setting), other)
    resumed.known["tables"] = ["parquet", None, None]
    with pytest.raises(PlaceRefused, match=r"--format parquet columns of version 1, but this run"):
        resumed.find_new_queries(digests(setting), TableForm())


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")
def test_resumed_folder_can_grow(spark: SparkSession, tmp_path: Path) -> None:
    rng = Random(11)
    text = streams.topology(rng)
    whole = streams.recording(rng, tmp_path / "whole.jsonl", 200)
    first, second = parts_of(whole, tmp_path / "folder", [90])
    later = second.rename(tmp_path / "later.jsonl")
    names = sorted({*parse(text).queries} - {*TIED})
    backfill(tmp_path, first.parent, "--no-to-end", text=text).well()
    assert_refused(backfill(tmp_path, first.parent), 2, "does not overwrite")
    later.rename(second)
    fewer = without(Setting(text), names).topology
    refused = backfill(tmp_path, first.parent, "--resume", text=fewer)
    assert_refused(refused, 2, "run the backfill again into a new folder")
    first.write_text(first.read_text())
    refused = backfill(tmp_path, first.parent, "--resume", text=text)
    assert_refused(refused, 3, "the same size, but another time of the last write")
    state = json.loads((tmp_path / "out" / "_state" / "current.json").read_bytes())
    (mark,) = state["files"].values()
    os.utime(first, ns=(mark[1], mark[1]))
    backfill(tmp_path, first.parent, "--resume").well()
    assert tabled(tmp_path / "out") == replayed(tmp_path / "t.yaml", whole)[0]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "a.jsonl"
    path.write_text("{}\n")
    return path


def test_changed_file_is_refused(file: Path) -> None:
    assert new_files([str(file)], {}) == [str(file)]
    known = json.loads(json.dumps({str(file): mark_of(str(file))}))
    assert new_files([str(file)], known) == []
    file.write_text("{}\n{}\n")
    with pytest.raises(InputError, match="has changed .*3 bytes then, 6 now"):
        new_files([str(file)], known)


def test_change_of_same_size_is_refused(file: Path) -> None:
    os.utime(file, ns=(WRITTEN_NS, WRITTEN_NS))
    known = {str(file): mark_of(str(file))}
    file.write_text("[]\n")
    with pytest.raises(InputError, match=r"touch -d @1700000000\.000000007\)"):
        new_files([str(file)], known)
    os.utime(file, ns=(WRITTEN_NS, WRITTEN_NS))
    assert new_files([str(file)], known) == []


def test_size_alone_counts_without_time(file: Path) -> None:
    """Some file systems have no time of the last write."""
    assert new_files([str(file)], {str(file): [3, 0]}) == []
    file.write_text("{}\n\n")
    with pytest.raises(InputError, match="3 bytes then, 4 now"):
        new_files([str(file)], {str(file): [3, 0]})


def test_archives_and_files_never_mix() -> None:
    """A mix would skip records left in the archive, or forget which files were read."""
    of_files = ReadInput({"/a.jsonl": [3, 0]}, {}, {}, {})
    of_archives = ReadInput({}, {"raw/0": 5}, {}, {})
    for noted, path, archives, says in (
        (of_archives, "b.jsonl", [], r"b\.jsonl: is not an archive, but an earlier run has"),
        (of_files, "arc", ["arc"], r"arc: is an archive, but an earlier run .* \(/a\.jsonl\)"),
    ):
        with pytest.raises(InputError, match=says):
            refuse_mixed([path], archives, noted)
    with pytest.raises(InputError, match=r"arc is an archive, but b\.jsonl is not"):
        refuse_mixed(["b.jsonl", "arc"], ["arc"], ReadInput({}, {}, {}, {}))
    refuse_mixed(["b.jsonl"], [], of_files)
    refuse_mixed(["arc"], ["arc"], of_archives)


def staged(folder: Path) -> str:
    """Return a folder that a run makes beside its tables."""
    made = Place(str(folder / "out"), adds=True)
    return made.staged


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param(lambda _: {"staged": "victim"}, id="another folder"),
        pytest.param(lambda at: {"staged": str(at / "victim")}, id="by its path"),
        pytest.param(lambda at: {"staged": f"{staged(at)}/../victim"}, id="upwards"),
        pytest.param(lambda at: {"staged": str(at / ".out-0123456789ab")}, id="through a link"),
        pytest.param(lambda _: {"files": [["../victim", "thesis", 1]]}, id="a table upwards"),
        pytest.param(lambda _: {"files": [["events", "../../victim/thesis", 1]]}, id="a file"),
        pytest.param(lambda _: {"files": [["events", "thesis"]]}, id="no file"),
        pytest.param(lambda _: {"states": {"0": "../../victim/thesis"}}, id="a state"),
    ],
)
def test_state_cannot_name_foreign_files(
    changed: Callable[[Path], dict[str, Any]], tmp_path: Path
) -> None:
    """A user with access to the folder can write anything into the state."""
    begun_at(tmp_path)
    state, victim = tmp_path / "out" / "_state", tmp_path / "victim"
    victim.mkdir()
    (victim / "thesis").write_text("years of work")
    (tmp_path / ".out-0123456789ab").symlink_to(victim)
    now = json.loads((state / "current.json").read_bytes())
    coming = {"run": 2, "staged": staged(tmp_path), "files": [], "account": {}}
    coming |= changed(tmp_path)
    coming["now"] = now | {"run": 2, "states": coming.pop("states", {})}
    (state / "coming.json").write_text(json.dumps(coming))
    with pytest.raises(StateUnreadable, match=r"coming.json is damaged \(it names"):
        Resumed(str(tmp_path / "out")).finish(ParquetTables(str(tmp_path / "out")))
    assert (victim / "thesis").read_text() == "years of work"


@pytest.mark.parametrize("link", ["_state", "_state/1"])
def test_linked_state_is_refused(link: str, tmp_path: Path) -> None:
    begun_at(tmp_path)
    there = tmp_path / "out" / link
    there.rename(tmp_path / "elsewhere")
    there.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(PlaceRefused, match="is a link"):
        Resumed(str(tmp_path / "out"))


def test_incomplete_state_is_refused(tmp_path: Path) -> None:
    begun_at(tmp_path)
    state = tmp_path / "out" / "_state"
    known = json.loads((state / "current.json").read_bytes())
    coming = {"run": 2, "staged": staged(tmp_path), "files": [], "now": known, "account": {}}
    for name, whole in (("current.json", known), ("coming.json", coming)):
        (state / name).write_text(json.dumps(whole))
        Resumed(str(tmp_path / "out"))
        for key in whole:
            if key not in ("places", "sources", "staged"):
                for other in ({k: v for k, v in whole.items() if k != key}, {**whole, key: None}):
                    (state / name).write_text(json.dumps(other))
                    with pytest.raises(StateUnreadable, match=rf"{name} is damaged \(.* {key}\)"):
                        Resumed(str(tmp_path / "out"))
        (state / name).write_text(json.dumps(whole))
    (state / "coming.json").write_text(json.dumps({**coming, "now": {}}))
    with pytest.raises(StateUnreadable, match="it lacks run, topology, tables, begin"):
        Resumed(str(tmp_path / "out"))


def test_spelling_of_path_is_ignored(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "x").mkdir()
    (tmp_path / "link.jsonl").symlink_to(file)
    monkeypatch.chdir(tmp_path)
    known = {canonical_path("a.jsonl"): mark_of("a.jsonl")}
    for spelled in (str(file), "a.jsonl", "./a.jsonl", f"{tmp_path}/x/../a.jsonl", "link.jsonl"):
        assert new_files([spelled], known) == []
    with pytest.raises(InputError, match=r"\./a.jsonl: is the same file as a.jsonl"):
        new_files(["a.jsonl", "./a.jsonl"], {})


def test_new_file_must_sort_after_read_ones(tmp_path: Path) -> None:
    """A single run over all files would have read the new file first."""
    paths = [str(tmp_path / f"{number}.jsonl") for number in (1, 2, 3)]
    for path in paths:
        Path(path).write_text("{}\n")
    known = {paths[1]: mark_of(paths[1])}
    assert new_files(paths[1:], known) == paths[2:]
    with pytest.raises(InputError, match=r"1\.jsonl: sorts before .*2\.jsonl, which a run has"):
        new_files(paths, known)
