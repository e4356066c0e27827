"""End to end: commands reach brokers that require TLS or SASL, and print no secret.

One broker has four listeners: SCRAM over TLS (as in Strimzi and MSK), mutual certificates,
unencrypted PLAIN, and tokens over TLS. Certificates are made on the spot. The output is checked
through the broker's plain listener.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from cli.local.kafka import KafkaBroker, jars
from cli.local.kafka.settings import as_properties
from tests.agents.kafka.tokens import token
from tests.certificates import certificates, of_brokers, of_clients
from tests.cli.invoking import inorder
from tests.end_to_end.oracle import assert_sound
from tests.end_to_end.records import contract, send
from tests.end_to_end.setting import fused, settle
from tests.end_to_end.waiting import Emitted, wait_out
from tests.end_to_end.worker import Spawned, Worker, running, worker_on
from tests.services import require

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

USER = "inorder"
SECRET = "correct-horse-battery-staple"
EVENTS = b"".join(b'{"source": "s", "seq": %d, "ts": %d}\n' % (n, n + 1) for n in (0, 2, 1))
LISTENERS = {"SCRAM": "SASL_SSL", "MUTUAL": "SSL", "PLAIN": "SASL_PLAINTEXT", "BEARER": "SASL_SSL"}
TOKEN_LIFE_S = 4.0


class Secured(NamedTuple):
    broker: KafkaBroker
    folder: Path

    def settings(self, listener: str) -> str:
        """Return all settings except the SCRAM password, which comes from the environment."""
        ca = f"ssl.ca.location={self.folder}/ca.crt\n"
        if listener == "MUTUAL":
            return as_properties(of_clients(self.folder))
        if listener == "BEARER":
            self.renew(600.0)
            where = f"sasl.oauthbearer.token.endpoint.url=file://{self.token}\n"
            return f"security.protocol=SASL_SSL\nsasl.mechanism=OAUTHBEARER\n{where}{ca}"
        if listener == "PLAIN":
            (self.folder / "password").write_text(SECRET + "\n")
            secret = f"sasl.password.file={self.folder}/password\n"
            return f"security.protocol=SASL_PLAINTEXT\n{_sasl('PLAIN')}{secret}"
        return (
            f"# as it lies in a ConfigMap\nsecurity.protocol=SASL_SSL\n{_sasl('SCRAM-SHA-512')}{ca}"
        )

    @property
    def token(self) -> Path:
        return self.folder / "token"

    def renew_soon(self) -> None:
        """Renew the token if it is old; frequent calls keep it from expiring."""
        if time.time() - self.token.stat().st_mtime > TOKEN_LIFE_S / 4:
            self.renew(TOKEN_LIFE_S)

    def renew(self, lasts_s: float) -> None:
        """Replace the token in one step, as the kubelet does."""
        beside = self.folder / "token.new"
        beside.write_text(token(USER, lasts_s))
        beside.replace(self.token)


def _sasl(mechanism: str) -> str:
    return f"sasl.mechanism={mechanism}\nsasl.username={USER}\n"


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    require(jars.missing())
    folder = tmp_path_factory.mktemp("secured")
    certificates(folder)
    modules = "org.apache.kafka.common.security"
    overrides = {
        "listener.name.scram.sasl.enabled.mechanisms": "SCRAM-SHA-512",
        "listener.name.plain.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.scram.scram-sha-512.sasl.jaas.config": f"{modules}.scram.ScramLoginModule"
        " required;",
        "listener.name.plain.plain.sasl.jaas.config": f"{modules}.plain.PlainLoginModule"
        f' required user_{USER}="{SECRET}";',
        "listener.name.mutual.ssl.client.auth": "required",
        "listener.name.bearer.sasl.enabled.mechanisms": "OAUTHBEARER",
        "listener.name.bearer.oauthbearer.sasl.jaas.config": f"{modules}.oauthbearer."
        'OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="broker";',
        # A connection lasts no longer than the token that opened it.
        "listener.name.bearer.oauthbearer.connections.max.reauth.ms": "3600000",
        **of_brokers(folder),
    }
    user = f"SCRAM-SHA-512=[name={USER},password={SECRET}]"
    broker = KafkaBroker(
        folder / "kafka",
        overrides=overrides,
        listeners=LISTENERS,
        format_options=["--add-scram", user],
    )
    with broker:
        yield Secured(broker, folder)


@pytest.mark.in_turns(2)
@pytest.mark.parametrize("listener", LISTENERS)
def test_commands_get_access(
    secured: Secured, listener: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kafka = tmp_path / "kafka.properties"
    kafka.write_text(secured.settings(listener))
    if listener == "SCRAM":
        monkeypatch.setenv("INORDER_SASL_PASSWORD", SECRET)
    setting = settle(secured.broker.bootstrap, tmp_path, partitions=1, make=False)
    there = ("--brokers", secured.broker.address(listener), "--kafka", str(kafka))
    for command, stdin in (
        (("topics", "create", "--topology", str(setting.path)), b""),
        (("produce", "--topic", setting.raw), EVENTS),
    ):
        inorder(*command, *there, stdin=stdin).well()
    kind = Spawned if listener == "SCRAM" else Worker  # It could print the password.
    worker = kind(
        "a", setting.path, secured.broker.address(listener), tmp_path, "--kafka", str(kafka)
    )
    with running(worker):
        wait_out(setting, 3)
        commands = [Path(f"/proc/{pid}/cmdline").read_bytes() for pid in worker.stages()]
        assert len(commands) == 2
        assert all(SECRET.encode() not in command for command in commands)
        assert worker.stop() == 0, worker.log
    assert_sound(setting)
    done = inorder("dump", "--topology", setting.path, *there).well()
    assert done.out.count("\n") == 3
    assert SECRET not in worker.log


def refused(secured: Secured, listener: str, settings: str, folder: Path, wait: str) -> str:
    """Return the log of a worker that is refused access."""
    kafka = folder / "kafka.properties"
    kafka.write_text(settings)
    options = ("--kafka", str(kafka), "--brokers-wait", wait, "--stage", "reorder")
    setting = settle(secured.broker.address(listener), folder, partitions=1, make=False)
    worker = worker_on(setting, *options)
    with running(worker):
        worker.ends_refused()
    return worker.log


def test_refused_access_is_explained(
    secured: Secured, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = "wrong-" + SECRET
    monkeypatch.setenv("INORDER_SASL_PASSWORD", wrong)
    said = refused(secured, "SCRAM", secured.settings("SCRAM"), tmp_path, "2s")
    assert "waiting for brokers" in said
    assert "invalid credentials" in said
    assert wrong not in said


def test_unknown_authority_is_refused(secured: Secured, tmp_path: Path) -> None:
    """Without `ssl.ca.location` only the machine's own authorities count."""
    assert "certificate" in refused(secured, "MUTUAL", "security.protocol=SSL\n", tmp_path, "0s")


def test_renewed_certificates_are_read(secured: Secured, tmp_path: Path) -> None:
    """A new authority signs the renewed certificates, and the stages' processes stay."""
    kafka = tmp_path / "kafka.properties"
    kafka.write_text(secured.settings("MUTUAL"))
    setting = fused(secured.broker.bootstrap, tmp_path)
    there = secured.broker.address("MUTUAL")
    worker = Worker("a", setting.path, there, tmp_path, "--kafka", str(kafka))
    with running(worker):
        worker.wait_ready()
        stages = worker.stages()
        for sent in range(2):
            send(setting, [("s", b"{}", contract("s", sent))])
            wait_out(setting, sent + 1)
            certificates(secured.folder)
            secured.broker.restart()
        worker.wait_ready()
        assert worker.stages() == stages
        assert worker.stop() == 0, worker.log


def test_tokens_are_renewed_at_work(secured: Secured, tmp_path: Path) -> None:
    """Each connection ends with its token, so without renewal a worker would stop after a few
    seconds. An expired token is reported.
    """
    kafka = tmp_path / "kafka.properties"
    kafka.write_text(secured.settings("BEARER"))
    secured.renew(TOKEN_LIFE_S)
    setting = fused(secured.broker.bootstrap, tmp_path)
    there = secured.broker.address("BEARER")
    options = ("--kafka", str(kafka), "--brokers-wait", "1s")
    worker = Worker("a", setting.path, there, tmp_path, *options)
    begun_s = time.monotonic()
    sent = 0
    with running(worker):
        emitted = Emitted(setting)
        while time.monotonic() - begun_s < 2 * TOKEN_LIFE_S or sent < 8:
            secured.renew(TOKEN_LIFE_S)
            send(setting, [("s", b"{}", contract("s", sent))])
            sent += 1
            emitted.wait_for(sent, secured.renew_soon)
            time.sleep(TOKEN_LIFE_S / 4)
        emitted.close()
        secured.renew(TOKEN_LIFE_S)
        assert worker.stop() == 0, worker.log
    secured.renew(-5.0)
    done = inorder(
        "topics", "create", "--topology", setting.path, "--brokers", there, "--kafka", kafka
    ).refused("the token in", " expired ")
    assert secured.token.read_text() not in worker.log + done.err
