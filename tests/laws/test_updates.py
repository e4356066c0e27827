"""Law: an update changes the result or makes it final, even at the end of the input."""

from __future__ import annotations

from dataclasses import fields

from tests.laws.many_streams import contents_of, text_of, topology_of
from tests.seeds import seeds_of_today
from topology.base.result import UPDATE, Result
from topology.stage.replay import Replay

BESIDES = {"at_ns", "op", "revision"}


def said(result: Result) -> str:
    names = [each.name for each in fields(result) if each.name not in BESIDES]
    return repr([(name, getattr(result, name)) for name in names])


def test_update_changes_the_result() -> None:
    for seed in seeds_of_today(12):
        topology = topology_of(seed)
        replay, before = Replay(topology), dict[str, str]()
        for step in (replay.on_inputs(contents_of(topology, seed)), replay.on_end()):
            for result in [] if step is None else step.results:
                if isinstance(result, Result):
                    same = result.op == UPDATE and before[result.id] == said(result)
                    assert not same, f"{result}, seed {seed}:\n{text_of(seed)}"
                    before[result.id] = said(result)
