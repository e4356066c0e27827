"""Examples: all that the image and the compose file name exists.

No container engine is needed; hadolint reads the Dockerfile in `make lint`.
"""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from agents.process import supervisor
from agents.watch.port import http
from infra import prometheus
from producers.sync_server.publishing import FLUSH_TIMEOUT_S
from tests import ROOT
from tests.docs.judge import judge_inorder
from tests.services import require
from topology.config import parse

INFRA = ROOT / "infra"
COMPOSE: dict[str, Any] = yaml.safe_load((INFRA / "compose.yaml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
OURS = sorted(name for name, service in SERVICES.items() if service["image"] == "inorder")
ENGINES_GRACE = "10s"
"""Grace period of a container that states none."""

DOCKERFILE = (ROOT / "Dockerfile").read_text()


@pytest.mark.parametrize("name", SERVICES)
def test_services_are_pinned_and_local(
    name: str,
) -> None:
    service = SERVICES[name]
    for port in service.get("ports", []):
        assert port.startswith("127.0.0.1:"), port
    if service["image"] != "inorder":
        assert re.fullmatch(r"[a-z/]+:v?\d[\w.-]+", service["image"])
    if name != "topics":  # This service runs once.
        assert service["healthcheck"]["test"][0] == "CMD"
        assert service["healthcheck"]["retries"] > 0
    for volume in service.get("volumes", []):
        source = volume.split(":")[0]
        if source.startswith("."):
            assert (INFRA / source).is_file(), source
        else:
            assert source in COMPOSE["volumes"]
    for other, how in service.get("depends_on", {}).items():
        condition = how["condition"]
        assert condition == "service_completed_successfully" or (
            condition == "service_healthy" and "healthcheck" in SERVICES[other]
        )


@pytest.mark.parametrize("name", OURS)
def test_our_services_are_confined(name: str) -> None:
    service = SERVICES[name]
    judge_inorder(service["command"], is_whole=True)
    given_s = seconds(service.get("stop_grace_period", ENGINES_GRACE))
    needs_s = {"worker": supervisor.STOP_TIMEOUT_S, "sync-server": FLUSH_TIMEOUT_S, "topics": 0.0}
    assert given_s >= needs_s[service["command"][0]] + http.STOP_TIMEOUT_S, "it is not killed amid"
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert "no-new-privileges:true" in service["security_opt"]


def test_all_servers_are_scraped() -> None:
    settings = yaml.safe_load((INFRA / "compose" / "prometheus.yml").read_text())
    (job,) = settings["scrape_configs"]
    serving = {
        name
        for name in OURS
        if any(str(word).startswith("--http=") for word in SERVICES[name]["command"])
    }
    assert set(job["static_configs"][0]["targets"]) == {f"{name}:8080" for name in serving}


@pytest.mark.parametrize(
    ("present", "wanted"), [("", "its engine"), ("info", "docker-compose-plugin")]
)
def test_make_up_names_what_is_missing(present: str, wanted: str, tmp_path: Path) -> None:
    docker = tmp_path / "docker"
    docker.write_text(f'#!/bin/sh\n[ "$1" = "{present}" ]\n')
    docker.chmod(0o755)
    env = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["make", "up"], cwd=ROOT, env=env, capture_output=True, text=True, timeout=30, check=False
    )
    assert done.returncode
    assert wanted in done.stderr


@pytest.mark.programs
def test_prometheus_accepts_its_settings(tmp_path: Path) -> None:
    require(prometheus.missing())
    alerts = tmp_path / "alerts.yaml"
    alerts.write_text((INFRA / "helm" / "inorder" / "files" / "alerts.yaml").read_text())
    settings = (INFRA / "compose" / "prometheus.yml").read_text()
    file = tmp_path / "prometheus.yml"
    file.write_text(settings.replace("/etc/prometheus/alerts.yaml", str(alerts)))
    command = ["promtool", "check", "config", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_grafana_finds_its_dashboard() -> None:
    grafana = INFRA / "compose" / "grafana"
    (source,) = yaml.safe_load((grafana / "datasources" / "prometheus.yaml").read_text())[
        "datasources"
    ]
    assert source["url"].split("/")[2].split(":")[0] in SERVICES
    (provider,) = yaml.safe_load((grafana / "dashboards" / "inorder.yaml").read_text())["providers"]
    mounted = [volume.split(":")[1] for volume in SERVICES["grafana"]["volumes"]]
    assert f"{provider['options']['path']}/inorder.json" in mounted


def test_image_states_the_stop_time() -> None:
    (said,) = re.findall(r"give it (\d+) seconds", DOCKERFILE)
    assert int(said) >= supervisor.STOP_TIMEOUT_S + http.STOP_TIMEOUT_S
    workers = [SERVICES[name] for name in OURS if SERVICES[name]["command"][0] == "worker"]
    assert {seconds(worker["stop_grace_period"]) for worker in workers} == {int(said)}
    assert len(workers) == len({worker["ports"][0] for worker in workers}) == 2


def seconds(written: str) -> int:
    assert written.endswith("s")
    return int(written.removesuffix("s"))


def test_topology_fits_the_services() -> None:
    topology = parse((INFRA / "topology.yaml").read_text())
    assert topology.topics.replication == 1  # one broker
    assert topology.state == "redis"
    host = topology.redis.split("/")[2].split(":")[0]
    assert host in SERVICES


def test_image_has_its_files_and_user() -> None:
    for copied in re.findall(r"^COPY (?!--from)(\S+) \./$", DOCKERFILE, re.MULTILINE):
        assert (ROOT / copied).is_file(), copied
    assert re.search(r"^USER 10001:10001$", DOCKERFILE, re.MULTILINE)


def test_build_context_has_all_packages() -> None:
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    let_in = {line[1:].rstrip("/") for line in ignored if line.startswith("!")}
    let_in.remove("dist/*.whl")  # These are there after `make wheels`.
    assert {name for name in let_in if not (ROOT / name).exists()} == set()
    rooms = {path.parent.name for path in ROOT.glob("*/__init__.py")}
    rooms -= {"benchmarks", "infra", "tests"}
    assert rooms <= let_in
