"""The HTML report in a real browser: what the script adds, and what the page must never do."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By

from nsysroof import Options, analyze, open_trace
from nsysroof.results import Report
from tests.browser.conftest import Browser, written
from tests.report import sample

FIXTURES = Path(__file__).parents[2] / "fixtures"


@pytest.fixture(scope="module")
def planted() -> Report:
    trace = open_trace(FIXTURES / "qwen3-30b-a3b-gh200.sqlite")
    return analyze(trace, Options(model="qwen3-30b-a3b", batch=1, context=(4096,)))


def roles(browser: Browser) -> list[str]:
    """Return the roles of the rows shown, from the top."""
    found: list[str] = browser.run(
        "return [...document.querySelectorAll('#operators tbody tr')]"
        ".filter(row => !row.hidden).map(row => row.cells[0].textContent)"
    )
    return found


def click_heading(browser: Browser, text: str) -> None:
    buttons = browser.driver.find_elements(By.CSS_SELECTOR, "#operators th button")
    (button,) = [button for button in buttons if button.text == text]
    button.click()


def test_the_table_sorts_by_numbers_and_by_words(
    browser: Browser, planted: Report, tmp_path: Path
) -> None:
    browser.open(written(planted, tmp_path))
    assert roles(browser)[:3] == ["moe.down", "moe.gate_up", "attn.core"]
    measured = {row.role: row.measured_ns for row in planted.operators}
    click_heading(browser, "measured µs")
    assert roles(browser)[0] == max(measured, key=measured.__getitem__) == "lm_head"
    times = [measured[role] for role in roles(browser)]
    assert times == sorted(times, reverse=True)
    click_heading(browser, "measured µs")
    times = [measured[role] for role in roles(browser)]
    assert times == sorted(times)
    click_heading(browser, "operator")
    assert roles(browser)[0] == "attn.core"
    heading = browser.driver.find_elements(By.CSS_SELECTOR, "#operators th[aria-sort]")
    assert [one.get_attribute("aria-sort") for one in heading] == ["ascending"]


def test_what_has_no_number_sorts_last_in_both_directions(
    browser: Browser, planted: Report, tmp_path: Path
) -> None:
    browser.open(written(planted, tmp_path))
    fixed = sum(row.limiter == "latency" for row in planted.operators)
    for ratios in ([3.0, 3.0, 1.7, 1.6, 1.45, 1.2], [1.2, 1.45, 1.6, 1.7, 3.0, 3.0]):
        click_heading(browser, "ratio")
        shown = browser.run(
            "return [...document.querySelectorAll('#operators tbody tr')]"
            ".map(row => row.cells[2].textContent)"
        )
        assert [float(text) for text in shown[: len(ratios)]] == ratios
        assert shown[len(ratios) :] == ["fixed"] * fixed


def test_the_filter_looks_at_roles_limiters_and_whole_kernel_names(
    browser: Browser, planted: Report, tmp_path: Path
) -> None:
    browser.open(written(planted, tmp_path))
    field = browser.driver.find_element(By.CSS_SELECTOR, "#operators input")
    field.send_keys("moe memory")
    assert roles(browser) == ["moe.down", "moe.gate_up"]
    status = browser.driver.find_element(By.CSS_SELECTOR, "#operators [role=status]")
    assert status.text == f"2 of {len(planted.operators)}"
    field.clear()
    field.send_keys("VarlenDynamicPersistentTileScheduler")  # in what the table cuts off
    assert roles(browser) == ["attn.core"]
    field.clear()
    field.send_keys("no such thing")
    assert roles(browser) == []


def test_drawings_tell_what_is_under_the_pointer(
    browser: Browser, planted: Report, tmp_path: Path
) -> None:
    browser.open(written(planted, tmp_path))
    tip = browser.driver.find_element(By.CSS_SELECTOR, "[role=tooltip]")
    assert not tip.is_displayed()
    dot = browser.driver.find_element(By.CSS_SELECTOR, "#roofline [aria-label^='attn.core:']")
    browser.run("arguments[0].scrollIntoView({block: 'center'})", dot)
    ActionChains(browser.driver).move_to_element(dot).perform()
    assert tip.text.startswith("attn.core: 302.6 µs per step")
    bar = browser.driver.find_element(By.CSS_SELECTOR, "#timeline rect[aria-label]")
    browser.run("arguments[0].scrollIntoView({block: 'center'})", bar)
    ActionChains(browser.driver).move_to_element(bar).perform()
    assert tip.text == bar.get_attribute("aria-label")
    title = browser.driver.find_element(By.CSS_SELECTOR, "#timeline h2")
    ActionChains(browser.driver).move_to_element(title).perform()
    assert not tip.is_displayed()


@pytest.mark.parametrize("make", [sample.full, sample.empty, sample.worst])
@pytest.mark.parametrize("width", [1280, 390])
def test_nothing_is_asked_for_nothing_complains_and_nothing_overflows(
    browser: Browser, make: object, width: int, tmp_path: Path
) -> None:
    assert callable(make)
    page = written(make(), tmp_path)
    browser.open(page, width=width)
    assert browser.complaints() == []
    assert browser.requests() == [page.as_uri()]
    assert browser.run("return document.documentElement.scrollWidth") <= width


def test_hostile_names_run_nothing(browser: Browser, tmp_path: Path) -> None:
    browser.open(written(sample.worst(), tmp_path))
    assert browser.run("return document.scripts.length") == 1
    assert "</script><script>alert(1)</script>" in browser.run("return document.body.innerText")


def test_the_policy_stops_what_a_page_might_be_made_to_do(browser: Browser, tmp_path: Path) -> None:
    page = written(sample.full(), tmp_path)
    text = page.read_text(encoding="utf-8")
    injected = "<script>document.title='owned'</script><img src='http://127.0.0.1:9/x.png'>"
    page.write_text(text.replace("</body>", f"{injected}</body>"), encoding="utf-8")
    browser.open(page)
    assert browser.driver.title != "owned"
    assert browser.requests() == [page.as_uri()]
    assert any("Content Security Policy" in message for message in browser.complaints())


def test_it_reads_without_scripts(browser: Browser, planted: Report, tmp_path: Path) -> None:
    browser.driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        browser.open(written(planted, tmp_path))
        rows = browser.driver.find_elements(By.CSS_SELECTOR, "#operators tbody tr")
        assert len(rows) == len(planted.operators)
        assert browser.driver.find_elements(By.CSS_SELECTOR, "input, button") == []
        assert browser.driver.find_elements(By.CSS_SELECTOR, "#roofline circle > title")
    finally:
        browser.driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})


def test_the_first_screen_shows_the_three_largest_wins(
    browser: Browser, planted: Report, tmp_path: Path
) -> None:
    for width, height in ((1280, 800), (390, 844)):
        browser.open(written(planted, tmp_path), width=width)
        wins = browser.driver.find_elements(By.CSS_SELECTOR, "header ol:first-of-type li")[:3]
        shown = [win.text.split()[:2] for win in wins]
        assert shown == [["605.1", "moe.down"], ["272.0", "moe.gate_up"], ["201.7", "attn.core"]]
        assert max(win.rect["y"] + win.rect["height"] for win in wins) < height


def test_light_and_dark_are_different_papers_with_readable_ink(
    browser: Browser, tmp_path: Path
) -> None:
    page = written(sample.full(), tmp_path)
    seen = {}
    for dark in (False, True):
        browser.open(page, dark=dark)
        style = "getComputedStyle(document.body)"
        seen[dark] = (
            tuple(browser.run(f"return {style}.backgroundColor.match(/\\d+/g).map(Number)")),
            tuple(browser.run(f"return {style}.color.match(/\\d+/g).map(Number)")),
        )
    assert seen[False] == ((255, 255, 255), (27, 31, 36))
    assert seen[True] == ((15, 20, 25), (230, 233, 237))


def test_it_prints(browser: Browser, planted: Report, tmp_path: Path) -> None:
    browser.open(written(planted, tmp_path))
    printed = browser.driver.execute_cdp_cmd("Page.printToPDF", {"printBackground": True})
    document = base64.b64decode(printed["data"])
    assert document.startswith(b"%PDF")
    pages = document.count(b"/Type /Page\n") or document.count(b"/Type/Page")
    assert 3 <= pages <= 20
