"""HTTP server: logins, hosts, hanging and too many connections, ports in use."""

from __future__ import annotations

import base64
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest
from headrace_serve import server
from headrace_serve.serve import Serve
from tests.plugins.serve.client import ServedRun, request, serve_run
from tests.support.waiting import until

from headrace import ConfigError

TOKEN, PASSWORD = "a-token-of-20-letters", "correct horse"
PRIVATE = ("/", "/metrics", "/status.json", "/page.js", "/no-such-page")


@pytest.fixture
def run() -> Iterator[ServedRun]:
    with serve_run() as run:
        yield run


def basic(user: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


@pytest.mark.parametrize("address", ["0.0.0.0:8080", "[::]:8080", "10.0.0.7:8080", "metrics.example.com:8080"])
def test_public_address_requires_a_login(address: str) -> None:
    with pytest.raises(ConfigError, match=r"(?s)other machines can reach .* add `token`"):
        Serve(address=address)
    login = Serve(address=address, token=TOKEN)
    assert any("without encryption" in text for text in login.warnings())


@pytest.mark.parametrize("address", ["127.0.0.1:8080", "127.8.0.1:80", "[::1]:8080", "localhost:8080"])
def test_local_address_needs_no_login(address: str) -> None:
    assert list(Serve(address=address).warnings()) == []


def test_every_path_but_the_probes_requires_the_login() -> None:
    with serve_run(token=TOKEN, username="ops", password=PASSWORD) as run:
        wrong: tuple[dict[str, str], ...] = (
            {},
            {"Authorization": "Bearer wrong"},
            {"Authorization": f"Bearer {TOKEN}x"},
            {"Authorization": f"Basic {TOKEN}"},
            {"Authorization": basic("ops", "wrong")},
            {"Authorization": basic("root", PASSWORD)},
            {"Authorization": "Bearer ü"},
        )
        for path in PRIVATE:
            for headers in wrong:
                answer = request(run.serve.port, path, **{k: v.encode().decode("latin-1") for k, v in headers.items()})
                assert (answer.status, answer.headers["WWW-Authenticate"][:5]) == (401, "Basic"), (path, headers)
                assert "shop" not in answer.text
        for header in (f"Bearer {TOKEN}", f"bearer {TOKEN}", basic("ops", PASSWORD)):
            assert request(run.serve.port, "/metrics", Authorization=header).status == 200
            assert request(run.serve.port, "/no-such-page", Authorization=header).status == 404


def test_probes_show_their_reasons_only_with_a_login() -> None:
    with serve_run(token=TOKEN) as run:
        run.status = type(run.status)(False, "stopped: the disk is full", None, None)
        assert run.get("/healthz").text == "failed\n"
        assert "disk is full" in run.get("/healthz", Authorization=f"Bearer {TOKEN}").text


def test_login_in_a_url_is_refused_and_written_nowhere(capfd: pytest.CaptureFixture[str]) -> None:
    with serve_run(token=TOKEN) as run:
        for name in ("token", "access_token", "password"):
            answer = request(run.serve.port, f"/metrics?{name}={TOKEN}")
            assert (answer.status, TOKEN in answer.text) == (400, False)
        assert request(run.serve.port, "/metrics?x=1", Authorization=f"Bearer {TOKEN}").status == 200
    out, err = capfd.readouterr()
    assert out + err == ""


def test_local_server_refuses_the_names_of_other_sites(run: ServedRun) -> None:
    """A page of another site may let its name point to this machine."""
    for host in ("evil.example.com", "evil.example.com:8080", "127.0.0.1.evil.example.com"):
        assert request(run.serve.port, "/status.json", Host=host).status == 421
    for host in ("localhost", "127.0.0.1:8080", "[::1]:9", "LOCALHOST:1"):
        assert request(run.serve.port, "/status.json", Host=host).status == 200


def test_answers_have_security_headers_and_no_version(run: ServedRun) -> None:
    for path in ("/", "/metrics", "/healthz", "/nothing"):
        headers = run.get(path).headers
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Content-Security-Policy"].startswith("default-src 'none'")
        assert headers["Server"].strip() == "headrace"


def test_other_methods_are_refused(run: ServedRun) -> None:
    assert request(run.serve.port, "/metrics", "POST", "x=1").status == 501
    head = request(run.serve.port, "/metrics", "HEAD")
    assert (head.status, head.text, int(head.headers["Content-Length"]) > 1000) == (200, "", True)
    assert request(run.serve.port, "/metrics", "GET", "x=1").headers["Connection"] == "close"


def test_connection_is_used_again(run: ServedRun) -> None:
    import http.client

    connection = http.client.HTTPConnection("127.0.0.1", run.serve.port, timeout=5)
    connection.connect()
    used = connection.sock.getsockname()
    for _ in range(3):
        connection.request("GET", "/healthz")
        assert connection.getresponse().read() == b"ok\n"
        assert connection.sock.getsockname() == used
    connection.close()


def test_answer_is_one_packet(run: ServedRun) -> None:
    """Otherwise each answer waits for the acknowledgment of its head, which a client delays by 40 ms."""
    with socket.create_connection(("127.0.0.1", run.serve.port), timeout=5) as client:
        client.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert client.recv(65536).endswith(b"\r\n\r\nok\n")


def test_port_in_use_stops_the_start(run: ServedRun) -> None:
    with pytest.raises(ConfigError) as caught:
        ServedRun(Serve(address=f"127.0.0.1:{run.serve.port}"))
    assert f"serve: 127.0.0.1:{run.serve.port} cannot be bound: Address already in use" in str(caught.value)
    assert "fix: stop the program that uses the port" in str(caught.value)


def test_host_that_does_not_exist_stops_the_start() -> None:
    with pytest.raises(ConfigError, match=r"serve: no-such-host\.invalid:0 cannot be bound"):
        ServedRun(Serve(address="no-such-host.invalid:0", token=TOKEN))


def test_hanging_clients_are_closed_and_others_are_answered(run: ServedRun, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "PATIENCE", 0.5)
    monkeypatch.setattr(server.Handler, "timeout", 0.5)
    with ExitStack() as stack:
        for number in range(server.CONNECTIONS):
            hanging = stack.enter_context(socket.create_connection(("127.0.0.1", run.serve.port), timeout=10))
            hanging.sendall(b"GET /metrics HTTP/1.1\r\n" if number % 2 else b"")
        until(lambda: len(run.serve._server._waiting) == server.CONNECTIONS, "all connections", 5)
        assert request(run.serve.port, "/healthz").status == 503  # More are refused at once.
        until(lambda: _is_answered(run.serve.port), "a free connection", 10)


def test_client_that_sends_byte_by_byte_is_closed(run: ServedRun, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "PATIENCE", 0.3)
    with socket.create_connection(("127.0.0.1", run.serve.port), timeout=10) as slow:
        began = time.monotonic()
        while _accepts(slow):
            assert time.monotonic() - began < 5
            time.sleep(0.05)


def _accepts(connection: socket.socket) -> bool:
    try:
        return bool(connection.send(b"G"))
    except OSError:
        return False


def _is_answered(port: int) -> bool:
    try:
        return request(port, "/healthz").status == 200
    except OSError:
        return False


def test_many_scrapes_at_once(run: ServedRun) -> None:
    with ThreadPoolExecutor(8) as pool:
        began = time.monotonic()
        statuses = list(pool.map(lambda _: request(run.serve.port, "/metrics").status, range(400)))
    assert set(statuses) == {200}
    assert time.monotonic() - began < 20


def test_end_of_the_run_closes_the_port() -> None:
    with serve_run() as run:
        port = run.serve.port
        waiting = socket.create_connection(("127.0.0.1", port), timeout=5)
        until(lambda: run.serve._server._waiting, "the connection", 5)
    assert waiting.recv(10) == b""
    waiting.close()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), timeout=5)
