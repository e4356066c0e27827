"""Examples: a worker's name when given, in Kubernetes, and elsewhere."""

from __future__ import annotations

import click
import pytest
from click.testing import CliRunner

from cli.instance import instance_option

REFUSED = 2
POD = {"HOSTNAME": "worker-0", "KUBERNETES_SERVICE_HOST": "10.0.0.1"}


@click.command()
@instance_option
def show(instance: str | None) -> None:
    click.echo(str(instance))


@pytest.mark.parametrize(
    ("words", "environment", "name"),
    [
        ([], {}, "None"),
        ([], {"HOSTNAME": "laptop"}, "None"),
        ([], POD, "worker-0"),
        ([], {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, "None"),
        ([], {"INORDER_INSTANCE": "a.b_c-1"}, "a.b_c-1"),
        (["--instance", "two"], {"INORDER_INSTANCE": "one"}, "two"),
        (["--instance", "none"], POD, "None"),
    ],
)
def test_name_comes_from_option_or_pod(
    words: list[str], environment: dict[str, str], name: str
) -> None:
    unset = dict.fromkeys(("HOSTNAME", "KUBERNETES_SERVICE_HOST", "INORDER_INSTANCE"))
    answer = CliRunner().invoke(show, words, env={**unset, **environment})
    assert answer.stdout.strip() == name


@pytest.mark.parametrize("name", ["", "a b", "ä", "a/b", "x" * 201])
def test_bad_kafka_name_is_refused(name: str) -> None:
    answer = CliRunner().invoke(show, ["--instance", name])
    assert answer.exit_code == REFUSED
    assert f"--instance {name}: write 1 to 200 letters" in answer.output
