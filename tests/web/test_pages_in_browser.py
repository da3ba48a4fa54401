"""The pages as people see them, in Debian's Chromium."""

from __future__ import annotations

import re

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect

from support.daemon_process import DaemonProcess
from support.waiting import wait_for
from support.web import API, ask, open_page

PAGES = ("/", "/deployments/demo", "/targets", "/config")
SIZES = {"desktop": (1280, 900), "phone": (390, 844)}
CHARTS = ["context", "tradeoff", "latency", "running", "kv", "history"]
DRAWN = "document.documentElement.dataset.charts === 'drawn'"
COLOURED = """element => {
  const canvas = element.querySelector('canvas');
  const pixels = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
  const colours = new Set();
  for (let at = 0; at < pixels.length; at += 4) if (pixels[at + 3] > 200)
    colours.add(`${pixels[at] >> 5},${pixels[at + 1] >> 5},${pixels[at + 2] >> 5}`);
  return colours.size;
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("path", PAGES)
def test_page_renders(demo: DaemonProcess, browser: Browser, path: str, size: str, scheme: str) -> None:
    """Every page renders without a complaint, asks nobody else, fits the screen, and axe finds no fault."""
    width, height = SIZES[size]
    with open_page(browser, demo.url + path, width=width, height=height, scheme=scheme) as opened:
        if path == "/deployments/demo":
            opened.page.wait_for_function(DRAWN)
        found = Axe().run(opened.page).response["violations"]
        over = opened.page.evaluate("document.documentElement.scrollWidth - innerWidth")
        back = opened.page.evaluate("getComputedStyle(document.body).backgroundColor")
        asked = opened.asked

    assert opened.complaints == []
    assert [url for url in asked if not url.startswith(demo.url)] == []
    assert over <= 0
    assert (sum(map(int, re.findall(r"\d+", back)[:3])) > 384) == (scheme == "light")
    assert [(one["id"], one["impact"], one["nodes"][0]["html"]) for one in found] == []


def test_charts_show_the_evidence(demo: DaemonProcess, browser: Browser) -> None:
    """Each chart is drawn in several colours, says in words what it shows, and has its legend."""
    with open_page(browser, f"{demo.url}/deployments/demo") as opened:
        opened.page.wait_for_function(DRAWN)
        charts = opened.page.locator("[data-chart]")
        names = charts.evaluate_all("all => all.map(one => one.dataset.chart)")
        labels = charts.evaluate_all("all => all.map(one => one.getAttribute('aria-label'))")
        colours = [charts.nth(index).evaluate(COLOURED) for index in range(charts.count())]
        shown = opened.page.locator("[data-chart=latency] .u-label").all_text_contents()

    assert names == CHARTS
    assert all(len(label) > 30 for label in labels)
    assert min(colours) >= 4
    assert {"mean, as observed", "mean, fitted"} <= set(shown)


def test_chart_holds_the_evidence(demo: DaemonProcess, browser: Browser) -> None:
    """What a chart's legend says under the pointer is a row of the table that the API gives."""
    with open_page(browser, f"{demo.url}/deployments/demo") as opened:
        opened.page.wait_for_function(DRAWN)
        table = ask(f"{demo.url}{API}/evidence").json()["tables"]["occupancy"]
        opened.page.locator("[data-chart=running] .u-over").hover(position={"x": 2, "y": 100})
        labels = opened.page.locator("[data-chart=running] .u-label").all_text_contents()
        values = opened.page.locator("[data-chart=running] .u-value").all_text_contents()
    told = dict(zip(labels, values, strict=True))

    assert float(told["running, most"]) == table["running_max"][0]
    assert float(told["running, mean"]) == pytest.approx(table["running_mean"][0], abs=0.06)


def test_page_says_what_the_api_says(demo: DaemonProcess, browser: Browser) -> None:
    """Recommended flags, command line and advice on the page are the API's."""
    with open_page(browser, f"{demo.url}/deployments/demo") as opened:
        told = ask(f"{demo.url}{API}").json()
        opened.page.reload()
        text = opened.page.locator("main").inner_text()

    assert f"{told['flags']['max_model_len']['configured']:,}" in text
    assert f"{told['flags']['max_model_len']['recommended']:,}" in text
    assert "vllm serve … --max-model-len" in text
    assert f"{told['kv_pool']['engine_tokens']:,}" in text
    assert told["advice"][0]["severity"] in text


def _supposed(page: Page, row: str) -> int:
    cell = page.locator(".outcome tr", has_text=row).locator("td").nth(1)
    return int(cell.inner_text().replace("→", "").replace(",", ""))


def test_what_if_moves_the_numbers(demo: DaemonProcess, browser: Browser) -> None:
    """A looser target raises the latency ceiling, FP8 doubles the memory ceiling, reset takes both back."""
    with open_page(browser, f"{demo.url}/deployments/demo") as opened:
        page = opened.page
        expect(page.locator(".outcome tr")).to_have_count(6)
        latency, memory = _supposed(page, "Latency ceiling"), _supposed(page, "Memory ceiling")
        page.get_by_label("Target, ms a token").fill("4")
        expect(page.locator(".outcome tr", has_text="Latency ceiling").locator("strong")).to_be_visible()
        looser = _supposed(page, "Latency ceiling")
        page.get_by_label("KV cache type").select_option("fp8")
        expect(page.get_by_text("has to be measured again")).to_be_visible()
        larger = _supposed(page, "Memory ceiling")
        page.get_by_role("button", name="Reset").click()
        expect(page.get_by_text("has to be measured again")).to_have_count(0)
        again = _supposed(page, "Memory ceiling")

    assert looser > latency
    assert abs(larger / memory - 2) < 0.05
    assert abs(again / memory - 1) < 0.25
    assert opened.complaints == []


def test_keyboard_alone(demo: DaemonProcess, browser: Browser) -> None:
    """The first key stroke reaches the way past the menu, and every field of what-if is reached in turn."""
    with open_page(browser, f"{demo.url}/deployments/demo") as opened:
        page = opened.page
        page.keyboard.press("Tab")
        first = page.evaluate("document.activeElement.textContent")
        page.keyboard.press("Enter")
        page.get_by_label("Target, ms a token").focus()
        reached = []
        for _ in range(7):
            reached.append(page.evaluate("document.activeElement.name || document.activeElement.type"))
            page.keyboard.press("Tab")

    assert first == "Skip to the content"
    assert reached == [
        "slo_tpot_ms",
        "slo_quantile",
        "quantile",
        "margin",
        "gpus",
        "kv_cache_dtype",
        "reset",
    ]


def test_copy_gives_the_flags(demo: DaemonProcess, browser: Browser) -> None:
    """The button puts the flags on the clipboard, without what stands before them."""
    with open_page(browser, f"{demo.url}/deployments/demo") as opened:
        opened.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        opened.page.get_by_role("button", name="Copy flags").click()
        expect(opened.page.get_by_role("button", name="Copied")).to_be_visible()
        copied = opened.page.evaluate("navigator.clipboard.readText()")

    assert copied.startswith("--max-model-len ")


def test_refresh_keeps_charts_and_form(demo: DaemonProcess, browser: Browser) -> None:
    """What the server wrote is replaced after fifteen seconds; charts stay, and so does what was typed."""
    with open_page(browser, f"{demo.url}/deployments/demo", own_clock=True) as opened:
        page, heard = opened.page, opened.page.locator("#head time").first
        page.get_by_label("Margin, %").fill("55")
        before = heard.get_attribute("datetime") or ""
        evaluated = ask(f"{demo.url}{API}/explain").json()["evaluated_at"]
        wait_for(lambda: ask(f"{demo.url}{API}/explain").json()["evaluated_at"] > evaluated, "an evaluation")
        page.clock.fast_forward(15_000)
        expect(heard).not_to_have_attribute("datetime", before)
        page.wait_for_load_state("networkidle")
        charts = page.locator("[data-chart] canvas").count()
        margin = page.get_by_label("Margin, %").input_value()

    assert charts == len(CHARTS)
    assert margin == "55"
    assert opened.complaints == []
