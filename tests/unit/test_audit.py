"""`make audit` never passes without having checked something."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from d4explain.stack.ports import free_port

ROOT = Path(__file__).resolve().parents[2]
KNOWN = "jinja2"


def advisory(package: str) -> dict[str, Any]:
    ranges = [{"type": "ECOSYSTEM", "events": [{"introduced": "0"}, {"fixed": "9.9"}]}]
    affected = {"package": {"name": package, "ecosystem": "PyPI"}, "ranges": ranges}
    return {"id": f"TEST-{package}", "summary": "a fault", "affected": [affected]}


@contextmanager
def advisories(vulnerable: set[str], status: int = 200) -> Iterator[str]:
    """A server that speaks the protocol of OSV."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            sent = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            name = sent["package"]["name"]
            answer = {"vulns": [advisory(name)]} if name in vulnerable else {}
            body = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/v1/query"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def audit(url: str, folder: Path) -> subprocess.CompletedProcess[str]:
    pins = folder / "pins.txt"
    pins.write_text("httpx==0.28.1\nnumpy==2.3.4\n")
    return subprocess.run(
        [sys.executable, str(ROOT / ".ci/audit.py"), "--osv-url", url, "--pins", str(pins)],
        capture_output=True,
        text=True,
        check=False,
    )


def test_versions_without_known_vulnerabilities_pass(tmp_path: Path) -> None:
    with advisories({KNOWN}) as url:
        done = audit(url, tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "audit: 2 versions checked, 0 with known vulnerabilities\n"


def test_a_known_vulnerability_fails_and_names_the_version_that_mends_it(tmp_path: Path) -> None:
    with advisories({KNOWN, "httpx"}) as url:
        done = audit(url, tmp_path)
    assert done.returncode == 1
    assert "audit: httpx 0.28.1: TEST-httpx, fixed by 9.9\n" in done.stdout


@pytest.mark.parametrize("source", ["absent", "empty", "failing"])
def test_without_a_source_of_advisories_nothing_passes(tmp_path: Path, source: str) -> None:
    if source == "absent":
        done = audit(f"http://127.0.0.1:{free_port()}/v1/query", tmp_path)
    else:
        known, status = (set(), 200) if source == "empty" else ({KNOWN}, 503)
        with advisories(known, status) as url:
            done = audit(url, tmp_path)
    assert done.returncode == 3
    assert done.stderr.startswith("audit: not checked: ")
    assert done.stdout == ""


def test_every_pin_is_an_exact_version() -> None:
    for line in (ROOT / "constraints.txt").read_text().splitlines():
        assert line.count("==") == 1, line
