"""Hours of two scripted engines' pages, and how they get into real stores."""

from __future__ import annotations

import math
import re
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.request import Request, urlopen

import numpy as np

from support.advice_pages import ScriptedEngine, Situation

__all__ = ["INSTANCES", "ScrapedPage", "history", "import_into_victoria", "record_blocks", "write_blocks"]

INSTANCES = ("vllm-0:8000", "vllm-1:8000")
EVERY_SECONDS = 15.0
RULES = Path(__file__).parents[2] / "rules/vllm-intervals.yml"
_LABELLED = re.compile(r"^(vllm:\w+)\{(.*)\} (\S+)$")


@dataclass(frozen=True, slots=True)
class ScrapedPage:
    """One page at its time."""

    time_seconds: float
    instance: str
    text: str


def history(end_seconds: float, hours: float, *, restart: bool = False, seed: int = 0) -> list[ScrapedPage]:
    """Return the pages of two engines up to a time, in its order.

    Load swings every four hours; a token takes 12 ms and 0.8 ms for each running sequence, give or take a
    twentieth. With a restart, the second engine comes back with other flags halfway, after ten minutes.
    """
    rng = np.random.default_rng(seed)
    engines = {one: ScriptedEngine(max_model_len=16384, pool_tokens=1_000_000) for one in INSTANCES}
    count = int(hours * 3600 / EVERY_SECONDS)
    pages = []
    for index in range(count):
        for offset, instance in enumerate(INSTANCES):
            since_half = (index - count // 2) * EVERY_SECONDS
            if restart and offset and 0 <= since_half < 600:
                engines[instance] = ScriptedEngine(max_model_len=8192, pool_tokens=900_000)
                continue
            engines[instance].run(_situation(index, rng), EVERY_SECONDS)
            time_seconds = end_seconds - (count - index) * EVERY_SECONDS + 7.125 * offset
            pages.append(ScrapedPage(round(time_seconds, 3), instance, engines[instance].page()))
    return pages


def write_blocks(folder: Path, pages: Iterable[ScrapedPage]) -> Path:
    """Write pages as the blocks of a Prometheus; return their folder."""
    openmetrics, blocks = folder / "history.om", folder / "blocks"
    with openmetrics.open("w", encoding="utf-8") as file:
        file.writelines(_lines(pages, lambda seconds: f"{seconds:.3f}"))
        file.write("# EOF\n")
    subprocess.run(
        ["promtool", "tsdb", "create-blocks-from", "openmetrics", openmetrics, blocks],
        check=True,
        capture_output=True,
    )
    openmetrics.unlink()
    return blocks


def record_blocks(folder: Path, url: str, pages: Sequence[ScrapedPage]) -> Path:
    """Write what the shipped rules would have recorded of a store's past; return the blocks' folder."""
    blocks = folder / "recorded"
    start, end = (str(int(page.time_seconds)) for page in (pages[0], pages[-1]))
    command = ["promtool", "tsdb", "create-blocks-from", "rules", f"--start={start}", f"--end={end}"]
    command += [f"--url={url}", f"--output-dir={blocks}", "--eval-interval=60s", str(RULES)]
    subprocess.run(command, check=True, capture_output=True)
    return blocks


def import_into_victoria(url: str, pages: Iterable[ScrapedPage]) -> None:
    """Put pages into a running VictoriaMetrics."""
    text = "".join(_lines(pages, lambda seconds: str(round(seconds * 1000))))
    request = Request(f"{url}/api/v1/import/prometheus", data=text.encode(), method="POST")  # noqa: S310
    with urlopen(request, timeout=60) as answer:  # noqa: S310 - always loopback
        assert answer.status == 204
    with urlopen(f"{url}/internal/force_flush", timeout=60) as answer:  # noqa: S310
        assert answer.status == 200


def _situation(index: int, rng: np.random.Generator) -> Situation:
    swing = 0.5 - 0.5 * math.cos(2 * math.pi * index * EVERY_SECONDS / 14_400)
    running = max(1, round(70 * (0.1 + 0.9 * swing) * rng.normal(1, 0.05)))
    return Situation(
        running=running,
        kv_used=min(1.0, running / 200),
        tpot_seconds=(0.012 + 0.0008 * running) * rng.normal(1, 0.05),
        lengths=((round(rng.normal(900, 90)), round(rng.normal(200, 20)), 1.0),),
    )


def _lines(pages: Iterable[ScrapedPage], stamp: object) -> Iterator[str]:
    for page in pages:
        target = f'instance="{page.instance}",job="vllm"'
        when = stamp(page.time_seconds)  # type: ignore[operator]
        for line in page.text.splitlines():
            if match := _LABELLED.match(line):
                yield f"{match[1]}{{{match[2]},{target}}} {match[3]} {when}\n"
