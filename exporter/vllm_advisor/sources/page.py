"""Reads a metrics page: the hot path of the daemon.

A page of one engine keeps its series from scrape to scrape; only the numbers move. So what a page is made of
(`page_layout.Layout`) is worked out once, and the next page is compared with it line by line, whole lines but
for their numbers, in one pass of C code; where it fits, only the wanted numbers are converted.
"""

from __future__ import annotations

from collections.abc import Collection

from vllm_advisor.sources.engine_sample import EngineSample
from vllm_advisor.sources.page_layout import Layout, Page, Problem, layout_of

__all__ = ["EngineSample", "Page", "PageReader", "Problem"]

_LAYOUTS_KEPT = 4096


class PageReader:
    """Reads pages, remembering the layout of each target's last one and sharing it between like targets."""

    def __init__(self) -> None:
        self._by_target: dict[str, Layout] = {}
        self._shared: dict[tuple[bytes, ...], Layout] = {}
        self._latest: Layout | None = None

    def read(self, text: bytes, target: str = "") -> Page:
        """Read one page in the classic text format (OpenMetrics' is read too).

        Args:
            text: the page as it came.
            target: whose page it is; the next one of the same target is read faster.
        """
        lines = _lines(text)
        layout = self._by_target.get(target, self._latest)
        if layout is None or not layout.fits(lines):
            layout = layout_of(lines)
        self._remember(layout, target)
        return layout.page(lines)

    def keep_only(self, targets: Collection[str]) -> None:
        """Drop what is kept of targets that are no longer there."""
        if len(self._by_target) > len(targets):
            self._by_target = {one: layout for one, layout in self._by_target.items() if one in targets}

    def _remember(self, layout: Layout, target: str) -> None:
        if self._by_target.get(target) is layout:
            return
        if len(self._shared) >= _LAYOUTS_KEPT:
            self._shared.clear()
        self._latest = self._by_target[target] = self._shared.setdefault(layout.prefixes, layout)


def _lines(text: bytes) -> list[bytes]:
    if b"\r" in text:
        text = text.replace(b"\r\n", b"\n")
    return text.split(b"\n")
