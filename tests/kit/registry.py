"""A schema registry for the tests: the documented REST interface, in a separate thread.

The registry implements the requests of `agents.registry.client` and of confluent-kafka's
serializers. `status` is the status of all answers, `asked` counts requests by path, and
`authorized` contains the authorization headers.
"""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit


class Registry:
    """A registry with its schemas; `url` is set while it serves, and `register` adds a schema as a
    client does.
    """

    def __init__(self) -> None:
        self.schemas: dict[int, dict[str, Any]] = {}
        self.versions: dict[str, list[int]] = {}
        self.asked: Counter[str] = Counter()
        self.authorized: set[str] = set()
        self.status = 200
        self.url = ""

    def register(self, subject: str, schema: str, kind: str = "AVRO", **more: Any) -> int:
        found = {"schema": schema, "schemaType": kind, **more}
        number = next((n for n, each in self.schemas.items() if each == found), 0)
        number = number or len(self.schemas) + 1
        self.schemas[number] = found
        ids = self.versions.setdefault(subject, [])
        if number not in ids:
            ids.append(number)
        return number

    def get(self, path: list[str]) -> Any:
        match path:
            case ["schemas", "ids", number] if int(number) in self.schemas:
                return self.schemas[int(number)]
            case ["schemas", "ids", number, "versions"] if int(number) in self.schemas:
                return [
                    {"subject": subject, "version": ids.index(int(number)) + 1}
                    for subject, ids in self.versions.items()
                    if int(number) in ids
                ]
            case ["subjects", subject, "versions", version] if subject in self.versions:
                ids = self.versions[subject]
                at = len(ids) if version == "latest" else int(version)
                return self._version(subject, at) if 0 < at <= len(ids) else None
        return None

    def post(self, path: list[str], body: dict[str, Any]) -> Any:
        match path:
            case ["subjects", subject, "versions"]:
                schema, kind = body.pop("schema"), body.pop("schemaType", "AVRO")
                more = {"references": body["references"]} if body.get("references") else {}
                number = self.register(subject, schema, kind, **more)
                return self._version(subject, self.versions[subject].index(number) + 1)
            case ["subjects", subject]:
                ids = self.versions.get(subject, [])
                at = next((n for n in ids if self.schemas[n]["schema"] == body["schema"]), None)
                return None if at is None else self._version(subject, ids.index(at) + 1)
        return None

    def _version(self, subject: str, version: int) -> dict[str, Any]:
        number = self.versions[subject][version - 1]
        return {"subject": subject, "version": version, "id": number, **self.schemas[number]}


@contextmanager
def serving(registry: Registry, port: int = 0) -> Iterator[Registry]:
    """Serve on the loopback; `port` allows a restart at the same address."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer(None)

        def do_POST(self) -> None:
            size = int(self.headers.get("Content-Length", 0))
            self._answer(json.loads(self.rfile.read(size)))

        def _answer(self, body: dict[str, Any] | None) -> None:
            place = urlsplit(self.path).path
            registry.asked[place] += 1
            if "Authorization" in self.headers:
                registry.authorized.add(self.headers["Authorization"])
            path = [unquote(part) for part in place.strip("/").split("/")]
            found: Any = {"error_code": registry.status, "message": "as the test wants it"}
            status = registry.status
            if status == 200:
                found = registry.get(path) if body is None else registry.post(path, body)
                if found is None:
                    status, found = 404, {"error_code": 40403, "message": "not found"}
            content = json.dumps(found).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            """Suppress the log line."""

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    registry.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield registry
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
