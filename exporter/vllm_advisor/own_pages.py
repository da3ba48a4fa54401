"""Which of a store's pages the daemon has scraped itself, so that each counts once."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from typing import Any

from vllm_advisor.addresses import host_and_port
from vllm_advisor.evidence.deployment import GAP_SECONDS
from vllm_advisor.scraper import Target
from vllm_advisor.sources.engine_series import EngineSeries
from vllm_advisor.sources.prometheus import StoredStretch

__all__ = ["OwnPages"]


@dataclass(slots=True)
class _Span:
    """From when to when an engine was scraped without a stop.

    Args:
        is_apart: whether that began while there was a past to read, so that the past comes after it.
    """

    first_seconds: float
    last_seconds: float
    is_apart: bool = False


class OwnPages:
    """When each address was scraped.

    Args:
        state: what an earlier one gave.
    """

    def __init__(self, state: Mapping[str, Any] | None = None) -> None:
        self._spans = {address: _read_spans(saved) for address, saved in (state or {}).items()}
        self._names: dict[str, str] = {}

    def state(self) -> dict[str, Any]:
        """Return it as plain JSON values."""
        return {address: [list(astuple(span)) for span in spans] for address, spans in self._spans.items()}

    def note(self, targets: Sequence[Target], read_to_seconds: float) -> None:
        """Note what was scraped up to this moment, the store being read up to some other."""
        self._names = {}
        for target in targets:
            address = host_and_port(target.url)
            self._names[address] = target.name
            first_seconds, last_seconds = target.first_page_seconds, target.last_page_seconds
            if first_seconds is None or last_seconds is None:
                continue
            spans = self._spans.setdefault(address, [])
            if not spans or spans[-1].first_seconds < first_seconds:
                spans.append(_Span(first_seconds, 0.0, first_seconds - read_to_seconds > GAP_SECONDS))
            spans[-1].last_seconds = last_seconds

    def forget_before(self, time_seconds: float) -> None:
        """Drop what lies before all that is still to be read."""
        kept = {
            address: [span for span in spans if span.last_seconds >= time_seconds]
            for address, spans in self._spans.items()
        }
        self._spans = {address: spans for address, spans in kept.items() if spans}

    def left_out_of(self, stretch: StoredStretch) -> Iterator[tuple[str, list[EngineSeries]]]:
        """Yield the pages of a stretch that were not scraped, each with its target's name.

        The past of an engine that was scraped already is that of another engine: later pages were seen.
        """
        address = _address(stretch.instance)
        name = self._names.get(address, stretch.instance)
        engines = list(stretch.engines)
        for span in self._spans.get(address, ()):
            engines = [one.outside(span.first_seconds, span.last_seconds) for one in engines]
            if span.is_apart:
                past = [one.outside(span.first_seconds, math.inf) for one in engines]
                yield name, _with_pages([replace(one, engine=f"{one.engine} before") for one in past])
                engines = [one.outside(-math.inf, span.first_seconds) for one in engines]
        yield name, _with_pages(engines)


def _with_pages(engines: list[EngineSeries]) -> list[EngineSeries]:
    return [one for one in engines if len(one.time_seconds)]


def _read_spans(saved: Sequence[Any]) -> list[_Span]:
    """Read one address' spans; earlier versions kept a single one."""
    spans = saved if saved and isinstance(saved[0], list) else [saved]
    return [_Span(*span) for span in spans]


def _address(instance: str) -> str:
    """Return the address that a store's ``instance`` label means."""
    try:
        return host_and_port(f"http://{instance}")
    except ValueError:
        return instance
