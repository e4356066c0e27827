"""End to end, an example table: a worker that cannot work gives the reason in one line, and exits.

Bad settings make it exit with 2, at once and without a stack trace. A fault that can pass, such as
a local copy that cannot be opened, is reported, and the worker continues without the copy.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from agents.kafka.declared import list_needed_topics
from agents.kafka.topics import ensure_topics
from cli.local.ports import free_ports
from tests.cli.invoking import inorder
from tests.end_to_end.oracle import assert_sound
from tests.end_to_end.records import contract, send
from tests.end_to_end.setting import FUSED, Setting, Settles, settle
from tests.end_to_end.topics import configure, delete_topics
from tests.end_to_end.waiting import wait_out
from tests.end_to_end.worker import Worker, at_work, running, worker_on
from tests.services import SharedKafka
from topology.config import parse

pytestmark = [pytest.mark.kafka, pytest.mark.slow]


def refused(worker: Worker, *says: str) -> str:
    """Return the log of a worker that is refused with these words."""
    with running(worker):
        worker.ends_refused(*says)
    return worker.log


def test_missing_topics_are_named(settles: Settles) -> None:
    setting = settles(make=False)
    refused(
        worker_on(setting),
        f"no such topic: {setting.topology.application}.",
        "run `inorder topics create`",
    )


def test_unreachable_broker_is_reported(tmp_path: Path) -> None:
    nobody = f"127.0.0.1:{free_ports(1)[0]}"
    setting = settle(nobody, tmp_path, stages=FUSED, make=False)
    said = refused(
        worker_on(setting, "--brokers-wait", "2s"),
        "WARNING waiting for brokers, ",
        f"no broker answers at {nobody}",
        "Connection refused",
        "waited for 2 s",
    )
    assert said.count("a compiled core needs half of the CPU") == 1, "once for all stages"


def test_unknown_host_is_reported(tmp_path: Path) -> None:
    setting = settle("broker.invalid:9092", tmp_path, stages=FUSED, make=False)
    worker = worker_on(setting)
    with running(worker):
        worker.await_said("Failed to resolve 'broker.invalid:9092'")
        assert worker.alive
        assert worker.stop() == 0, worker.log


def test_bad_topology_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text("streams: {default: {reorder: {max_wait: 5}}}\n")
    answer = inorder("worker", "--topology", path, "--brokers", "127.0.0.1:1")
    answer.refused(f"{path}:", "streams.default.reorder.max_wait")


def test_unknown_stage_is_refused(tmp_path: Path) -> None:
    setting = settle("127.0.0.1:1", tmp_path, make=False)
    worker = worker_on(setting, "--stage", "mrege")
    refused(worker, "--stage mrege: is not a stage; the topology has reorder, merge")


def test_dump_needs_its_topic(settles: Settles) -> None:
    setting = settles(make=False)
    asked = ("dump", "--topology", str(setting.path), "--brokers", setting.bootstrap)
    for more, told in (
        ((), f"has no topic {setting.raw}; run `inorder topics create`"),
        (("--topic", "others"), f"--topic others: write one of {setting.raw}"),
    ):
        inorder(*asked, *more).refused(told)


def once(setting: Setting, worker: Worker) -> None:
    """Send three events through the worker, and stop it."""
    with running(worker):
        send(setting, [("s", b"1", contract("s", seq)) for seq in range(3)])
        wait_out(setting, 3)
        assert worker.stop() == 0, worker.log


def test_changed_output_is_refused(settles: Settles) -> None:
    """Half of the stream is in the former output of the same application."""
    setting = settles.fused()
    once(setting, worker_on(setting))
    other = rewritten(setting, (setting.ordered, f"{setting.ordered}-b"))
    refused(
        worker_on(other, name="b"),
        f"{setting.ordered}/0 -> {setting.ordered}-b/0",
        "restore the old value to continue, or drain the application and begin anew",
    )


def rewritten(setting: Setting, *changes: tuple[str, str]) -> Setting:
    """Apply the changes to the setting's file, make the topics, and return the new setting."""
    text = setting.path.read_text()
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    setting.path.write_text(text)
    topology = parse(text)
    ensure_topics(list_needed_topics(topology), setting.bootstrap, 1)
    return replace(setting, topology=topology)


def test_compacted_input_is_refused(settles: Settles) -> None:
    """Compaction could remove events that a stage has buffered."""
    setting = settles.fused()
    configure(setting.bootstrap, setting.raw, "cleanup.policy", "compact")
    said = refused(worker_on(setting), "cleanup.policy=delete")
    assert said.count(f"{setting.raw} is compacted") == 1


def test_recreated_input_is_refused(kafka: SharedKafka, settles: Settles) -> None:
    """A recreated input can be longer than the old one: the state's offset exists, but follows
    other records.
    """
    setting = settles.fused()
    once(setting, worker_on(setting))
    delete_topics(setting.bootstrap, setting.raw)
    kafka.create_topic(setting.raw, config={"message.timestamp.type": "LogAppendTime"})
    send(setting, [("t", b"1", contract("t", seq)) for seq in range(9)])
    output = f"{setting.ordered}-2"
    refused(
        worker_on(setting, name="b"),
        f"{setting.raw} is not the topic that the state of its partition 0 was made from",
        "begin anew with `application: ",
        f"streams.default.output: {output}",
    )
    anew = rewritten(
        setting, (setting.ordered, output), ("application: app-", "application: anew-")
    )
    with at_work(anew, name="c"):
        wait_out(anew, 9)


def test_worker_runs_without_redis(settles: Settles) -> None:
    """Redis only keeps the local copy; without it the worker continues, and logs that."""
    redis = f"redis: redis://127.0.0.1:{free_ports(1)[0]}/0\n"
    setting = settles(partitions=1, state="redis", more=redis)
    worker = worker_on(setting)
    once(setting, worker)
    assert "the local copy is no longer used" in worker.log
    assert "Traceback" not in worker.log
    assert_sound(setting)
