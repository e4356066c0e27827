"""End to end: the chart on a Kubernetes node, while its pods are replaced, killed and evicted.

`make kubernetes` starts its own node (`infra.kubernetes.node`). INORDER_KUBECONFIG names another
cluster, such as a kind cluster, which already has the images.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress

import pytest
import yaml

from cli.local.process import find_descendants
from infra.helm import CHART
from infra.kubernetes.node import Node
from tests.infra.kubernetes.plant import BROKERS, WORKERS, Cluster, Judged, Plant, is_ready
from tests.waiting import wait_until

# The first test builds the programs, which takes an hour or more on a new busy machine.
pytestmark = [pytest.mark.kubernetes, pytest.mark.timeout(7200)]

COUNT = 1_500
CALM_S = 20
LATE_MARGIN = 0.05
"""The share of a new stream, which has not learned its waits yet, is 0.04."""
LIVENESS_S = 300
"""Longer than the probes and the grace period, after which a hanging container is killed."""
RATE, FLOOD = 10_000, 200_000
ENOUGH_FOR = 10_000
"""The events per second for which the chart's request is enough, according to values.yaml."""
REST_S = 10
SELECTED = "app.kubernetes.io/instance=plant,app.kubernetes.io/component=all"


@pytest.fixture(scope="module")
def plant(cluster: Cluster) -> Plant:
    plant = Plant(cluster)
    plant.prepare()
    notes = plant.install()
    assert "kubectl logs -n plant job/plant-topics" in notes
    plant.await_workers()
    plant.send(COUNT)  # A new stream has not learned its waits yet.
    judge(plant)
    return plant


def judge(plant: Plant) -> Judged:
    judged = plant.judge()
    print(judged)
    assert judged.is_exact, judged
    return judged


def test_helm_test_succeeds(plant: Plant) -> None:
    said = plant.helm("test", "plant", "--logs")
    assert "Phase:          Succeeded" in said
    assert BROKERS in said


def test_volume_belongs_to_worker(plant: Plant) -> None:
    for name in WORKERS:
        claims = [each.get("persistentVolumeClaim") for each in plant.pod(name)["spec"]["volumes"]]
        assert {"claimName": f"state-{name}"} in claims
        if not isinstance(plant.cluster, Node):
            continue  # Volumes in kind are folders, and Kubernetes does not set their owner.
        listed = plant.kubectl("exec", name, "--", "ls", "-ldn", "/var/lib/inorder").split()
        assert listed[0].startswith("drwxrws"), "by fsGroup"
        assert listed[3] == "10001"


def restart(plant: Plant) -> None:
    plant.kubectl("rollout", "restart", "statefulset/plant-all")
    plant.kubectl("rollout", "status", "statefulset/plant-all", "--timeout=300s")


def delete(plant: Plant) -> None:
    plant.kubectl("delete", "pod", plant.working())


def delete_by_force(plant: Plant) -> None:
    plant.kubectl("delete", "pod", plant.working(), "--force", "--grace-period=0")


def restarts(plant: Plant, name: str) -> int:
    statuses = plant.pod(name)["status"]["containerStatuses"]
    return sum(int(each["restartCount"]) for each in statuses)


def kill(plant: Plant) -> None:
    """Kill the worker's processes from the node."""
    name = plant.working()
    count = restarts(plant, name)
    if isinstance(plant.cluster, Node):
        uid = plant.pod(name)["metadata"]["uid"]
        for pid in plant.cluster.pids(uid, "worker"):
            os.kill(pid, signal.SIGKILL)
    else:
        with suppress(subprocess.CalledProcessError):  # The container ends before the answer.
            plant.kubectl("exec", name, "--", "python", "-c", "import os; os.kill(-1, 9)")
    wait_until(lambda: restarts(plant, name) > count, "the container to start again")


def drain(plant: Plant) -> None:
    """Drain the only node; the disruption budget keeps one of the two pods."""
    (name,) = plant.cluster.kubectl("get", "nodes", "-o", "name").split()
    words = ("--delete-emptydir-data", "--ignore-daemonsets", f"--pod-selector={SELECTED}")
    try:
        with pytest.raises(subprocess.CalledProcessError) as refused:
            plant.cluster.kubectl("drain", name, *words, "--timeout=30s")
        assert "disruption budget" in refused.value.stderr
        assert sum(is_ready(plant.pod(each)) for each in WORKERS) == 1
    finally:
        plant.cluster.kubectl("uncordon", name)


def upgrade(plant: Plant) -> None:
    """Change the functions file, so that the pods are replaced one by one."""
    plant.install("plant", "--set-string", r"functions.f\.py=functions = {}")


@pytest.fixture(scope="module")
def calm(plant: Plant) -> Judged:
    """Return the judgement of a period in which nothing disturbs the workers."""
    plant.await_workers()
    plant.send_during(lambda: time.sleep(CALM_S))
    return judge(plant)


@pytest.mark.parametrize("disturb", [restart, delete, delete_by_force, kill, drain, upgrade])
def test_each_event_is_emitted_once(
    plant: Plant, calm: Judged, disturb: Callable[[Plant], None]
) -> None:
    """The share of late events rises by no more than `LATE_MARGIN` above that of a calm period."""
    plant.await_workers()
    plant.send_during(lambda: disturb(plant))
    plant.await_workers()
    assert judge(plant).late_share <= calm.late_share + LATE_MARGIN


def measure_takeover(plant: Plant, gone: str) -> float:
    """Return the seconds until a worker other than `gone` has the task."""
    began_s = time.monotonic()
    others = [name for name in WORKERS if name != gone]
    wait_until(lambda: any(map(plant.is_working, others)), "the standby to work")
    return time.monotonic() - began_s


def test_deleted_worker_exits_cleanly(plant: Plant) -> None:
    """The worker's last log line is a record, not a traceback, and its exit code is 0."""
    name = plant.working()
    log = plant.popen("logs", name, "--follow", "--tail=5")
    ended = ";code={.status.containerStatuses[*].state.terminated.exitCode}"
    watch = plant.popen("get", "pod", name, "--watch", "-o", f"jsonpath={ended}")
    assert watch.stdout is not None
    watch.stdout.read(1)  # The watch has started.
    plant.kubectl("delete", "pod", name, "--wait=false")
    print(f"the standby works after {measure_takeover(plant, name):.1f} s")
    last = log.communicate(timeout=120)[0].splitlines()[-1]
    assert '"level"' in last, last
    assert "Traceback" not in last
    plant.await_workers()
    watch.terminate()
    codes = set(watch.communicate()[0].split(";"))
    assert codes - {"", "code="} == {"code=0"}


def test_hanging_worker_is_restarted(plant: Plant) -> None:
    """The worker's probe fails, so kubelet ends the container; the standby has the task by then."""
    own = plant.cluster
    if not isinstance(own, Node):
        pytest.skip("the processes of another cluster's nodes cannot be stopped")

    def hang() -> None:
        name = plant.working()
        count = restarts(plant, name)
        (first,) = own.pids(plant.pod(name)["metadata"]["uid"], "worker")
        for pid in (first, *find_descendants(first)):
            os.kill(pid, signal.SIGSTOP)
        print(f"the standby works after {measure_takeover(plant, name):.1f} s")
        began_s = time.monotonic()
        wait_until(
            lambda: restarts(plant, name) > count,
            "the container to start again",
            quiet_s=LIVENESS_S,
        )
        print(f"the container starts again {time.monotonic() - began_s:.0f} s later")

    plant.await_workers()
    plant.send_during(hang)
    plant.await_workers()
    judge(plant)
    events = plant.kubectl("get", "events", "-o", "jsonpath={.items[*].message}")
    assert "Container worker failed liveness probe, will be restarted" in events


def test_wrong_brokers_fail_install(cluster: Cluster, plant: Plant) -> None:
    """A Job fails before Helm gives up, and the Job's log remains."""
    with pytest.raises(subprocess.CalledProcessError) as failed:
        plant.install("wrong", "--set", "brokers=nowhere.kafka:9092")
    assert "BackoffLimitExceeded" in failed.value.stderr
    assert "nowhere.kafka:9092" in plant.kubectl("logs", "job/wrong-topics")
    plant.helm("uninstall", "wrong")


def test_network_policy_is_enforced(cluster: Cluster, plant: Plant) -> None:
    """A client outside the release is refused, unless it has the labels of the release's pods."""
    if not isinstance(cluster, Node):
        pytest.skip("what enforces the policies of another cluster is not known")
    cluster.enforce_policies()
    ask = "import urllib.request as web; web.urlopen('http://plant-all:8080/live', timeout=3)"
    words = ("exec", "client", "--", "python", "-c", ask)

    def is_let_in() -> bool:
        try:
            plant.kubectl(*words)
        except subprocess.CalledProcessError:
            return False
        return True

    wait_until(lambda: not is_let_in(), "a stranger to be refused")
    label = plant.pod(WORKERS[0])["metadata"]["labels"]
    own = [
        f"{name}={label[name]}" for name in ("app.kubernetes.io/name", "app.kubernetes.io/instance")
    ]
    plant.kubectl("label", "pod", "client", *own)
    wait_until(is_let_in, "a pod of the release to be let in")
    plant.send(COUNT)
    judge(plant)


def test_requested_cpu_is_enough(plant: Plant) -> None:
    """The test prints the figures in values.yaml; a busy machine can reach a lower rate."""
    own = plant.cluster
    if not isinstance(own, Node):
        pytest.skip("another cluster does not say what its containers take")
    working = plant.working()
    uid = plant.pod(working)["metadata"]["uid"]

    def measure(wait: Callable[[], object]) -> tuple[float, float, float]:
        """Return the seconds, and the worker's CPU seconds and megabytes of memory."""
        began_s, (before_s, _) = time.monotonic(), own.usage(uid, "worker")
        wait()
        after_s, memory = own.usage(uid, "worker")
        return time.monotonic() - began_s, after_s - before_s, memory / 1e6

    rest_s, cpu_s, mb = measure(lambda: time.sleep(REST_S))
    at_rest = cpu_s / rest_s
    print(f"at rest: {at_rest:.2f} of a core, {mb:.0f} MB")

    took_s: list[float] = []

    def flood() -> None:
        took_s.append(plant.flood(FLOOD, RATE))
        judge(plant)  # The work is over when all events have been emitted.

    whole_s, cpu_s, mb = measure(flood)
    each_s = (cpu_s - at_rest * whole_s) / FLOOD
    rate = FLOOD / took_s[0]
    print(f"at {rate:.0f} events/s of {RATE}: {at_rest + rate * each_s:.2f} of a core, {mb:.0f} MB")
    asked = at_rest + ENOUGH_FOR * each_s
    print(f"at {ENOUGH_FOR} events/s in proportion: {asked:.2f} of a core")
    requested = yaml.safe_load((CHART / "values.yaml").read_text())["workerDefaults"]["resources"]
    assert requested["requests"] == {"cpu": "500m", "memory": "256Mi"}
    assert asked < 0.5
    assert mb < 256 * 1.048576
