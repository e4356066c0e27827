"""A temporary certificate authority, with certificates for a server and a client."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from tests.services import require

OPENSSL_TIMEOUT_S = 30.0
SUBJECT_NAMES = "subjectAltName=IP:127.0.0.1,DNS:localhost\n"


def certificates(folder: Path) -> None:
    """Write the files of an authority, a server and a client.

    The files are `ca.crt`; `server.crt`, `server.key`, and both with the authority in `server.pem`;
    `client.crt` and `client.key`.
    """
    require(None if shutil.which("openssl") else "openssl is not installed")
    (folder / "names").write_text(SUBJECT_NAMES)
    new = ("req", "-newkey", "rsa:2048", "-nodes")
    _openssl(folder, *new, "-x509", "-keyout", "ca.key", "-out", "ca.crt", "-subj", "/CN=ca")
    for name in ("server", "client"):
        files = ("-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj", f"/CN={name}")
        _openssl(folder, *new, *files)
        signed = ("-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial", "-extfile", "names")
        _openssl(folder, "x509", "-req", "-in", f"{name}.csr", "-out", f"{name}.crt", *signed)
    parts = (folder / "server.key", folder / "server.crt", folder / "ca.crt")
    (folder / "server.pem").write_text("".join(part.read_text() for part in parts))


def of_brokers(folder: Path) -> dict[str, str]:
    """Return settings for brokers with the server's certificate, which a restart reads again."""
    return {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(folder / "server.pem"),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(folder / "ca.crt"),
    }


def of_clients(folder: Path) -> dict[str, str]:
    """Return settings for clients with the client's certificate."""
    return {
        "security.protocol": "SSL",
        "ssl.ca.location": str(folder / "ca.crt"),
        "ssl.certificate.location": str(folder / "client.crt"),
        "ssl.key.location": str(folder / "client.key"),
    }


def _openssl(folder: Path, *arguments: str) -> None:
    subprocess.run(
        ["openssl", *arguments],
        cwd=folder,
        capture_output=True,
        check=True,
        timeout=OPENSSL_TIMEOUT_S,
    )
