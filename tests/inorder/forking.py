"""A source that forks, run as a program: BROKERS TOPIC JOURNAL.

The program sends three records, and then forks a child that tries all forbidden calls, leaves the
`with` block and exits normally. A second child stays alive. Standard output has one result a line;
the last line is the id of the living child. The program waits to be killed.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path

from inorder.failure import ForkedError
from inorder.sequenced import SequencedProducer

LIVES_S = 60


def tries(producer: SequencedProducer) -> None:
    calls: dict[str, Callable[[], object]] = {
        "send": lambda: producer.send(b"from the child"),
        "heartbeat": producer.heartbeat,
        "flush": producer.flush,
    }
    for name, call in calls.items():
        try:
            call()
            print(name, "was done", flush=True)
        except ForkedError as error:
            print(name, error, flush=True)


def main() -> None:
    brokers, topic, journal = sys.argv[1:]
    warnings.simplefilter("ignore", DeprecationWarning)  # This test is about a fork beside threads.
    with SequencedProducer(brokers, topic, "s1", journal=Path(journal), first_epoch=40) as producer:
        for _ in range(3):
            producer.send(b"x")
        producer.flush()
        child = os.fork()
        if child == 0:
            with contextlib.suppress(ZeroDivisionError), producer:
                tries(producer)
                raise ZeroDivisionError
            return  # The child also leaves the outer `with` block, and exits normally.
        print("child ended with", os.waitpid(child, 0)[1], flush=True)
        producer.send(b"x")
        producer.flush()
        if os.fork() == 0:
            print(os.getpid(), flush=True)  # The child prints it after releasing the lock.
            time.sleep(LIVES_S)
            os._exit(0)
        sys.stdin.read()


if __name__ == "__main__":
    main()
