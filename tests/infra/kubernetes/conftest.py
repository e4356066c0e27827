"""Provide the cluster that all tests in this folder share."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from infra.kubernetes import node
from tests.infra.kubernetes.clusters import given_cluster, own_node, read_traces
from tests.infra.kubernetes.plant import Cluster
from tests.services import require


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    if kubeconfig := os.environ.get("INORDER_KUBECONFIG"):
        with given_cluster(kubeconfig) as cluster:
            yield cluster
        return
    if os.geteuid() == 0:
        node.end_former()
    require(node.missing())
    before = read_traces()
    with own_node() as cluster:
        yield cluster
    assert read_traces() - before == set(), "the machine's settings are as before"
