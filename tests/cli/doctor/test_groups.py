"""Examples: faults of consumer groups, from brokers' answers and on a real broker."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer

from cli.doctor.groups import SeenGroup, group_findings
from tests.cli.invoking import inorder
from tests.end_to_end.setting import settle
from tests.end_to_end.worker import Worker, running
from tests.services import SharedKafka
from tests.waiting import until
from topology.config import parse

TOPOLOGY = parse("streams: {default: {}}\nstages: [reorder, merge]\n")
GROUP = "inorder.reorder"
RAW = ("events.raw", 0)
WORKER = {"worker at /10.0.0.1": frozenset({"events.raw"})}


@pytest.mark.parametrize(
    ("seen", "where", "what"),
    [
        (SeenGroup(WORKER, {RAW: 7}, {RAW: (5, 9)}), None, ""),
        (SeenGroup(WORKER, {RAW: 7}, {RAW: (9, 9)}), "events.raw/0", "2 records were deleted"),
        (SeenGroup({}, {RAW: 7}, {RAW: (5, 9)}), f"group {GROUP}", "2 records wait: nobody runs"),
        (SeenGroup({}, {RAW: 9}, {RAW: (5, 9)}), None, "it has read all"),
        (SeenGroup(), None, "it has never read"),
        (
            SeenGroup({**WORKER, "b at /h": frozenset({"events.raw", "others"})}),
            f"group {GROUP}",
            "b at /h is in it and reads others, which stage reorder does not read",
        ),
    ],
)
def test_fault_of_group_is_found(seen: SeenGroup, where: str | None, what: str) -> None:
    found = [*group_findings(TOPOLOGY, {GROUP: seen})]
    assert [each.where for each in found] == ([] if where is None else [where])
    assert all(what in each.what for each in found)


@pytest.mark.kafka
@pytest.mark.slow
def test_foreign_member_is_found(kafka: SharedKafka, tmp_path: Path) -> None:
    setting = settle(kafka.bootstrap, tmp_path, stages="reorder+merge", partitions=1)
    ask = ("doctor", "--topology", setting.path, "--brokers", kafka.bootstrap)
    worker = Worker("a", setting.path, setting.bootstrap, tmp_path)
    with running(worker):
        worker.wait_ready()
        sound = inorder(*ask)
        assert (sound.code, sound.out) == (0, "")
    group = f"{setting.topology.application}.reorder+merge"

    async def scenario() -> str:
        async with AIOKafkaConsumer(
            setting.ordered, bootstrap_servers=kafka.bootstrap, group_id=group, client_id="other"
        ) as consumer:
            await until(consumer.assignment)
            return (await asyncio.to_thread(inorder, *ask)).out

    said = asyncio.run(scenario())
    assert said.startswith(f"error    group {group}: other at /127.0.0.1 is in it and reads")
