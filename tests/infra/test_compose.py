"""Examples: what the image and the compose file name is really there.

No container engine is needed; hadolint reads the Dockerfile in `make lint`.
"""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml

from tests import ROOT
from tests.infra.command_words import assert_known
from topology.config import Topology, parse

INFRA = ROOT / "infra"
COMPOSE: dict[str, Any] = yaml.safe_load((INFRA / "compose.yaml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
OURS = sorted(name for name, service in SERVICES.items() if service["image"] == "inorder")
DOCKERFILE = (ROOT / "Dockerfile").read_text()


@pytest.fixture(scope="module")
def topology() -> Topology:
    return parse((INFRA / "topology.yaml").read_text())


@pytest.mark.parametrize("name", SERVICES)
def test_a_foreign_image_is_pinned_and_checked_for_health(name: str) -> None:
    service = SERVICES[name]
    if service["image"] != "inorder":
        assert re.fullmatch(r"[a-z/]+:\d[\w.-]+", service["image"])
    if name != "topics":  # it runs once
        assert service["healthcheck"]["test"][0] == "CMD"
        assert service["healthcheck"]["retries"] > 0


@pytest.mark.parametrize("name", SERVICES)
def test_volumes_are_files_of_ours_or_declared(name: str) -> None:
    for volume in SERVICES[name].get("volumes", []):
        source = volume.split(":")[0]
        if source.startswith("."):
            assert (INFRA / source).is_file(), source
        else:
            assert source in COMPOSE["volumes"]


@pytest.mark.parametrize("name", SERVICES)
def test_what_a_service_waits_for_exists(name: str) -> None:
    for other, how in SERVICES[name].get("depends_on", {}).items():
        condition = how["condition"]
        assert condition == "service_completed_successfully" or (
            condition == "service_healthy" and "healthcheck" in SERVICES[other]
        )


@pytest.mark.parametrize("name", OURS)
def test_commands_and_options_are_those_of_the_command_line(name: str) -> None:
    assert_known(SERVICES[name]["command"])


def test_there_are_two_workers_behind_ports_of_their_own() -> None:
    workers = [name for name in OURS if SERVICES[name]["command"][0] == "worker"]
    assert len(workers) == 2
    assert len({SERVICES[name]["ports"][0] for name in workers}) == 2


def test_the_topology_fits_the_services(topology: Topology) -> None:
    assert topology.topics.replication == 1  # one broker
    assert topology.state == "redis"
    host = topology.redis.split("/")[2].split(":")[0]
    assert host in SERVICES


def test_the_image_copies_what_is_there_and_runs_as_nobody_special() -> None:
    for copied in re.findall(r"^COPY (?!--from)(\S+) \./$", DOCKERFILE, re.MULTILINE):
        assert (ROOT / copied).is_file(), copied
    assert re.search(r"^USER 10001:10001$", DOCKERFILE, re.MULTILINE)
    assert re.search(r'^ENTRYPOINT \["inorder"\]$', DOCKERFILE, re.MULTILINE)


def test_the_build_sees_all_that_the_wheel_is_made_of() -> None:
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    let_in = {line[1:].rstrip("/") for line in ignored if line.startswith("!")}
    assert {name for name in let_in if not (ROOT / name).exists()} == set()
    rooms = {path.parent.name for path in ROOT.glob("*/__init__.py")}
    rooms -= {"benchmarks", "infra", "tests"}
    assert rooms <= let_in
