"""``consilience review`` from the command line."""

from __future__ import annotations

import http.client
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.web.conftest import labels_frame

from consilience.cli import cli


@pytest.fixture
def labels(tmp_path: Path) -> Path:
    path = tmp_path / "labels.csv"
    labels_frame().to_csv(path, index=False)
    return path


def test_it_prints_one_address_and_listens_on_loopback(labels: Path) -> None:
    command = [sys.executable, "-m", "consilience", "review", str(labels), "--no-browser", "--method", "majority"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        found = re.search(r"http://127\.0\.0\.1:(\d+)/open\?token=(\S{30,})$", line.strip())
        assert found, line
        server = http.client.HTTPConnection("127.0.0.1", int(found[1]), timeout=60)
        server.request("GET", f"/open?token={found[2]}")
        answer = server.getresponse()
        assert answer.status == 200
        assert "HttpOnly" in str(answer.getheader("set-cookie"))
        answer.read()
        server.request("GET", "/")
        assert server.getresponse().status == 403
    finally:
        os.kill(process.pid, signal.SIGINT)
        assert process.wait(60) in (0, -signal.SIGINT, 1, 130)


def test_the_missing_extra_is_named(labels: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    result = CliRunner().invoke(cli, ["review", str(labels), "--no-browser"])
    assert "pip install 'consilience[web]'" in str(result.exception)


def test_a_port_in_use(labels: Path) -> None:
    import socket

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        result = CliRunner().invoke(cli, ["review", str(labels), "--no-browser", "--port", str(port)])
    assert f"port {port} cannot be used" in str(result.exception)


def test_a_missing_file() -> None:
    result = CliRunner().invoke(cli, ["review", "nothing.csv"])
    assert result.exit_code == 2
