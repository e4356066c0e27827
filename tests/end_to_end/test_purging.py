"""End to end: records in the sequenced topic are deleted once all stages are done with them.

A worker that is killed right afterwards resumes exactly.
"""

from __future__ import annotations

import pytest

from tests.end_to_end.flow import flowing
from tests.end_to_end.setting import Settles
from tests.end_to_end.topics import offsets_of
from tests.end_to_end.worker import worker_on
from tests.waiting import wait_until

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

QUIET_S = 30.0


def test_killed_worker_resumes_after_purge(settles: Settles) -> None:
    setting = settles(partitions=1)
    worker = worker_on(setting, name="w")

    def is_purged() -> bool:
        return offsets_of(setting.bootstrap, setting.topology.topics.sequenced)[0] > 0

    with flowing(setting, [worker], 1, 0) as flow:
        wait_until(
            lambda: flow.emitted.poll() < 0 or is_purged(),
            "the first purge",
            lambda: worker.log,
            quiet_s=QUIET_S,
        )
        worker.kill_all()
        worker.begin()
    assert is_purged()
