"""A gateway that wants to know who asks."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from tests.console.reader import Reader
from tests.console.test_access import JAPANESE, faults
from tests.console.windows import Stack, reading
from tests.support import systems

TOKEN = "a token of the gateway"


@pytest.fixture(scope="module")
def gateway_with_token(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Yield the URL of a gateway that requires a token and shares the services of the other gateway."""
    http = f"127.0.0.1:{systems.free_port()}"
    own = {"HANSEI_HTTP_ADDRESS": http, "GATEWAY_API_TOKEN": TOKEN, **dict.fromkeys(systems.PEERS, stack.address)}
    with systems.one_service(tmp_path_factory.mktemp("closed"), "gateway", **own):
        yield f"http://{http}"


@pytest.fixture
def stranger(browser: Browser, gateway_with_token: str) -> Iterator[Reader]:
    """Open the console without a token; the 401 responses that the browser reports are expected."""
    with reading(browser, gateway_with_token) as somebody:
        yield somebody
        somebody.complaints[:] = [complaint for complaint in somebody.complaints if "401" not in complaint]


def sign_in(reader: Reader, token: str) -> None:
    reader.page.get_by_label("Token").fill(token)
    reader.button("Sign in").click()


def test_after_signing_in_the_user_returns_to_the_page(stranger: Reader) -> None:
    stranger.open("#/playbooks/thousand")
    expect(stranger.page.get_by_role("heading", level=1)).to_have_text("Sign in to hansei")
    sign_in(stranger, TOKEN)
    stranger.sees("1,000 bullets")
    stranger.button("Sign out").click()
    expect(stranger.page.get_by_role("heading", level=1)).to_have_text("Sign in to hansei")


def test_a_wrong_token_is_reported(stranger: Reader) -> None:
    stranger.open("#/playbooks")
    sign_in(stranger, "guessed")
    stranger.sees("The gateway rejects this API key or token.")


def test_a_token_that_ends_while_a_dialog_is_open_is_asked_for(stranger: Reader) -> None:
    stranger.open("#/playbooks/thousand")
    sign_in(stranger, TOKEN)
    stranger.button("Add a lesson…").click()
    dialog = stranger.page.get_by_role("dialog")
    dialog.get_by_label("Lesson").fill("Close the file after the last line.")
    problem = {"title": "Unauthorized", "detail": "the token has expired"}
    stranger.page.route(
        "**/v1/playbooks/thousand/deltas", lambda route: route.fulfill(status=401, json=problem), times=1
    )
    dialog.get_by_role("button", name="Add").click()
    expect(dialog).to_have_count(0)
    sign_in(stranger, TOKEN)
    stranger.sees("1,000 bullets")


def test_the_token_survives_a_reload_and_ends_with_the_tab(stranger: Reader) -> None:
    stranger.open("#/learn/thousand")
    sign_in(stranger, TOKEN)
    feed = stranger.page.get_by_role("region", name="Feed")
    expect(feed).to_contain_text("Revisions appear here")
    elsewhere = "JSON.stringify([{...localStorage}, document.cookie, location.href, document.body.innerText])"
    assert TOKEN not in stranger.page.evaluate(elsewhere)
    stranger.page.reload()
    expect(feed).to_contain_text("Revisions appear here")
    other = stranger.page.context.new_page()
    other.goto(stranger.page.url)
    expect(other.get_by_role("heading", level=1)).to_have_text("Sign in to hansei")
    other.close()


def test_axe_finds_no_fault_in_the_japanese_sign_in(browser: Browser, gateway_with_token: str) -> None:
    with reading(browser, gateway_with_token, locale="ja-JP") as reader:
        found = faults(reader, "#/playbooks")
        reader.page.get_by_label(JAPANESE["signin.token"]).fill("guessed")
        reader.button(JAPANESE["signin.sign_in"]).click()
        reader.sees(JAPANESE["signin.the_gateway_rejects_this_token"])
        found += faults(reader, None)
        reader.expect_only_refusals("401")
    assert found == []
