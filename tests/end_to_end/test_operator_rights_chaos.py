"""End to end, marked `chaos`: a year of rights and certificates, behind a listener that requires
both.

tests/end_to_end/test_operator_chaos.py has the other chapters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from random import Random
from typing import NamedTuple

import pytest

from cli.local.kafka import KafkaBroker, jars
from cli.local.kafka.settings import as_properties
from tests.certificates import certificates, of_brokers, of_clients
from tests.cli.invoking import inorder
from tests.end_to_end.acls import GUARDS, Right, allow, bindings, right
from tests.end_to_end.day import Day
from tests.end_to_end.oracle import check
from tests.end_to_end.setting import Setting, fused
from tests.end_to_end.topics import admin_of
from tests.end_to_end.worker import REFUSED, Spawned, Worker, running
from tests.services import require
from tests.waiting import wait_until

pytestmark = [pytest.mark.chaos, pytest.mark.kafka, pytest.mark.timeout(900)]

LISTENER = "MUTUAL"
PRINCIPAL = "User:CN=client"


class Guarded(NamedTuple):
    """A broker, and a worker with a certificate and the rights that it needs."""

    broker: KafkaBroker
    setting: Setting
    worker: Worker
    certificates: Path

    def rights(self) -> list[Right]:
        """Return rights to each kind of resource, one for each kind of use."""
        setting = self.setting
        stage = f"{setting.topology.application}.{setting.stages[0]}"
        said = (
            f"Write on topic {setting.ordered}",
            f"Read on topic {setting.raw}",
            f"Describe on topic {setting.topology.topics.gaps}",
            f"Read on group {stage}",
            f"Write on transactional-id {stage}.{setting.raw}.0",
        )
        return [right(each, PRINCIPAL) for each in said]


@contextmanager
def guarded(folder: Path) -> Iterator[Guarded]:
    certificates(folder)
    overrides = GUARDS | of_brokers(folder) | {"listener.name.mutual.ssl.client.auth": "required"}
    listeners = {LISTENER: "SSL"}
    with KafkaBroker(folder / "kafka", overrides=overrides, listeners=listeners) as broker:
        setting = fused(broker.bootstrap, folder)
        acls = ("topics", "acls", "--topology", setting.path, "--principal", PRINCIPAL)
        allow(admin_of(broker.bootstrap), bindings(inorder(*acls).well().out))
        kafka = folder / "kafka.properties"
        kafka.write_text(as_properties(of_clients(folder)))
        there = broker.address(LISTENER)
        worker = Spawned("a", setting.path, there, folder, "--kafka", str(kafka))
        with running(worker):
            worker.wait_ready()
            yield Guarded(broker, setting, worker, folder)
            assert worker.stop() == 0, worker.log[-3000:]


class Guard:
    """A guard that changes rights and certificates, and kills the worker that needs them."""

    def __init__(self, guarded: Guarded, dice: Random) -> None:
        self._guarded, self._worker, self._dice = guarded, guarded.worker, dice
        self._admin = admin_of(guarded.broker.bootstrap)

    def acts(self) -> list[Callable[[], None]]:
        takes = (self._take, self._take_before_start)
        rights = [partial(self._dice.choice(takes), each) for each in self._guarded.rights()]
        return [*rights, self._renew, self._renew, self._kill, self._kill]

    def _take(self, denied: Right) -> None:
        """Revoke a right of the running worker, wait until the worker names it, and restore it."""
        denied.take(self._admin)
        self._await_named(denied)
        self._give_back(denied)

    def _take_before_start(self, denied: Right) -> None:
        """Kill the worker, start it without the right, and then restore the right."""
        denied.take(self._admin)
        self._kill()
        self._await_named(denied)
        self._give_back(denied)

    def _renew(self) -> None:
        """Have another authority sign the certificates of the broker and the worker."""
        certificates(self._guarded.certificates)
        self._guarded.broker.restart()

    def _kill(self) -> None:
        self._worker.kill_all()
        self._worker.start()

    def _await_named(self, denied: Right) -> None:
        worker = self._worker

        def is_named() -> bool:
            if not worker.alive:
                return True
            status, told = worker.ask("ready")
            return status == 503 and f"refuse {denied};" in str(told)

        wait_until(is_named, f"{denied} to be named")
        if not worker.alive:
            worker.ends_refused(str(denied))

    def _give_back(self, denied: Right) -> None:
        """Restore the right, and start the worker again if it has ended, as a supervisor would."""
        denied.give_back(self._admin)
        if not self._worker.alive:
            assert self._worker.exit_code() == REFUSED
            self._worker.start()
        self._worker.wait_ready()


def test_missing_rights_are_named(tmp_path: Path, say: Callable[[str], None]) -> None:
    """Each right is revoked and restored, certificates are renewed, and the worker is killed. Each
    event is emitted once and in order.
    """
    require(jars.missing())
    with guarded(tmp_path) as found:
        day = Day(say)
        day.plan(Guard(found, day.dice).acts())
        day.go_through(found.setting)
        verdict = check(found.setting)
    say(f"{verdict}")
    assert not verdict.faults, verdict
