"""What a metrics store answers that scraped some pages."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable

from support.history import ScrapedPage
from vllm_advisor.sources.page_layout import WANTED_NAMES

__all__ = ["stored_answer"]

_LINE = re.compile(r"^(vllm:\w+)\{(.*)\} (\S+)$")
_LABEL = re.compile(r'(\w+)="([^"]*)"')


def stored_answer(pages: Iterable[ScrapedPage]) -> bytes:
    """Return the answer of Prometheus' API to a query for every wanted sample of these pages."""
    samples: dict[tuple[tuple[str, str], ...], list[tuple[float, str]]] = defaultdict(list)
    for page in pages:
        for line in page.text.splitlines():
            if (match := _LINE.match(line)) and match[1] in WANTED_NAMES:
                name, labels, value = match.groups()
                target = {"instance": page.instance, "job": "vllm"}
                metric = {"__name__": name, **dict(_LABEL.findall(labels)), **target}
                samples[tuple(sorted(metric.items()))].append((page.time_seconds, _as_stored(value)))
    result = [
        {"metric": dict(metric), "values": [[_Moment(seconds), value] for seconds, value in values]}
        for metric, values in sorted(samples.items())
    ]
    data = {"resultType": "matrix", "result": result}
    return json.dumps({"status": "success", "data": data}, separators=(",", ":")).encode()


class _Moment(float):
    """A time as Prometheus writes it: whole seconds alone, or with three digits."""

    def __repr__(self) -> str:
        return f"{float(self):.3f}".removesuffix(".000")


def _as_stored(value: str) -> str:
    """Return a number as Prometheus writes it."""
    number = float(value)
    shown = repr(number).removesuffix(".0")
    return {"inf": "+Inf", "-inf": "-Inf", "nan": "NaN"}.get(shown, shown)
