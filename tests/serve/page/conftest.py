"""A browser for all tests of the page, and a server for each."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Browser, sync_playwright

from ..rig import Running, running
from .browsing import Recording, Visit, visit


@pytest.fixture(scope="package")
def launch() -> Iterator[Callable[[str], Browser]]:
    """Starts a browser once. The driver's event loop runs in this thread as long as it does."""
    with sync_playwright() as driver:
        started: dict[str, Browser] = {}

        def start(path: str) -> Browser:
            if path not in started:
                started[path] = driver.chromium.launch(executable_path=path, args=["--no-sandbox"])
            return started[path]

        yield start
        for browser in started.values():
            browser.close()


@pytest.fixture
def browser(chromium: str, launch: Callable[[str], Browser]) -> Browser:
    """Headless Chromium."""
    return launch(chromium)


@pytest.fixture(scope="package")
def served() -> Iterator[tuple[Recording, Running]]:
    """One server for all that need none of their own."""
    recording = Recording()
    with running(recording) as found:
        yield recording, found


@pytest.fixture
def recording(served: tuple[Recording, Running]) -> Recording:
    """The server's engine, as if it were new."""
    served[0].forget()
    return served[0]


@pytest.fixture
def server(served: tuple[Recording, Running], recording: Recording) -> Running:
    """A server that knows no keys."""
    return served[1]


@pytest.fixture
def tab(browser: Browser, server: Running) -> Iterator[Visit]:
    """Its page."""
    with visit(browser, server.url) as found:
        yield found
