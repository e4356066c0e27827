"""The log of a key, written down and read back: the state at C, and the results that may change.

Events are not in it; they are held, and put again. What was read of them is read again at a restart
and gives what it gave before. Where some of it has no checkpoint, this is said, so that what comes
late is read again from where it would have been.
"""

from __future__ import annotations

from topology.detector.checkpoints import Checkpoints
from topology.detector.cursor import DetectorOutput
from topology.detector.detector import STOPPED, Behaviour, Stopped
from topology.detector.item import ABSENT, Key, dump_key, load_key
from topology.detector.key_log import KeyLog
from topology.detector.values import NotAValue, packed, unpacked
from topology.model.kept import packed as packed_number
from topology.model.kept import unpacked as unpacked_number
from topology.model.operator import Plain
from topology.model.result import Member
from topology.query.results import CurrentResult


def dump(log: KeyLog, behaviour: Behaviour) -> Plain:
    base, live = log.base, log.live
    if base.state is ABSENT:
        state, high_ns, last, ticks = live.state, live.high_ns, live.last, live.ticks
    else:
        state, high_ns, last, ticks = base.state, base.high_ns, base.last, base.ticks
    try:
        kept = behaviour.pack(state)
    except NotAValue as wrong:
        kept = behaviour.pack(Stopped(f"its state cannot be kept: {wrong}"))
    shown = [
        [
            id_,
            each.revision,
            each.live,
            each.final,
            each.content is not None and each.content.is_own,
        ]
        + ([] if each.live or each.content is None else [dump_key(each.content.cause)])
        for id_, each in log.shown.items()
    ]
    floor = [_dumped(output) for output in log.floor.values()]
    runs, since = log.checkpoints()
    known = [kept, packed_number(high_ns), dump_key(last), ticks, shown, floor]
    return [*known, [*runs, since]] if runs else known


def load(log: KeyLog, plain: Plain, behaviour: Behaviour) -> None:
    kept, high_ns, last, ticks, shown, floor, *checkpoints = plain
    state = behaviour.unpack(kept)
    log.begin_at(state, unpacked_number(high_ns), load_key(last), ticks)
    if isinstance(state, Stopped) and kept[0] != STOPPED:
        log.note_stop(state.why)
    for id_, revision, live, final, is_own, *cause in shown:
        content = _absent(id_, load_key(cause[0]), is_own) if cause else None
        log.shown[id_] = CurrentResult(content, revision, live=live, final=final)
    for *runs, since in checkpoints:
        log.begun_with = Checkpoints(runs, since)
    for each in floor:
        output = _loaded(each)
        log.floor[output.id] = output


def _dumped(output: DetectorOutput) -> Plain:
    return [
        output.id,
        dump_key(output.cause),
        output.number,
        packed(output.values, {}),
        packed_number(output.start_ns),
        packed_number(output.end_ns),
        [list(member) for member in output.members],
        output.last,
        output.unsure,
        output.is_own,
    ]


def _loaded(plain: Plain) -> DetectorOutput:
    id_, cause, number, values, start_ns, end_ns, members, last, unsure, is_own = plain
    return DetectorOutput(
        id_,
        load_key(cause),
        number,
        unpacked(values, {}),
        unpacked_number(start_ns),
        unpacked_number(end_ns),
        [Member(*member) for member in members],
        last=last,
        unsure=unsure,
        is_own=is_own,
    )


def _absent(id_: str, cause: Key, is_own: bool) -> DetectorOutput:
    """What is left of an output that was retracted."""
    return DetectorOutput(id_, cause, 0, {}, 0, 0, [], last=True, unsure=False, is_own=is_own)
