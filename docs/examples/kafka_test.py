"""Tests a topology on a real broker, which testcontainers starts and removes."""

import json
import subprocess
import time

import pytest
from testcontainers.core.container import DockerContainer

BROKERS = "localhost:9092"
TOPOLOGY = ("--topology", "docs/examples/press.yaml", "--brokers", BROKERS)


@pytest.fixture(scope="module", autouse=True)
def worker(tmp_path_factory):
    kafka = DockerContainer("apache/kafka:4.1.0")
    kafka.ports["9092"] = ("127.0.0.1", 9092)  # It has no password.
    with kafka:
        create = ["inorder", "topics", "create", "--brokers-wait", "2min", *TOPOLOGY]
        subprocess.run(create, check=True)
        state = ("--state-dir", tmp_path_factory.mktemp("state"))
        process = subprocess.Popen(["inorder", "worker", *TOPOLOGY, *state])
        try:
            yield
            process.terminate()
            assert process.wait(60) == 0
        finally:
            process.kill()


def test_events_come_in_order(tmp_path):
    now_ms = time.time_ns() // 1_000_000
    file = tmp_path / "events.jsonl"
    rows = [{"source": "press-7", "seq": n, "ts": now_ms + n} for n in (0, 2, 1)]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    to = ["--brokers", BROKERS, "--topic"]
    subprocess.run(["inorder", "produce", *to, "events.raw", str(file), *TOPOLOGY[:2]], check=True)
    read = ["inorder", "read", *to, "events.ordered", *TOPOLOGY[:2], "--follow", "--count", "3"]
    lines = subprocess.run(read, check=True, capture_output=True, text=True, timeout=120).stdout
    assert [json.loads(line)["seq"] for line in lines.splitlines()] == [0, 1, 2]
