"""A headless Chromium of the system, driven through its own driver."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from selenium.webdriver import Chrome, ChromeOptions
from selenium.webdriver.chrome.service import Service

from nsysroof.results import Report
from tests.report.render import to_file


@dataclass(frozen=True)
class Browser:
    """Opens pages and tells what they did."""

    driver: Chrome

    def open(self, page: Path, *, width: int = 1280, dark: bool = False) -> None:
        size = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width < 600}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})
        self._log("browser")
        self._log("performance")
        self.driver.get(page.as_uri())

    def run(self, script: str, *arguments: Any) -> Any:
        return self.driver.execute_script(script, *arguments)

    def complaints(self) -> list[str]:
        """Return what the console has shown since the page was opened."""
        return [entry["message"] for entry in self._log("browser")]

    def requests(self) -> list[str]:
        """Return what went out since the page was opened, without what its policy stopped."""
        events = [json.loads(entry["message"])["message"] for entry in self._log("performance")]
        stopped = {
            event["params"]["requestId"]
            for event in events
            if event["params"].get("blockedReason") == "csp"
        }
        return [
            event["params"]["request"]["url"]
            for event in events
            if event["method"] == "Network.requestWillBeSent"
            and event["params"]["requestId"] not in stopped
        ]

    def _log(self, name: str) -> list[dict[str, Any]]:
        entries: list[dict[str, Any]] = self.driver.get_log(name)  # type: ignore[no-untyped-call]
        return entries


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if chromium is None or driver is None:
        pytest.skip("no Chromium here: apt-get install chromium chromium-driver")
    options = ChromeOptions()
    options.binary_location = chromium
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    started = Chrome(options=options, service=Service(driver))
    try:
        yield Browser(started)
    finally:
        started.quit()


def written(report: Report, folder: Path) -> Path:
    """Return the page of a report as a file."""
    page = folder / "run.html"
    page.write_text(to_file(report, "html"), encoding="utf-8")
    return page
