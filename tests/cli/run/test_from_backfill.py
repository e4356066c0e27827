"""Examples: what `inorder worker --from-backfill` refuses, and with which words; and where it takes
streams to lie. None of them needs a broker: what does not fit is told before one is asked."""

from __future__ import annotations

import json
import marshal
from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import Any

import pytest
from aiokafka.structs import TopicPartition

from agents.stage.arrangement import Arrangement, arrange, topics_of
from agents.state.changelog import StateRefused
from cli.run.from_backfill import Backfilled
from cli.topology_file import Refused
from spark_analytics.backfill.resuming import Resumed, TableForm
from spark_analytics.backfill.state import GroupState, packed, unpacked
from spark_analytics.executors.setting import Setting, digests
from tests.cli.invoking import Answer, inorder, text_file
from topology.config import parse
from topology.flow.replay import SavedReplay
from topology.model.sample import Declared
from topology.wire.marked import StateUnreadable

PLAIN = "streams: {a: {input: raw}, b: {input: raw}}\ntopics: {partitions: 1}\n"
BY_STREAM = "streams: {a: {input: raw, keyed_by: stream}, b: {input: raw, keyed_by: stream}}\n"
BY_SOURCE = "streams: {a: {input: raw}}\ntopics: {partitions: 2}\nstages: [reorder, merge]\n"
COUNTS = PLAIN + "queries: {n: {stream: a, window: tumbling 1s, aggregate: {n: count()}}}\n"


def left(folder: Path, text: str, **more: Any) -> Path:
    """What a run leaves that took nothing."""
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
            ["queries were added or removed (n); resume"],
        ),
    ],
)
def test_what_does_not_fit_is_refused(
    text: str, more: Mapping[str, Any], says: list[str], tmp_path: Path
) -> None:
    refused(tmp_path, left(tmp_path, text, **more), *says)


def test_a_folder_without_a_state_or_that_is_absent_is_refused_as_that(tmp_path: Path) -> None:
    text_file(tmp_path / "t.yaml", PLAIN)
    refused(tmp_path, tmp_path, "has no state of a backfill", "run with --no-to-end")
    absent = tmp_path / "nowhere"
    says = f"--from-backfill: {absent} does not exist; name the --out"
    assert "has no state" not in refused(tmp_path, absent, says).err


def test_a_folder_whose_rows_are_half_way_is_refused(tmp_path: Path) -> None:
    """The next run brings them in, and what a worker told by then would be told twice."""
    out = left(tmp_path, PLAIN)
    coming = {"run": 2, "staged": f".{out.name}-0123456789ab", "files": [], "account": {}}
    now = json.loads((out / "_state" / "current.json").read_bytes())
    text_file(out / "_state" / "coming.json", json.dumps({**coming, "now": now}))
    said = ("a run was killed while it added rows to", "spark backfill --resume")
    refused(tmp_path, out, *said)


def test_a_damaged_folder_is_refused(tmp_path: Path) -> None:
    out = left(tmp_path, PLAIN)
    for text, *says in (
        ('{"run":', "_state/current.json is damaged (Expecting value", "run the backfill again"),
        ("{}", "is damaged (it lacks run, topology, tables, begin"),
    ):
        text_file(out / "_state" / "current.json", text)
        refused(tmp_path, out, *says)


def test_a_damaged_state_is_refused(tmp_path: Path) -> None:
    """Cut anywhere, and where it is of another version."""
    whole = packed(GroupState(SavedReplay(7, {}, [], [Declared("a", 0, 5, 1, 7)]), (), {}))
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


def test_a_state_with_any_byte_changed_is_refused() -> None:
    """Also where marshal would read other values, and in the first line."""
    state = GroupState(SavedReplay(7, {"k": [1, 2.5, "x"]}, [], []), (), {("a", "events"): 3})
    whole = packed(state)
    rng = Random(1)
    assert unpacked(whole).saved == state.saved
    for at in range(len(whole)):
        for other in {rng.randrange(256), whole[at] ^ 1, ord("\n"), ord("(")} - {whole[at]}:
            with pytest.raises(StateUnreadable):
                unpacked(whole[:at] + bytes([other]) + whole[at + 1 :])


def test_states_are_named_from_the_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Executors stand in folders of their own."""
    out = left(tmp_path, PLAIN, states={"0": "0.state"})
    monkeypatch.chdir(tmp_path)
    wanted = {0: str(out / "_state" / "1" / "0.state")}
    assert Resumed("out").states() == Resumed("out/").states() == wanted
    uri = out.as_uri()
    assert Resumed(f"{uri}/").states() == {0: f"{uri}/_state/1/0.state"}


def test_an_address_that_leads_nowhere_is_refused_by_the_option_that_named_it(
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


def test_an_archive_says_where_the_log_goes_on(tmp_path: Path) -> None:
    found = histories(tmp_path, PLAIN, offsets={"raw/0": 41}, places={"a": ["raw/0"]})
    history = found.of(arranged(PLAIN, 1), TopicPartition("raw", 0))
    assert (history.next_offset, history.now_ns) == (42, 7)


def test_a_query_that_left_is_left_out_but_the_last_of_its_kind(tmp_path: Path) -> None:
    both = COUNTS.replace("n: {", "m: {stream: b, window: count 5, aggregate: {n: count()}}, n: {")
    out = str(left(tmp_path, both))
    path = tmp_path / "t.yaml"
    Backfilled(out, parse(COUNTS), str(text_file(path, COUNTS)))
    says = r"queries were added or removed \(m, n\); resume the backfill with"
    with pytest.raises(Refused, match=says):
        Backfilled(out, parse(PLAIN), str(text_file(path, PLAIN)))


def test_a_stream_in_several_partitions_is_refused(tmp_path: Path) -> None:
    lies = {"a": ["raw/0", "raw/1"]}
    found = histories(tmp_path, BY_STREAM, offsets={"raw/0": 1, "raw/1": 1}, places=lies)
    with pytest.raises(StateRefused, match="streams a are in raw/0, raw/1"):
        found.of(arranged(BY_STREAM, 2), TopicPartition("raw", 0))


def in_reorder(*sources: str) -> dict[str, Any]:
    return {f"a\nreorder/lane/{source}": source for source in sources}


def of_sources(folder: Path, **more: Any) -> Backfilled:
    """A history that knows of some sources of one stream, which two partitions hold."""
    state = GroupState(SavedReplay(7, in_reorder("s0", "s1", "s2"), [], []), (), {})
    found = histories(folder, BY_SOURCE, states={"0": "0.state"}, **more)
    (folder / "out" / "_state" / "1").mkdir()
    (folder / "out" / "_state" / "1" / "0.state").write_bytes(packed(state))
    return found


def shares(found: Backfilled) -> list[dict[str, Any]]:
    arrangement = arranged(BY_SOURCE, 2)
    return [
        dict(saved.state)
        for number in (0, 1)
        for saved in found.of(arrangement, TopicPartition("raw", number)).saved
    ]


@pytest.mark.parametrize("partitions", [["raw/1"], ["raw/0", "raw/1"]])
def test_an_archive_says_in_which_partition_each_source_lies(
    tmp_path: Path, partitions: list[str]
) -> None:
    """It has to be one."""
    lies = {"s0": partitions, "s1": ["raw/0"], "s2": ["raw/1"]}
    known = {"offsets": {"raw/0": 3, "raw/1": 3}, "places": {"a": ["raw/0", "raw/1"]}}
    found = of_sources(tmp_path, **known, sources={"a": lies})
    if len(partitions) == 1:
        assert shares(found) == [in_reorder("s1"), in_reorder("s0", "s2")]
    else:
        with pytest.raises(StateRefused, match="its source s0 is in raw/0, raw/1; a history can"):
            shares(found)


def test_behind_the_input_reading_begins_with_the_first_record(tmp_path: Path) -> None:
    found = histories(tmp_path, BY_SOURCE, offsets={"raw/0": 41}, places={"a": ["raw/0"]})
    history = found.of(arranged(BY_SOURCE, 2, at=1), TopicPartition("events.sequenced", 0))
    assert (history.next_offset, history.now_ns) == (0, 7)
