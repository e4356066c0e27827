"""Starts a private Kubernetes API server for tests, and returns operators' resource definitions.

The server consists of etcd and kube-apiserver, on free loopback ports, which
`infra.kubernetes.programs` builds once. It stores and checks objects. There is no controller and no
node, so no pod runs; `infra.kubernetes.node` runs pods.
"""

from __future__ import annotations

import json
import secrets
import ssl
import subprocess
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from cli.local.ports import LOOPBACK, free_ports
from cli.local.process import Process
from cli.local.server import Server
from infra.helm import NotBuilt, run_go
from infra.kubernetes import programs, settings

OPERATORS: Final = {
    "PodMonitor": "github.com/prometheus-operator/prometheus-operator@v0.85.0",
    "ServiceMonitor": "github.com/prometheus-operator/prometheus-operator@v0.85.0",
    "PrometheusRule": "github.com/prometheus-operator/prometheus-operator@v0.85.0",
    "ScaledObject": "@".join(programs.KEDA),
    "SparkApplication": "github.com/kubeflow/spark-operator/v2@v2.3.0",
}
"""The Go module of the operator that defines each kind of object."""

START_TIMEOUT_S: Final = 60.0
ASK_TIMEOUT_S: Final = 10.0
MERGE_PATCH: Final = "application/merge-patch+json"


missing = programs.missing
"""Return why no API server can be started here; None if one can."""


class ApiServer(Server):
    """A private API server; `folder` has its files, with a `kubeconfig` that grants all rights."""

    def __init__(self, folder: Path) -> None:
        built = programs.build_all()
        folder.mkdir(parents=True, exist_ok=True)
        port, etcd_port, peer_port = free_ports(3)
        self.address = f"https://{LOOPBACK}:{port}"
        self.kubeconfig = folder / "kubeconfig"
        self._token = secrets.token_hex(16)
        self.kubeconfig.write_text(json.dumps(settings.kubeconfig(self.address, self._token)))
        tokens = folder / "tokens.csv"
        tokens.write_text(f"{self._token},tests,tests,system:masters\n")
        etcd = f"http://{LOOPBACK}:{etcd_port}"
        peer = f"http://{LOOPBACK}:{peer_port}"
        key = folder / "accounts.key"
        subprocess.run(
            ["openssl", "genrsa", "-out", str(key), "2048"], check=True, capture_output=True
        )
        self._etcd = Process(
            "etcd",
            [
                *(str(built / "etcd"), f"--data-dir={folder / 'etcd'}"),
                *(f"--listen-client-urls={etcd}", f"--advertise-client-urls={etcd}"),
                *(f"--listen-peer-urls={peer}", f"--initial-advertise-peer-urls={peer}"),
                *(f"--initial-cluster=default={peer}", "--unsafe-no-fsync"),
            ],
            folder,
        )
        self._server = Process(
            "kube-apiserver",
            [
                *(str(built / "kube-apiserver"), f"--etcd-servers={etcd}"),
                *(f"--bind-address={LOOPBACK}", f"--secure-port={port}"),
                *(f"--cert-dir={folder}", "--service-cluster-ip-range=10.0.0.0/24"),
                *(f"--service-account-key-file={key}", f"--service-account-signing-key-file={key}"),
                *("--service-account-issuer=https://tests", "--authorization-mode=AlwaysAllow"),
                f"--token-auth-file={tokens}",
            ],
            folder,
        )

    def start(self) -> None:
        self._etcd.start()
        self._server.start()
        self._server.wait_until(self._answers, START_TIMEOUT_S)

    def stop(self) -> None:
        self._server.stop()
        self._etcd.stop()

    def ask(
        self, path: str, body: Mapping[str, Any] | None = None, method: str = "GET"
    ) -> dict[str, Any]:
        """Send a request, without a body if `body` is None, and return the answer.

        Raises OSError with the server's reason if the server refuses the request.
        """
        kind = MERGE_PATCH if method == "PATCH" else "application/json"
        request = urllib.request.Request(
            self.address + path,
            None if body is None else json.dumps(body).encode(),
            {"Content-Type": kind, "Authorization": f"Bearer {self._token}"},
            method=method,
        )
        try:
            with urllib.request.urlopen(
                request, timeout=ASK_TIMEOUT_S, context=ssl._create_unverified_context()
            ) as answer:
                found: dict[str, Any] = json.load(answer)
                return found
        except urllib.error.HTTPError as error:
            raise OSError(json.load(error)["message"]) from error

    def _answers(self) -> bool:
        try:
            return bool(self.ask("/api/v1/namespaces/default"))
        except (OSError, ValueError, KeyError):
            return False


def definition(kind: str) -> dict[str, Any]:
    """Return the CustomResourceDefinition of `kind`, from the Go module of its operator.

    Raises NotBuilt if the module cannot be downloaded or does not define `kind`.
    """
    cached = programs.folder()
    cached.mkdir(parents=True, exist_ok=True)
    module = Path(json.loads(run_go(cached, "mod", "download", "-json", OPERATORS[kind]))["Dir"])
    for file in sorted(module.rglob(f"*_{kind.lower()}s.yaml")):
        found: dict[str, Any] = yaml.safe_load(file.read_text())
        if found.get("kind") == "CustomResourceDefinition" and "conversion" not in found["spec"]:
            return found
    raise NotBuilt(f"{OPERATORS[kind]} has no definition of {kind}")
