"""Test `hansei status` and `hansei open`."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from http.server import HTTPServer, SimpleHTTPRequestHandler
from pathlib import Path

import pytest

from chassis.deadlines import get_remaining
from hansei.client import Client
from hansei.client.cli.service_checks import check_services
from tests.support import systems
from tests.support.commands import Hansei, copy_trajectories, dataset, hansei

__all__ = ["dataset", "hansei"]  # fixtures

pytestmark = pytest.mark.long
"""`hansei status` reads all datasets of a shared system: later in a run there are hundreds."""
SECONDS = 30


@pytest.fixture(scope="module")
def console_url() -> Iterator[str]:
    """Return the address of a page that answers."""
    with HTTPServer(("127.0.0.1", 0), SimpleHTTPRequestHandler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


def test_status_shows_each_dataset_with_its_success_and_what_waits(
    hansei: Hansei, dataset: str, tmp_path: Path
) -> None:
    files = copy_trajectories(tmp_path, dataset, "git-push-forced", "git-push-rebased", "git-commit-identity")
    stated = json.loads(files[0].read_text(encoding="utf-8"))
    files[0].write_text(json.dumps({**stated, "usage": {"input_tokens": 1000, "output_tokens": 200}}), "utf-8")
    assert hansei("learn", *files).code == 0
    # Trajectories are archived after they are learned.
    give_up = time.monotonic() + SECONDS
    while len(hansei("trajectories", "list", "-d", dataset, "--json").lines) < len(files):
        assert time.monotonic() < give_up
        time.sleep(0.1)
    rows = hansei("status", "--json").document["datasets"]
    (row,) = [row for row in rows if row["dataset"]["name"] == dataset]
    assert row["success"]["trajectories"] == str(len(files))
    assert row["dataset"]["bullets"] > 0
    assert row["success"]["lower"] < row["success"]["share"] < row["success"]["upper"]
    assert row["lift"] is None
    assert row["usage"]["trajectories_with_tokens"] == "1"
    assert "cost_usd" not in row["usage"]
    assert row["trials_running"] is False
    shown = hansei("status")
    assert shown.code == 0, shown.err
    assert "all services answer" in shown.out
    assert "The effect of a playbook is measured in trials: hansei trials start " in shown.out
    (line,) = [line for line in shown.out.splitlines() if line.startswith(dataset)]
    assert "not measured" in line
    assert "1,200" in line
    assert "$" not in line


def test_status_without_a_server_names_the_remedy(hansei: Hansei) -> None:
    outcome = hansei("status", "--addr", f"127.0.0.1:{systems.free_port()}")
    assert outcome.code == 3
    assert "hansei up" in outcome.err


def test_status_of_an_empty_place_says_how_to_begin(
    hansei: Hansei, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HANSEI_DATA_DIR", str(tmp_path))
    outcome = hansei("status", "--local")
    assert outcome.code == 0, outcome.err
    assert "There is no playbook yet" in outcome.out
    assert list(tmp_path.iterdir()) == []


def test_the_time_limit_of_a_check_does_not_limit_later_calls(system: systems.System) -> None:
    with Client(system.address) as client:
        checks = [(check.remedy, get_remaining()) for check in check_services(client)]
    assert checks == [("", None)] * len(checks)


def test_an_empty_audit_log_says_when_records_are_written(hansei: Hansei) -> None:
    assert "They are written only if the gateway requires credentials." in hansei("audit").out


class TestOpen:
    def test_open_names_the_remedy_if_nothing_answers(self, hansei: Hansei) -> None:
        outcome = hansei("open", "--url", f"http://127.0.0.1:{systems.free_port()}/console/")
        assert outcome.code == 3
        assert "hansei up" in outcome.err

    def test_open_names_an_address_that_speaks_no_http(self, hansei: Hansei) -> None:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            url = f"http://127.0.0.1:{listener.getsockname()[1]}"

            def answer() -> None:
                connection, _ = listener.accept()
                with connection:
                    connection.recv(65536)
                    connection.sendall(b"PRI * no http\r\n")

            thread = threading.Thread(target=answer)
            thread.start()
            outcome = hansei("open", "--url", url)
            thread.join()
        assert outcome.code == 3
        assert f"the console does not answer at {url} (PRI * no http" in outcome.err

    def test_open_prints_the_address_of_a_page(self, hansei: Hansei, console_url: str) -> None:
        outcome = hansei("open", "playbooks/devtools", "--url", console_url, "--print")
        assert outcome.out == f"{console_url}#/playbooks/devtools\n"

    def test_open_uses_the_gateway_of_the_hooks(
        self, hansei: Hansei, console_url: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("HANSEI_URL", console_url)
        assert hansei("open", "--print").out == f"{console_url}console/\n"

    def test_open_starts_a_browser(self, hansei: Hansei, console_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
        opened: list[str] = []

        def open_url(url: str) -> bool:
            opened.append(url)
            return True

        monkeypatch.setattr("webbrowser.open", open_url)
        assert hansei("open", "--url", console_url).code == 0
        assert opened == [console_url]
