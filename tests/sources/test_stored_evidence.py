"""Pages out of a store lead to the evidence that they lead to one by one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from support.advice_pages import ScriptedEngine, Situation
from support.history import ScrapedPage
from support.stored_answers import stored_answer
from vllm_advisor.evidence.deployment import DeploymentEvidence
from vllm_advisor.sources.page import PageReader
from vllm_advisor.sources.prometheus import StoredPages
from vllm_advisor.sources.prometheus.matrix import read_matrix

START_SECONDS = 1_764_547_200.0
EVERY_SECONDS = 15.0
PAGES = 200


class Engines:
    """Three targets whose engines do whatever engines do; the last has two on its page."""

    def __init__(self, seed: int) -> None:
        self._random = np.random.default_rng(seed)
        self._engines = [[self._fresh()], [self._fresh()], [self._fresh(), self._fresh()]]
        self._silent_until = [0, 0, 0]

    def pages(self, index: int) -> Iterator[ScrapedPage]:
        """Yield the pages of one round, those that are not lost."""
        for number, engines in enumerate(self._engines):
            if self._chance(0.01):
                engines[0] = self._fresh()
            if self._chance(0.01):
                self._silent_until[number] = index + int(self._random.choice([2, 8, 30]))
            text = ""
            for label, engine in enumerate(engines):
                engine.run(self._situation(), EVERY_SECONDS)
                text += engine.page().replace('engine="0"', f'engine="{label}"')
            if self._chance(0.05):
                text = self._spoiled(text)
            if index >= self._silent_until[number]:
                seconds = START_SECONDS + EVERY_SECONDS * index + (0.0, 4.25, 7.037)[number]
                yield ScrapedPage(seconds, f"vllm-{number}:8000", text)

    def _fresh(self) -> ScriptedEngine:
        length = int(self._random.choice([8192, 8192, 16384]))
        return ScriptedEngine(max_model_len=length, pool_tokens=1_000_000)

    def _situation(self) -> Situation:
        running = int(self._random.choice([0, 3, 20, 80]) * self._random.uniform(0.8, 1.2))
        return Situation(
            running=running,
            waiting=int(self._random.choice([0, 0, 4])),
            kv_used=float(self._random.choice([running / 100, 0.99])),
            tpot_seconds=(0.012 + 0.0008 * running) * float(self._random.normal(1, 0.05)),
            preemptions_per_second=float(self._random.choice([0, 0, 0, 1])),
            lengths=((int(self._random.integers(50, 5000)), int(self._random.integers(10, 900)), 1.0),),
        )

    def _spoiled(self, text: str) -> str:
        """Take some samples away, or make one of them no number."""
        lines = text.splitlines()
        picked = int(self._random.integers(len(lines)))
        if self._chance(0.5) and not lines[picked].startswith("#"):
            lines[picked] = lines[picked].rpartition(" ")[0] + " NaN"
        else:
            del lines[picked : picked + int(self._random.choice([1, 8]))]
        return "\n".join(lines) + "\n"

    def _chance(self, probability: float) -> bool:
        return bool(self._random.random() < probability)


@settings(max_examples=8, deadline=None, phases=[Phase.explicit, Phase.generate])
@given(
    st.integers(0, 2**32),
    st.lists(st.integers(1, PAGES), min_size=1, max_size=12, unique=True),
    st.sets(st.integers(0, PAGES), max_size=20),
)
def test_evidence_is_the_same(seed: int, ends: list[int], looked_at: set[int]) -> None:
    """Over restarts, other flags, gaps, lost pages and samples, NaN, and two engines on a page: exactly.

    It matters neither how long the stretches are that are asked for, nor when somebody looks at the evidence
    of what was scraped. Shapes of traffic are kept in single precision, and agree to that.
    """
    engines = Engines(seed)
    rounds = [list(engines.pages(index)) for index in range(PAGES)]
    scraped, stored = DeploymentEvidence(86400.0), DeploymentEvidence(86400.0)
    reader, together = PageReader(), StoredPages()
    for start, end in pairwise([0, *sorted(ends)]):
        for index in range(start, end):
            for page in rounds[index]:
                samples = reader.read(page.text.encode(), page.instance).engines
                scraped.observe_page(page.instance, page.time_seconds, samples)
            if index in looked_at:
                scraped.state()
        until_seconds = START_SECONDS + EVERY_SECONDS * end
        scraped.settle(until_seconds)
        answer = read_matrix(stored_answer(page for one in rounds[start:end] for page in one))
        for stretch in together.stretches(answer, START_SECONDS + EVERY_SECONDS * start - 1):
            stored.observe_series(stretch.instance, stretch.engines)
        stored.settle(until_seconds)
    assert_same(scraped.state(), stored.state())
    assert scraped.snapshot(until_seconds).engines == stored.snapshot(until_seconds).engines


def assert_same(one: dict[str, Any], other: dict[str, Any]) -> None:
    """Compare states, all but shapes exactly."""
    shapes, other_shapes = (numbers_of(state.pop("shape")) for state in (one, other))
    assert shapes == pytest.approx(other_shapes, rel=1e-5)
    assert json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


def numbers_of(value: object) -> list[float]:
    """Return every number in a state, in one order."""
    if isinstance(value, dict):
        return [number for key in sorted(value) for number in numbers_of(value[key])]
    if isinstance(value, list):
        return [number for one in value for number in numbers_of(one)]
    return [float(value)]  # type: ignore[arg-type]
