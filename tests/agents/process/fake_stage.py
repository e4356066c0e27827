"""A fake stage process for the supervisor, without a broker: it announces its port and answers.

`/explain` returns its process id. Options: `--mute` never announces a port; `--exit N` sets the
exit code after a request to stop. `--prints` prints more than a pipe holds, before the port is
announced and at each request. `--babbles` announces text that is not an address; `--hangs` never
answers after the announcement, and `--computes` does the same while it computes. `--token T`
answers only requests with this token.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

from agents.process.child_process import ANNOUNCE, announce

LIVES_S = 600.0
"""Longest life of the process if its test ends without stopping it."""
METRICS = "# HELP fake_total Fake\n# TYPE fake_total counter\nfake_total 1.0\n"


class Answers(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        prints()
        shown = self.headers.get("Authorization")
        if "--token" in sys.argv and shown != f"Bearer {sys.argv[sys.argv.index('--token') + 1]}":
            self.send_error(401)
            return
        sound = {"ok": True, "reasons": []}
        documents: dict[str, Any] = {
            "/health": {"live": sound, "ready": sound, "codec": "native"},
            "/explain": [{"pid": os.getpid()}],
        }
        document = documents.get(self.path)
        body = METRICS if document is None else json.dumps(document)
        self.send_response(200)
        kind = "text/plain" if document is None else "application/json"
        self.send_header("Content-Type", kind)
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *_: object) -> None:
        """Log nothing."""


def prints() -> None:
    if "--prints" in sys.argv:
        print("127.0.0.1:1\n" * 20_000, flush=True)


def main(words: Sequence[str]) -> None:
    descriptor = int(words[words.index(ANNOUNCE) + 1])
    code = int(sys.argv[sys.argv.index("--exit") + 1]) if "--exit" in sys.argv else 0
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(code))
    parent, until_s = os.getppid(), time.monotonic() + LIVES_S

    def goes_on() -> bool:
        return os.getppid() == parent and time.monotonic() < until_s

    while "--mute" in sys.argv:
        time.sleep(1.0)
        if not goes_on():
            return
    server = HTTPServer(("127.0.0.1", 0), Answers)
    server.timeout = 1.0
    prints()
    if "--babbles" in sys.argv:
        announce(descriptor, "here I am")
    else:
        announce(descriptor, "{}:{}".format(*server.server_address))
    while goes_on():
        if "--computes" in sys.argv:
            sum(range(100_000))
        elif "--hangs" in sys.argv:
            time.sleep(1.0)
        else:
            server.handle_request()


if __name__ == "__main__":
    main(sys.argv)
