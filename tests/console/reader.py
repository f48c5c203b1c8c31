"""A reader of the console, with the complaints of the browser."""

from __future__ import annotations

from playwright.sync_api import Locator, Page, expect

TIMEOUT_MS = 20_000
"""Seconds that an expectation may take to come true on a busy machine; nothing waits longer than it must."""

expect.set_options(timeout=TIMEOUT_MS)

VIOLATIONS = "addEventListener('securitypolicyviolation', (each) => console.error('policy', each.violatedDirective))"
FOLLOW = """(address) => new Promise((follow) => {
  const before = location.hash;
  addEventListener("hashchange", () => setTimeout(() => follow(true)), { once: true });
  location.hash = address;
  if (location.hash === before) follow(false);
})"""
"""Go to an address within the page; resolves to true when its listeners have begun to show it, to false if it is the
present one."""
TWO_FRAMES = "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"


class Reader:
    """A page of the console. `complaints` are errors that the page or the browser reported."""

    def __init__(self, page: Page, url: str) -> None:
        self.page = page
        self.complaints: list[str] = []
        self._url = url
        page.set_default_timeout(TIMEOUT_MS)
        page.add_init_script(VIOLATIONS)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("console", lambda message: self.complaints.append(message.text) if message.type == "error" else None)

    def open(self, address: str) -> None:
        """Go to an address such as `#/playbooks`, and wait for its contents."""
        console = f"{self._url}/console/"
        if not self.page.url.startswith(console):
            self.page.goto(console + address)
        # `goto` returns before the listeners of a new hash run, so the page before could be taken for the new one.
        elif not self.page.evaluate(FOLLOW, address):
            self.page.reload()
        self.wait_until_loaded()

    def wait_until_loaded(self) -> None:
        """Wait until nothing loads any more, also not what a page opens in its first frames."""
        expect(self.page.locator("#main")).not_to_be_empty()
        expect(self.page.locator(".state-loading")).to_have_count(0)
        self.page.evaluate(TWO_FRAMES)
        expect(self.page.locator(".state-loading")).to_have_count(0)

    def press(self, *keys: str) -> None:
        """Press keys one after another."""
        for key in keys:
            self.page.keyboard.press(key)

    def sees(self, text: str, times: int | None = None) -> None:
        """Wait until the page shows a text, at least once or `count` times."""
        found = self.main.get_by_text(text)
        if times is None:
            expect(found.first).to_be_visible()
        else:
            expect(found).to_have_count(times)

    def expect_only_refusals(self, status: str) -> None:
        """Forget the complaints about failed requests with a status; fail if there are others."""
        others = [complaint for complaint in self.complaints if status not in complaint]
        assert not others, others
        self.complaints.clear()

    @property
    def main(self) -> Locator:
        """The page beside the navigation."""
        return self.page.locator("#main")

    @property
    def rows(self) -> Locator:
        """Return the rows of the list that are in the document."""
        return self.main.locator("[role=option]")

    @property
    def chosen_row(self) -> Locator:
        """Return the chosen row."""
        return self.main.locator("[role=option][aria-selected=true]")

    def button(self, name: str) -> Locator:
        """Return a button by its name or the beginning of it."""
        return self.page.get_by_role("button", name=name)
