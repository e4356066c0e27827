"""Compares the topology under which a state was written with the one that will run now.

Each difference gets one verdict: it takes effect from now on, it ends something, or it is refused
with a safe remedy. `inorder check FILE --brokers B` and the worker print the same lines. All texts
about refused states are here; the operator's page is docs/operate/change.md.

A `Contract` has the settings on which a state depends. It has none that leave the state alone, such
as waits, bounds, delivery and the store.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import Any, Final, NamedTuple, TypeVar

from topology.config.file import TopologyFile
from topology.config.schema import SchemaConfig
from topology.config.stages import ALL, MERGE, REORDER, link_of, list_operators, operators_named
from topology.config.stream import HeaderConfig, StreamConfig
from topology.config.topology import Topology

T = TypeVar("T")

BEGINS: Final = "begins"
ENDS: Final = "ends"
REFUSED: Final = "refused"

FROM_NOW: Final = (
    "begins after the newest event read so far: results that began earlier are not emitted;"
    " `inorder replay` and `inorder spark backfill` give the earlier results"
)
READING: Final = (
    "headers", "fields", "format", "value_schema", "key_format", "ts_unit", "ts_zone", "ts_format",
    "decimal", "arrival", "signed",
)  # fmt: skip
"""The keys of a stream that determine how its records are read."""

OF_FILES: Final = {"fields": {"arrival"}}
"""The parts of the keys in `READING` that apply only to files, and not to records."""

WITHOUT_SEQ: Final = "reorder.without_seq"
"""The key, besides `READING`, for streams in which some sources do not number their events."""

SEQ_RANGE: Final = "reorder.seq_range"
"""The key, besides `READING`, for streams whose numbers wrap, whether by `seq_bits` or not."""

STAGES: Final = "stages"
SHOWN_BYTES: Final = 4
MOST_NAMED: Final = 12
"""The maximum number of topics that one message names."""

DERIVED: Final = frozenset({"headers", "format", "value_schema"})
"""The keys of `READING` that also apply to topics between stages."""


class StreamContract(NamedTuple):
    """The properties of one stream on which the state depends.

    Attributes:
        input: The input topic, or "" in stages that read none.
        output: The partition to which events are written, as TOPIC/PARTITION, or "" in stages that
            write none.
        numbered: Whether the sources number their events.
        reading: The keys that determine how records are read (`reading_of`).
    """

    input: str
    output: str
    numbered: bool
    reading: dict[str, Any]


class Contract(NamedTuple):
    """The properties on which the state of one partition of a stage depends, without secrets.

    `inputs` are all topics that the stage reads. `shapes` has the version of the state that each
    operator saves. `results` has the topic, with its number of partitions, for each kind of result.
    `queries` has a digest of each query. `lanes` are the upstream partitions in the order of their
    numbers, as ranges (topic, first partition, count).
    """

    application: str
    stage: str
    inputs: list[str]
    shapes: dict[str, int]
    streams: dict[str, StreamContract]
    results: dict[str, str]
    queries: dict[str, str]
    lanes: list[tuple[str, int, int]]


class Facts(NamedTuple):
    """The facts about the brokers on which a verdict may depend.

    `waiting` are the streams with events that are buffered in this partition. `unread` means that a
    topic between stages has records that the next stage has not read yet.
    """

    waiting: Collection[str] = ()
    unread: bool = False


NO_FACTS: Final = Facts()


class Difference(NamedTuple):
    """A difference between two contracts, and the verdict on it.

    `path` is the key in the topology file. `was` and `now` are the old and the new value. `effect`
    is the consequence, and `remedy` the way out if the difference is refused.
    """

    path: str
    was: str
    now: str
    verdict: str
    effect: str
    remedy: str = ""

    def __str__(self) -> str:
        change = f"{self.was or 'nothing'} -> {self.now or 'nothing'}"
        line = f"{self.verdict:<7} {self.path}: {change}: {self.effect}"
        return f"{line}; {self.remedy}" if self.remedy else line


def reading_of(stream: StreamConfig, *, is_derived: bool = False) -> dict[str, Any]:
    """Return the keys that determine how the stream's records are read, as written in the file.

    `is_derived` selects only the keys that apply to a topic between stages.
    """
    found: dict[str, Any] = stream.model_dump(
        mode="json", include={*READING}, exclude=OF_FILES, exclude_defaults=True, by_alias=True
    )
    if is_derived:
        return {key: value for key, value in found.items() if key in DERIVED}
    counter = stream.reorder.counter if stream.reorder.numbered else None
    found |= {} if counter is None else {SEQ_RANGE: str(counter)}
    return found | ({WITHOUT_SEQ: "by_time"} if stream.reorder.is_mixed else {})


def with_former_reading(topology: Topology, before: Mapping[str, StreamContract]) -> Topology:
    """Return the topology with only the streams in `before`, with their former reading settings.

    It is used to read records that were written before a change. In a stage that reads topics
    between stages, only the keys in `DERIVED` are from before.
    """
    streams = {}
    for name, was in before.items():
        others = {WITHOUT_SEQ, SEQ_RANGE}
        reading = {key: value for key, value in was.reading.items() if key not in others}
        if not was.input and name in topology.streams:
            streams[name] = topology.streams[name].model_copy(update=_derived_settings(reading))
            continue
        stream = StreamConfig.model_validate(reading)
        if name in topology.streams:
            kept = {key: getattr(stream, key) for key in READING}
            streams[name] = topology.streams[name].model_copy(update=kept)
        else:
            rule = {} if was.numbered else {"reorder": {"rule": "time"}}
            at = {"input": was.input} if was.input else {}
            streams[name] = StreamConfig.model_validate({**reading, **rule, **at})
    return topology.model_copy(update={"streams": streams})


def _derived_settings(reading: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of the keys in `DERIVED`, which alone are no valid stream."""
    headers, schema = reading.get("headers"), reading.get("value_schema")
    return {
        "headers": HeaderConfig.model_validate(headers) if headers else HeaderConfig.make_default(),
        "format": reading.get("format", "json"),
        "value_schema": SchemaConfig.model_validate(schema) if schema else None,
    }


def new_start_remedy(topology: TopologyFile) -> str:
    """Return the remedy that is always safe: a new application with its own output topics."""
    names = {f"streams.{name}.output": each.output for name, each in topology.streams.items()}
    if not topology.fused:
        names["topics.sequenced"] = topology.topics.sequenced
    for operator, topic in topology.result_topics.items():
        names[f"topics.{link_of(operator).topic}"] = topic
    renamed = [f"{path}: {topic}-2" for path, topic in names.items()]
    renamed += [f"queries.{query}-2 for queries.{query}" for query in topology.result_tables]
    if len(renamed) > MOST_NAMED:
        renamed[MOST_NAMED:] = [f"and {len(renamed) - MOST_NAMED} more"]
    return (
        f"begin anew with `application: {topology.application}-2` and new names for what it writes,"
        f" since events emitted twice would be counted twice: {', '.join(renamed)}"
    )


def lost_state_remedy(topology: TopologyFile) -> str:
    """Return the remedy for a lost state: restore its topic, or begin anew."""
    return f"restore the topic, or {new_start_remedy(topology)}"


def restore_or_restart_remedy(topology: TopologyFile) -> str:
    """Return the remedy for a change that cannot take effect: the old value, or begin anew."""
    remedy = new_start_remedy(topology)
    return f"restore the old value to continue, or drain the application and {remedy}"


def have_same_reading(one: Contract, other: Contract) -> bool:
    """Return whether the streams of both contracts have the same form in topics between stages.

    If they do, and no stream was removed, `differences` does not depend on the brokers.
    """
    return all(
        stream.reading.get(key) == other.streams[name].reading.get(key)
        for name, stream in one.streams.items()
        for key in DERIVED
        if name in other.streams
    )


def _iter_changed(
    old: Mapping[str, T], new: Mapping[str, T]
) -> Iterator[tuple[str, T | None, T | None]]:
    """Yield each name whose value differs, with the old and the new value; None means no value."""
    for name in sorted(old.keys() | new.keys()):
        if (was := old.get(name)) != (now := new.get(name)):
            yield name, was, now


def find_differences(
    old: Contract, new: Contract, topology: TopologyFile, facts: Facts = NO_FACTS
) -> list[Difference]:
    """Return the differences between two contracts of one partition, with their verdicts.

    `topology` is the new topology.
    """
    return [
        *_compare_shapes(old, new, topology),
        *_compare_streams(old, new, topology, facts),
        *_compare_results(old, new, topology),
        *_compare_queries(old, new),
    ]


def format_refusals(found: Iterable[Difference]) -> str:
    """Return the texts of the refused differences, one a line, or "" if there are none."""
    refused = [str(each) for each in found if each.verdict == REFUSED]
    return "\n".join(refused)


def _compare_shapes(old: Contract, new: Contract, topology: TopologyFile) -> Iterator[Difference]:
    for name, was, now in _iter_changed(old.shapes, new.shapes):
        if was is not None and now is not None:
            effect = f"this version of inorder cannot read the saved state of {name}"
            remedy = f"go on with the version that wrote it, or {new_start_remedy(topology)}"
            yield Difference(f"state of {name}", f"{was}", f"{now}", REFUSED, effect, remedy)


def _compare_streams(
    old: Contract, new: Contract, topology: TopologyFile, facts: Facts
) -> Iterator[Difference]:
    gone = sorted(old.streams.keys() - new.streams.keys())
    added = sorted(new.streams.keys() - old.streams.keys())
    if gone and added:
        effect = (
            "a stream that is renamed is another one, since its records, its partition and its"
            " results contain its name"
        )
        remedy = (
            f"{restore_or_restart_remedy(topology)};"
            " to replace a stream by another, remove the one,"
            " start the worker, then add the other"
        )
        path = f"streams.{gone[0]}"
        yield Difference(path, ", ".join(gone), ", ".join(added), REFUSED, effect, remedy)
        added = gone = []
    for name in gone:
        path, was = f"streams.{name}", old.streams[name].input or "read"
        if name in facts.waiting or facts.unread:
            effect = "some of its events are buffered or between stages, and would be lost"
            remedy = (
                "stop its producers, and keep the worker running until `inorder explain` shows no"
                " lag and no buffered event"
            )
            yield Difference(path, was, "", REFUSED, effect, remedy)
        else:
            effect = (
                "its emitted events stay as they are; its further records are dead letters"
                " (`unknown_stream`)"
            )
            yield Difference(path, was, "", ENDS, effect)
    for name in added:
        yield judge_added(name, topology)
    for name in sorted(old.streams.keys() & new.streams.keys()):
        yield from _compare_stream(name, old.streams[name], new.streams[name], topology, facts)


def judge_added(name: str, topology: TopologyFile) -> Difference:
    """Return the verdict on a stream that was added."""
    effect = "begins with its first record"
    return Difference(f"streams.{name}", "", topology.streams[name].input, BEGINS, effect)


def _compare_stream(
    name: str, was: StreamContract, now: StreamContract, topology: TopologyFile, facts: Facts
) -> Iterator[Difference]:
    if was.output != now.output:
        effect = (
            "half of the stream would be in one place and half in another; the partition follows"
            " from the stream's name, the streams it is joined with, and the topic's partitions"
        )
        is_grown = was.output.rpartition("/")[0] == now.output.rpartition("/")[0]
        remedy = (
            f"drain it and {new_start_remedy(topology)}"
            if is_grown
            else restore_or_restart_remedy(topology)
        )
        path = f"streams.{name}.output"
        yield Difference(path, was.output, now.output, REFUSED, effect, remedy)
    effect = "the state of one order means nothing to the other"
    if was.numbered != now.numbered:
        spelled = {True: "by number", False: "by time"}
        yield Difference(
            f"streams.{name}.reorder.rule", spelled[was.numbered], spelled[now.numbered], REFUSED,
            effect, restore_or_restart_remedy(topology),
        )  # fmt: skip
    for key, before, after in _iter_changed(was.reading, now.reading):
        path = f"streams.{name}.{key}"
        if key == WITHOUT_SEQ and before:
            yield Difference(
                path, before, "dead", REFUSED, effect, restore_or_restart_remedy(topology)
            )
        elif key == SEQ_RANGE:
            yield _compare_counter(path, before, after, topology)
        elif key in DERIVED and facts.unread:
            effect = "topics between stages contain records that must be read as before"
            remedy = (
                "write it as it was, stop the producers, and run the worker until `inorder explain`"
                " shows no lag, and then each later stage alone (--stage); then change it"
            )
            yield Difference(path, _format(before), _format(after), REFUSED, effect, remedy)
        else:
            effect = "applies to records from now on; buffered ones are read as before"
            yield Difference(path, _format(before), _format(after), BEGINS, effect)


def _compare_counter(
    path: str, was: str | None, now: str | None, topology: TopologyFile
) -> Difference:
    """Return the verdict on a counter that wraps elsewhere.

    Full numbers of the state are congruent to those that were sent, by the old counter. Without
    one, they are the numbers that were sent.
    """
    if was is None:
        effect = "numbers wrap from now on; those of before are as they were sent"
        return Difference(path, "", now or "", BEGINS, effect)
    effect = "the numbers of the state are counted by the old counter, so new ones would not fit"
    return Difference(path, was, now or "", REFUSED, effect, restore_or_restart_remedy(topology))


def _compare_results(old: Contract, new: Contract, topology: TopologyFile) -> Iterator[Difference]:
    tables = {f"queries.{name}.output" for name in old.queries.keys() & new.queries.keys()}
    effect = "a result and its correction would be in two places"
    for path, was, now in _iter_changed(old.results, new.results):
        if path in tables or (was and now):
            at, remedy = path.replace(".output", ".upsert"), restore_or_restart_remedy(topology)
            yield Difference(at, was or "", now or "", REFUSED, effect, remedy)


def _compare_queries(old: Contract, new: Contract) -> Iterator[Difference]:
    for name, was, now in _iter_changed(old.queries, new.queries):
        if now is None:
            effect = "its emitted results stay as they are, without corrections"
            yield Difference(f"queries.{name}", "runs", "", ENDS, effect)
        else:
            then, now = (was, now) if was else ("", "new")
            yield Difference(f"queries.{name}", then, now, BEGINS, FROM_NOW)


def _format(value: Any) -> str:
    """Return the value as text; a reader's schema is shown by a digest, because it is long."""
    if isinstance(value, dict) and value.get("reader", "").startswith("{"):
        digest = blake2b(value["reader"].encode(), digest_size=SHOWN_BYTES).hexdigest()
        value = value | {"reader": f"schema {digest}"}
    return "" if value is None else str(value)


# -- Inputs that no stage of the new file reads any more -----------------------------------------

BUFFERED: Final = "buffered events"
UNREAD: Final = "unread records"


def refuse_abandoned(stage: str, topic: str, left: str, topology: TopologyFile) -> Difference:
    """Return the verdict on a state that no stage of the new file continues.

    The state is that of `stage` for the input `topic`. `left` is the data that would be lost with
    it: BUFFERED, UNREAD, or "" for none.
    """
    named = operators_named(stage)
    path = f"input {topic}"
    if any(each.name == stage for each in topology.stages):
        if left and {REORDER, MERGE} & {*named}:
            effect = f"stage {stage} has {left} of it, which would never be emitted"
            remedy = (
                "put it back, stop its producers, run the worker until `inorder explain` shows no"
                " lag and no buffered event, then change it"
            )
            return Difference(path, "read", "", REFUSED, effect, remedy)
        return Difference(path, "read", "", ENDS, "it was read to its end, and nothing is buffered")
    moved = [
        each.name
        for each in topology.stages
        if any(map(topology.has_work, {*each.operators} & {*named}))
    ]
    if not moved:
        effect = "its results stay as they are, without corrections"
        return Difference(STAGES, stage, "", ENDS, effect)
    effect = (
        f"the state of `{stage}` is of no use to `{', '.join(moved)}`, which"
        " would begin with the first record and emit everything again"
        f" ({topology.cut.why})"
    )
    if stage == ALL:
        line = "remove `stages` from the file"
    else:
        line = (
            f"write the stages as they were, like `stages: [{', '.join(stages_as_before(stage))}]`"
        )
    move = "drain the application, stop it and move its state: `inorder topics recut`"
    remedy = f"{line}, or {move}; or {new_start_remedy(topology)}"
    return Difference(STAGES, stage, ", ".join(moved), REFUSED, effect, remedy)


def refuse_regrouping(
    lane: tuple[str, int], was: tuple[str, int], now: tuple[str, int], topology: TopologyFile
) -> Difference:
    """Return the refusal to read a partition by another task than the one that has its state.

    `was` and `now` are the first partitions of both tasks.
    """
    why = (
        "`keyed_by` and joins decide whether one task reads all partitions of an input"
        if was[0] == now[0]
        else "one task reads the inputs of streams that are joined"
    )
    effect = (
        f"{why}, and the state of another task is of no use to it: it would begin with the first"
        " record and emit everything again"
    )
    remedy = restore_or_restart_remedy(topology)
    before, after = (f"the task of {topic}/{number}" for topic, number in (was, now))
    return Difference(f"input {lane[0]}", before, after, REFUSED, effect, remedy)


def refuse_return(stage: str, was: str, now: str, topology: TopologyFile) -> Difference:
    """Return the refusal to return to an input that the application has read before."""
    effect = (
        f"the state of stage {stage} in {now} is from before {was} was read, so events that went"
        " there would count as missing"
    )
    remedy = f"put {was} back, drain it and use an input that was never read, or"
    return Difference(
        f"input {now}", was, now, REFUSED, effect, f"{remedy} {new_start_remedy(topology)}"
    )


def stages_as_before(name: str) -> list[str]:
    """Return a list of stages with this one, and the usual stages for all other operators."""
    common = [operator for operator in list_operators() if not link_of(operator).is_rare]
    rest = [operator for operator in common if operator not in operators_named(name)]
    return sorted([name, *rest], key=lambda each: list_operators().index(operators_named(each)[0]))


def refuse_taken(stage: str, outputs: Sequence[str], topology: TopologyFile) -> Difference:
    """Return the refusal to write to output topics that already have records.

    The records are those of another application, or of an earlier application of the same name.
    """
    effect = (
        f"stage {stage} has no state, so another application wrote them, or the changelog was lost"
        " or created again; this stage would write everything once more"
    )
    remedy = f"{lost_state_remedy(topology)}; or continue there from now on: --take-over now"
    held = f"{', '.join(outputs)} holds records"
    return Difference("application", held, topology.application, REFUSED, effect, remedy)


# -- Upstream partitions -------------------------------------------------------------------------


def extend_table(
    known: Sequence[tuple[str, int, int]], partitions: Mapping[str, int]
) -> list[tuple[str, int, int]]:
    """Return the table of upstream partitions, extended by the partitions that are new.

    `partitions` has the number of partitions of each topic. The number of an upstream partition
    never changes, so an added topic comes after all others.
    """
    found = [(str(topic), int(first), int(count)) for topic, first, count in known]
    for topic in sorted(partitions):
        have = max((first + count for name, first, count in found if name == topic), default=0)
        if partitions[topic] > have:
            is_last = bool(found) and found[-1][0] == topic  # The last range grows.
            first = found.pop()[1] if is_last else have
            found.append((topic, first, partitions[topic] - first))
    return found


def partitions_in_table(table: Sequence[tuple[str, int, int]]) -> list[tuple[str, int]]:
    """Return the topic and partition for each number in a table of upstream partitions."""
    return [(t, number) for t, first, count in table for number in range(first, first + count)]
