"""Examples: `inorder worker --from-backfill`: the folders that it refuses, and the partitions to
which it assigns state.

No broker is needed, since an unsuitable folder is refused before any broker is contacted.
"""

from __future__ import annotations

import json
import marshal
from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import Any

import pytest
from aiokafka.structs import TopicPartition

from agents.restore.history import History
from agents.stage.arrangement import Arrangement, arrange, topics_of
from agents.state.changelog import StateRefused
from cli.run.from_backfill import Backfilled
from cli.topology_file import Refused
from spark_analytics.backfill.resuming import Resumed, TableForm
from spark_analytics.backfill.state import GroupState, pack, unpack
from spark_analytics.executors.setting import Setting, digests
from tests.cli.invoking import Answer, inorder, text_file
from topology.base.event import Event
from topology.base.outcome import Malformed
from topology.base.sample import Declared
from topology.config import parse
from topology.records.line_reader import Content
from topology.records.marked import StateUnreadable
from topology.stage.lanes import lane_of, offset_in_lane
from topology.stage.replay import SavedReplay

PLAIN = "streams: {a: {input: raw}, b: {input: raw}}\ntopics: {partitions: 1}\n"
BY_STREAM = "streams: {a: {input: raw, keyed_by: stream}, b: {input: raw, keyed_by: stream}}\n"
ONE_TASK = "streams: {a: {input: raw}}\ntopics: {partitions: 2}\n"
CUT = ONE_TASK + "stages: [reorder, merge]\n"
RAW_0, RAW_1 = TopicPartition("raw", 0), TopicPartition("raw", 1)
COUNTS = PLAIN + "queries: {n: {stream: a, window: tumbling 1s, aggregate: {n: count()}}}\n"


def left(folder: Path, text: str, **more: Any) -> Path:
    """Write the folder that a backfill leaves, by default one that read nothing, and return its
    path.
    """
    text_file(folder / "t.yaml", text)
    state = folder / "out" / "_state"
    state.mkdir(parents=True)
    known: dict[str, Any] = {"run": 1, "topology": digests(Setting(text)), "tables": TableForm()}
    known |= {"states": {}, "begin": [0, 7, None], "files": {}, "offsets": {}, "places": {}, **more}
    text_file(state / "current.json", json.dumps(known))
    return folder / "out"


def refused(folder: Path, out: Path | str, *words: str) -> Answer:
    arguments = ("--topology", folder / "t.yaml", "--from-backfill", out)
    return inorder("worker", "--brokers", "nowhere:1", *arguments).refused(*words)


@pytest.mark.parametrize(
    ("text", "more", "says"),
    [
        (PLAIN, {"topology": {"streams.c": "another"}}, ["with another topology than"]),
        (PLAIN, {"ended": True}, ["was flushed to its end"]),
        (
            PLAIN,
            {"files": {"a.jsonl": [3, 0]}},
            ["was made from files, which have no offsets of", "and backfill from the archive"],
        ),
        (
            COUNTS,
            {"topology": digests(Setting(PLAIN))},
            ["with another topology than", "(operators, queries.n)"],
        ),
    ],
)
def test_mismatched_backfill_is_refused(
    text: str, more: Mapping[str, Any], says: list[str], tmp_path: Path
) -> None:
    refused(tmp_path, left(tmp_path, text, **more), *says)


def test_folder_needs_a_state(tmp_path: Path) -> None:
    text_file(tmp_path / "t.yaml", PLAIN)
    refused(tmp_path, tmp_path, "has no state of a backfill", "run with --no-to-end")
    absent = tmp_path / "nowhere"
    says = f"--from-backfill: {absent} does not exist; name the --out"
    assert "has no state" not in refused(tmp_path, absent, says).err


def test_interrupted_backfill_is_refused(tmp_path: Path) -> None:
    """A worker that started now would emit results twice, since the next backfill run adds those
    rows.
    """
    out = left(tmp_path, PLAIN)
    coming = {"run": 2, "staged": f".{out.name}-0123456789ab", "files": [], "account": {}}
    now = json.loads((out / "_state" / "current.json").read_bytes())
    text_file(out / "_state" / "coming.json", json.dumps({**coming, "now": now}))
    said = ("a run was killed while it added rows to", "spark backfill --resume")
    refused(tmp_path, out, *said)


def test_damaged_folder_is_refused(tmp_path: Path) -> None:
    out = left(tmp_path, PLAIN)
    for text, *says in (
        ('{"run":', "_state/current.json is damaged (Expecting value", "run the backfill again"),
        ("{}", "is damaged (it lacks run, topology, tables, begin"),
    ):
        text_file(out / "_state" / "current.json", text)
        refused(tmp_path, out, *says)


def test_damaged_state_is_refused(tmp_path: Path) -> None:
    """A truncated state is refused, and so is one of another version."""
    whole = pack(GroupState(SavedReplay(7, {}, {}, [Declared("a", 0, 5, 1, 7)]), (), {}))
    lies = {"offsets": {"raw/0": 41}, "places": {"a": ["raw/0"]}}
    found = histories(tmp_path, PLAIN, states={"0": "0.state"}, **lies)
    state = tmp_path / "out" / "_state" / "1" / "0.state"
    state.parent.mkdir()
    first, _, rest = whole.partition(b"\n")
    for content, says in (
        (b"", "is damaged"),
        (whole[:-3], "is damaged"),
        (first + b"\n" + marshal.dumps((1, 2)), "is damaged"),
        (b"inorder state 9 in marshal 4 of Python 3.9\nx", "another version: it begins with"),
        (first.replace(b"marshal ", b"marshal 9") + b"\n" + rest, "another version"),
        (marshal.dumps((1, None, (), [])), "is damaged"),
    ):
        state.write_bytes(content)
        with pytest.raises(StateRefused, match=rf"0\.state: the state .*{says}"):
            found.of(arranged(PLAIN, 1), TopicPartition("raw", 0))


def test_changed_byte_is_refused() -> None:
    """Any changed byte is detected, even in the first line and where marshal would read other
    values.
    """
    state = GroupState(SavedReplay(7, {"k": [1, 2.5, "x"]}, {}, []), (), {("a", "events"): 3})
    whole = pack(state)
    rng = Random(1)
    assert unpack(whole).saved == state.saved
    for at in range(len(whole)):
        for other in {rng.randrange(256), whole[at] ^ 1, ord("\n"), ord("(")} - {whole[at]}:
            with pytest.raises(StateUnreadable):
                unpack(whole[:at] + bytes([other]) + whole[at + 1 :])


def test_state_paths_are_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Executors run in their own folders."""
    out = left(tmp_path, PLAIN, states={"0": "0.state"})
    monkeypatch.chdir(tmp_path)
    wanted = {0: str(out / "_state" / "1" / "0.state")}
    assert Resumed("out").states() == Resumed("out/").states() == wanted
    uri = out.as_uri()
    assert Resumed(f"{uri}/").states() == {0: f"{uri}/_state/1/0.state"}


def test_bad_address_names_its_option(
    tmp_path: Path,
) -> None:
    text_file(tmp_path / "t.yaml", PLAIN)
    says = ("--from-backfill s4://x/y: ", "name a folder")
    assert "--out" not in refused(tmp_path, "s4://x/y", *says).err


def arranged(text: str, partitions: int, at: int = 0) -> Arrangement:
    topology = parse(text)
    stage = topology.stages[at]
    return arrange(topology, stage, dict.fromkeys(topics_of(topology, stage), partitions))


def histories(folder: Path, text: str, **more: Any) -> Backfilled:
    out = left(folder, text, **more)
    return Backfilled(str(out), parse(text), str(folder / "t.yaml"))


def test_history_names_the_next_offset(tmp_path: Path) -> None:
    found = histories(tmp_path, PLAIN, offsets={"raw/0": 41}, places={"a": ["raw/0"]})
    history = found.of(arranged(PLAIN, 1), TopicPartition("raw", 0))
    assert history.next_offsets == {TopicPartition("raw", 0): 42}
    assert history.now_ns == 7


def test_last_query_of_a_kind_must_stay(tmp_path: Path) -> None:
    both = COUNTS.replace("n: {", "m: {stream: b, window: count 5, aggregate: {n: count()}}, n: {")
    out = str(left(tmp_path, both))
    path = tmp_path / "t.yaml"
    Backfilled(out, parse(COUNTS), str(text_file(path, COUNTS)))
    says = r"with another topology than .* \(operators\); start the worker with that one"
    with pytest.raises(Refused, match=says):
        Backfilled(out, parse(PLAIN), str(text_file(path, PLAIN)))


def test_split_stream_is_refused(tmp_path: Path) -> None:
    lies = {"a": ["raw/0", "raw/1"]}
    found = histories(tmp_path, BY_STREAM, offsets={"raw/0": 1, "raw/1": 1}, places=lies)
    with pytest.raises(StateRefused, match="a are in raw/0, raw/1.*leave out `keyed_by: stream`"):
        found.of(arranged(BY_STREAM, 2), TopicPartition("raw", 0))


def in_reorder(*sources: str, lane: str = "") -> dict[str, Any]:
    return {f"a\nreorder/{lane}buffer/{source}": source for source in sources}


def with_state(folder: Path, text: str, state: GroupState, **more: Any) -> Backfilled:
    """Return a history whose only group of streams has this state."""
    found = histories(folder, text, states={"0": "0.state"}, **more)
    (folder / "out" / "_state" / "1").mkdir()
    (folder / "out" / "_state" / "1" / "0.state").write_bytes(pack(state))
    return found


def of_sources(folder: Path, text: str, *of_s0: str) -> Backfilled:
    """Return a history of three sources of one stream in two partitions; s0 is in `of_s0`."""
    state = GroupState(SavedReplay(7, in_reorder("s0", "s1", "s2"), {}, []), (), {})
    lies = {"s0": of_s0, "s1": ["raw/0"], "s2": ["raw/1"]}
    known = {"offsets": {"raw/0": 3, "raw/1": 5}, "places": {"a": ["raw/0", "raw/1"]}}
    return with_state(folder, text, state, **known, sources={"a": lies})


def tasks(found: Backfilled, arrangement: Arrangement) -> list[History]:
    """Return the histories of the input's tasks."""
    names = {arrangement.group_of(RAW_0).name, arrangement.group_of(RAW_1).name}
    return [found.of(arrangement, name) for name in sorted(names)]


def shares(found: Backfilled, arrangement: Arrangement) -> list[dict[str, Any]]:
    return [dict(each.state) for task in tasks(found, arrangement) for each in task.saved]


@pytest.mark.parametrize(
    ("text", "dealt"),
    [
        (CUT, [in_reorder("s1"), in_reorder("s0", "s2")]),
        (ONE_TASK, [in_reorder("s1", lane="0/") | in_reorder("s0", "s2", lane="1/")]),
    ],
    ids=["cut", "one task"],
)
def test_sources_go_to_their_partitions(
    text: str, dealt: list[dict[str, Any]], tmp_path: Path
) -> None:
    assert shares(of_sources(tmp_path, text, "raw/1"), arranged(text, 2)) == dealt


@pytest.mark.parametrize("text", [CUT, ONE_TASK], ids=["cut", "one task"])
def test_split_source_is_refused(text: str, tmp_path: Path) -> None:
    found = of_sources(tmp_path, text, "raw/0", "raw/1")
    with pytest.raises(StateRefused, match="its source s0 is in raw/0, raw/1; a history can"):
        shares(found, arranged(text, 2))


def test_task_resumes_in_each_partition(tmp_path: Path) -> None:
    history = of_sources(tmp_path, ONE_TASK, "raw/1").of(arranged(ONE_TASK, 2), RAW_0)
    assert history.next_offsets == {RAW_0: 4, RAW_1: 6}


@pytest.mark.parametrize(
    ("text", "wanted"),
    [(CUT, [[(0, 13)], [(0, 11), (0, 12)]]), (ONE_TASK, [[(1, 11), (1, 12), (0, 13)]])],
    ids=["cut", "one task"],
)
def test_last_instant_is_split_by_source(
    text: str, wanted: list[list[tuple[int, int]]], tmp_path: Path
) -> None:
    """An event without a readable source goes only to the stream's first partition."""
    waiting: list[Content] = [
        Event("a", "s2", 0, 1, 5, 7, 11),
        Malformed(7, 12, "bad", "", stream="a", source="s1"),
        Malformed(7, 13, "bad", "", stream="a"),
    ]
    lies = {"a": {"s1": ["raw/1"], "s2": ["raw/1"], "s3": ["raw/0"]}}
    known = {"places": {"a": ["raw/0", "raw/1"]}, "sources": lies}
    found = with_state(tmp_path, text, GroupState(None, waiting, {}), **known)
    numbers = [[each.offset for each in task.waiting] for task in tasks(found, arranged(text, 2))]
    assert [[(lane_of(each), offset_in_lane(each)) for each in of] for of in numbers] == wanted


def test_empty_stream_keeps_its_join(tmp_path: Path) -> None:
    """A join names its state after its first stream."""
    text = PLAIN + "queries: {j: {join: interval 5ms, sides: {x: {stream: a}, y: {stream: b}}}}\n"
    state = GroupState(SavedReplay(7, {"\na\nj": 1, "b\nmerge/x": 2}, {}, []), (), {})
    found = with_state(tmp_path, text, state, places={"b": ["raw/0"]})
    assert shares(found, arranged(text, 1)) == [{"\na\nj": 1, "b\nmerge/x": 2}]


@pytest.mark.parametrize("partitions", [1, 2])
def test_unplaced_source_needs_one_partition(partitions: int, tmp_path: Path) -> None:
    reads = "input: raw, arrival: timestamp, fields: {stream: payload.s, source: payload.d}"
    by_time = "reorder: {rule: time}"
    text = f"streams: {{a: {{{reads}, {by_time}}}, b: {{{reads}, {by_time}}}}}\n"
    text += f"topics: {{partitions: {partitions}}}\n"
    state = GroupState(SavedReplay(7, in_reorder("s0"), {}, []), (), {})
    ends = {f"raw/{number}": 3 for number in range(partitions)}
    found = with_state(tmp_path, text, state, offsets=ends, places={"default": [*ends]})
    if partitions == 1:
        assert shares(found, arranged(text, 1)) == [in_reorder("s0")]
    else:
        with pytest.raises(StateRefused, match="its source s0 has no known partition"):
            shares(found, arranged(text, 2))


def test_later_stage_starts_at_offset_0(tmp_path: Path) -> None:
    found = histories(tmp_path, CUT, offsets={"raw/0": 41}, places={"a": ["raw/0"]})
    place = TopicPartition("events.sequenced", 0)
    history = found.of(arranged(CUT, 2, at=1), place)
    assert (history.next_offsets, history.now_ns) == ({place: 0}, 7)
