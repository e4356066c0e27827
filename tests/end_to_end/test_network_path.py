"""End to end: a source with a wrong clock, a server, and a bad network path between them.

The path is slow, lossy, uneven and out of order. Both programs run on one machine, so the true
offset is known at each timestamp. That offset must lie inside the interval of every published
sample.

One kind of path is a relay in user space, which works everywhere. The other is a veth pair between
two network namespaces, with netem where the kernel has it. A kind that is not available is skipped
with the reason.
"""

from __future__ import annotations

import itertools
import json
import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path as File
from typing import Any

import pytest

from cli.local.process import Process
from cli.program import PROGRAM
from tests import ROOT
from tests.inorder.sync.far_end import truth_ns
from tests.inorder.sync.relay import Relay
from tests.inorder.sync.sockets import serving
from tests.inorder.sync.world import Path
from tests.kit.programs import ended

pytestmark = pytest.mark.slow

TIMEOUT_S = 40.0
ROUNDS = 14
MOST_ERROR_NS = 1_000_000_000
PORT = 4123
CLOCKS_NS = 20_000
"""Allowance for two clocks on one machine that are read one after the other."""

_numbers = itertools.count()


def far_end(server: str, *before: str) -> dict[str, Any]:
    """Run the source until it ends, and return its report."""
    command = [*before, sys.executable, "-m", "tests.inorder.sync.far_end"]
    done = ended(*command, server, "s1", str(ROUNDS), str(TIMEOUT_S))
    assert done.returncode == 0, done.stderr
    told: dict[str, Any] = json.loads(done.stdout)
    return told


def check(told: dict[str, Any], samples: Sequence[dict[str, int]]) -> None:
    """Assert that the true offset lies inside each sample's interval and the source's own."""
    assert told["rounds"] >= ROUNDS, told
    assert told["segment"] == 0
    assert abs(told["offset"] - told["truth"]) <= told["error"] + CLOCKS_NS
    assert len(samples) >= ROUNDS
    for sample in samples:
        begin_ns = told["begin"]
        assert sample["t3"] - sample["t4"] <= truth_ns(begin_ns, sample["t4"]) + CLOCKS_NS
        assert truth_ns(begin_ns, sample["t1"]) - CLOCKS_NS <= sample["t2"] - sample["t1"]
    assert told["error"] <= min(widest_error_ns(told, samples[: told["rounds"]]), MOST_ERROR_NS)


def widest_error_ns(told: dict[str, Any], known: Sequence[dict[str, int]]) -> int:
    """Return half the width of the interval at the timestamp, for the rounds that the server
    acknowledged.

    The source knew at least those rounds, so this bound holds on a slow machine too.
    """
    stamp_ns, skew_ppb, step_ns = (int(told[name]) for name in ("stamp", "skew_ppb", "step"))

    def drift_ns(since_ns: int) -> int:
        return -(-(stamp_ns - since_ns) * skew_ppb // 10**9)

    above_ns = min(one["t2"] - one["t1"] + drift_ns(one["t1"]) for one in known)
    below_ns = max(one["t3"] - one["t4"] - drift_ns(one["t4"]) for one in known)
    return (above_ns - below_ns + 1) // 2 + step_ns


@pytest.mark.parametrize(
    ("forward", "backward"),
    [
        pytest.param(Path(0.02, 0.005), Path(0.02, 0.005), id="jitter"),
        pytest.param(Path(0.001), Path(0.08, 0.002), id="uneven"),
        pytest.param(Path(0.01, lost=0.15), Path(0.01, lost=0.15), id="lossy"),
        pytest.param(
            Path(0.0, 0.03, doubled=0.3), Path(0.0, 0.03, doubled=0.3), id="copies out of order"
        ),
    ],
)
def test_offset_is_right_over_relay(forward: Path, backward: Path) -> None:
    with serving() as server, Relay(server.port, forward, backward) as relay:
        told = far_end(relay.name)
    check(
        told, [{"t1": s.t1_ns, "t2": s.t2_ns, "t3": s.t3_ns, "t4": s.t4_ns} for s in server.taken]
    )
    assert bool(relay.counts["lost"]) is (forward.lost > 0)
    assert bool(relay.counts["doubled"]) is (forward.doubled > 0)


@dataclass
class Namespaces:
    """Two joined network namespaces; `near` has the address `address`."""

    near: str
    far: str
    address: str

    def inside(self, name: str) -> list[str]:
        return ["ip", "netns", "exec", name]


def run(*words: str) -> str | None:
    """Run a command; return None on success, otherwise its error."""
    try:
        done = ended(*words)
    except OSError as error:
        return str(error)
    return None if done.returncode == 0 else done.stderr.strip() or f"exit {done.returncode}"


@pytest.fixture
def namespaces() -> Iterator[Namespaces]:
    if shutil.which("ip") is None:
        pytest.skip("no network namespaces: `ip` (iproute2) is not installed")
    tag = f"{os.getpid() % 100_000}{next(_numbers)}"
    near, far = f"inorder-n{tag}", f"inorder-f{tag}"
    made = Namespaces(near, far, "10.203.77.1")
    steps = [
        ("ip", "netns", "add", near),
        ("ip", "netns", "add", far),
        (
            *("ip", "link", "add", f"n{tag}", "netns", near, "type", "veth"),
            *("peer", "name", f"f{tag}", "netns", far),
        ),
        ("ip", "-n", near, "addr", "add", "10.203.77.1/30", "dev", f"n{tag}"),
        ("ip", "-n", far, "addr", "add", "10.203.77.2/30", "dev", f"f{tag}"),
        ("ip", "-n", near, "link", "set", f"n{tag}", "up"),
        ("ip", "-n", far, "link", "set", f"f{tag}", "up"),
    ]
    try:
        for step in steps:
            if refused := run(*step):
                pytest.skip(f"no network namespaces here: `{' '.join(step)}`: {refused}")
        yield made
    finally:
        for name in (near, far):  # The kernel then deletes both ends of the pair.
            run("ip", "netns", "delete", name)


def add_netem(namespaces: Namespaces, *what: str) -> None:
    """Add netem at both ends, so that both directions have it; skip the test if it is not
    available.
    """
    if shutil.which("tc") is None:
        pytest.skip("no netem: `tc` (iproute2) is not installed")
    for name in (namespaces.near, namespaces.far):
        device = name.replace("inorder-", "")
        if refused := run(
            *("tc", "-n", name, "qdisc", "add", "dev", device, "root", "netem", *what)
        ):
            pytest.skip(f"the kernel has no netem (CONFIG_NET_SCH_NETEM): {refused}")


def between(namespaces: Namespaces, folder: File) -> None:
    """Run the server in one namespace and the source in the other, and check its report."""
    server = Process(
        "sync-server",
        [
            *namespaces.inside(namespaces.near),
            *(*PROGRAM, "sync-server", "--brokers", "none"),
            *("--bind", f"{namespaces.address}:{PORT}", "--auth", "none", "--server", "near"),
            *("--http", f"{namespaces.address}:0"),
        ],
        folder,
        {"PYTHONPATH": str(ROOT)},
    )
    server.start()
    try:
        server.wait_until(lambda: "sync server on" in server.log.read_text(), TIMEOUT_S)
        told = far_end(f"{namespaces.address}:{PORT}", *namespaces.inside(namespaces.far))
    finally:
        code = server.stop()
    assert code == 0, server.tail()
    lines = [line for line in server.log.read_text().splitlines() if line.startswith("{")]
    check(told, [json.loads(line) for line in lines])


@pytest.mark.parametrize(
    "netem",
    [
        pytest.param((), id="as it is"),
        pytest.param(("delay", "20ms"), id="delay"),
        pytest.param(("delay", "20ms", "10ms", "25%"), id="jitter"),
        pytest.param(("delay", "10ms", "loss", "15%"), id="loss"),
        pytest.param(("delay", "20ms", "reorder", "25%", "50%", "duplicate", "10%"), id="reorder"),
    ],
)
def test_offset_is_right_over_netem(
    namespaces: Namespaces, tmp_path: File, netem: tuple[str, ...]
) -> None:
    if netem:
        add_netem(namespaces, *netem)
    between(namespaces, tmp_path)
