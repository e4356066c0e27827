"""End to end: a Kubernetes API server accepts the chart for an install, an upgrade and a test.

There are no controllers and no nodes: the test itself marks Jobs and pods as finished. Definitions
of custom resources come from the modules of their operators.
"""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from infra.api_server import ApiServer, definition, missing
from infra.helm import CHART, HelmFailed, find_program
from infra.helm import missing as helm_missing
from tests.infra.test_helm import CUSTOM, VALUES, Manifest, manifests
from tests.services import require
from tests.waiting import wait_until

HELM_S = 120
POLL_S = 0.2
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
NOW = "2026-01-01T00:00:00Z"

pytestmark = [pytest.mark.long, pytest.mark.timeout(1500)]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    require(missing())
    require(helm_missing())
    with ApiServer(tmp_path_factory.mktemp("api")) as server:
        for kind in CUSTOM:
            server.ask(DEFINITIONS, definition(kind), "POST")
        # The API server serves a new definition only after a moment.
        wait_until(lambda: all(is_served(server, kind) for kind in CUSTOM), "the definitions")
        yield server


def is_served(server: ApiServer, kind: str) -> bool:
    (found,) = [
        one.get("status", {}).get("conditions") or []
        for one in server.ask(DEFINITIONS)["items"]
        if one["spec"]["names"]["kind"] == kind
    ]
    return ("Established", "True") in [(one["type"], one["status"]) for one in found]


class Cluster(threading.Thread):
    """A thread that stands in for controllers and nodes: inside `with`, it marks Jobs and pods as
    finished.
    """

    def __init__(self, server: ApiServer, namespace: str) -> None:
        super().__init__(daemon=True)
        self.server = server
        self.jobs = f"/apis/batch/v1/namespaces/{namespace}/jobs"
        self.pods = f"/api/v1/namespaces/{namespace}/pods"
        self.ended: set[str] = set()
        self._stopping = threading.Event()

    def __enter__(self) -> Cluster:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self.join()

    def run(self) -> None:
        conditions = [
            {"type": kind, "status": "True", "lastTransitionTime": NOW}
            for kind in ("SuccessCriteriaMet", "Complete")
        ]
        job = {
            "startTime": NOW,
            "completionTime": NOW,
            "succeeded": 1,
            "conditions": conditions,
            "uncountedTerminatedPods": {},
        }
        while not self._stopping.wait(POLL_S):
            for path, status in ((self.jobs, job), (self.pods, {"phase": "Succeeded"})):
                for one in self.server.ask(path)["items"]:
                    name = one["metadata"]["name"]
                    if name not in self.ended:
                        self.server.ask(f"{path}/{name}/status", {"status": status}, "PATCH")
                        self.ended.add(name)


def helm(server: ApiServer, *words: str) -> str:
    done = subprocess.run(
        [find_program(), *words, f"--kubeconfig={server.kubeconfig}"],
        env={**os.environ, "HELM_CACHE_HOME": str(server.kubeconfig.parent)},
        check=False,
        capture_output=True,
        text=True,
        timeout=HELM_S,
    )
    if done.returncode:
        raise HelmFailed(done.stderr)
    return done.stdout


@pytest.mark.parametrize("values", VALUES, ids=lambda path: str(path.stem))
def test_release_installs_and_upgrades(server: ApiServer, values: Path) -> None:
    space = f"of-{values.stem}"
    core = f"/api/v1/namespaces/{space}"

    def names(kind: str) -> set[str]:
        return {one["metadata"]["name"] for one in server.ask(f"{core}/{kind}")["items"]}

    def token() -> object:
        return server.ask(f"{core}/secrets/plant-http")["data"]["token"]

    where = ("plant", f"--namespace={space}")
    given = ("--values", str(values))
    with Cluster(server, space) as cluster:
        helm(server, "install", *where, str(CHART), "--create-namespace", *given)
    assert ("plant-topics" in cluster.ended) == ("create: false" not in values.read_text())
    first = {name for name in names("configmaps") if name.startswith("plant-settings-")}
    assert len(first) == 1
    has_own = "INORDER_HTTP_TOKEN" in values.read_text()
    made = None if has_own else token()
    with Cluster(server, space) as cluster:
        changed = "functions.f\\.py=functions = {}"
        helm(server, "upgrade", *where, str(CHART), *given, "--set-string", changed)
        helm(server, "test", *where)
    assert "plant-test" in cluster.ended
    second = {name for name in names("configmaps") if name.startswith("plant-settings-")}
    assert len(second) == 1
    assert second != first
    assert has_own or token() == made, "a token that changes would part the pods"
    assert not {name for name in names("configmaps") if name.endswith("-topics")}
    helm(server, "uninstall", *where)
    assert not {name for name in names("services") if name.startswith("plant")}


@pytest.mark.parametrize("values", VALUES, ids=lambda path: str(path.stem))
def test_manifests_pass_strict_validation(server: ApiServer, values: Path) -> None:
    """Without strict validation, an unknown field would be dropped silently."""
    found = sorted(manifests(values), key=lambda one: one["kind"] != "ServiceAccount")
    for one in found:
        create_strictly(server, one, dry=one["kind"] != "ServiceAccount")
    renamed = {**found[0], "metadata": {"name": f"red-{values.stem}"}}
    with pytest.raises(OSError, match="unknown field"):
        create_strictly(server, {**renamed, "colour": "red"})
    for one in found:
        if one["kind"] == "ServiceAccount":
            where = f"/api/v1/namespaces/default/serviceaccounts/{one['metadata']['name']}"
            server.ask(where, method="DELETE")


def create_strictly(server: ApiServer, manifest: Manifest, *, dry: bool = True) -> None:
    """Create the manifest, or only try it with `dry`; raise OSError if it has an unknown field."""
    api, kind = manifest["apiVersion"], manifest["kind"]
    base = "/api/v1" if api == "v1" else f"/apis/{api}"
    plurals = {
        one["kind"]: one["name"] for one in server.ask(base)["resources"] if "/" not in one["name"]
    }
    asked = "fieldValidation=Strict" + ("&dryRun=All" if dry else "")
    server.ask(f"{base}/namespaces/default/{plurals[kind]}?{asked}", manifest, "POST")
