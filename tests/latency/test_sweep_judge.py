"""Whether a level was reached, as a real engine's pages show it."""

from __future__ import annotations

from pathlib import Path

import pytest

from vllm_advisor.sources.capture import read_captures
from vllm_advisor.sources.load.judge import others_served, reachable_users
from vllm_advisor.sources.load.watch import Busy
from vllm_advisor.sources.page import PageReader

DATA = Path(__file__).parents[1] / "data"


def _seen(path: Path) -> list[Busy]:
    """Return what ran and waited second by second, the last quarter with the drain left out."""
    reader = PageReader()
    engines = [engine for page in read_captures([path]) for engine in reader.read(page.text).engines]
    seen = [Busy(engine.running or 0.0, engine.waiting or 0.0) for engine in engines]
    return seen[: len(seen) * 3 // 4]


@pytest.mark.parametrize("users", [2, 4, 8, 16, 32, 64])
def test_levels_within_an_engines_cap_are_reached(users: int) -> None:
    """Real pages under so many clients and a cap of 64: nobody is kept waiting, and nobody else is served."""
    seen = _seen(DATA / "latency" / f"c{users:02}.jsonl.gz")
    assert reachable_users(users, seen) is None
    assert others_served(users, seen) == 0
    assert others_served(users // 2, seen) == pytest.approx(users // 2, rel=0.15)


def test_a_level_over_an_engines_cap_is_not() -> None:
    """Real pages of 16 clients at --max-num-seqs 4."""
    assert reachable_users(16, _seen(DATA / "advice" / "cap-binds-seqs4-c16.jsonl.gz")) == 4


def test_a_cap_is_seen_though_requests_end_together() -> None:
    """With outputs of one length the queue is empty for a moment, when a whole batch has ended."""
    seen = [Busy(24, 8), Busy(19, 0), Busy(24, 7), Busy(24, 8), Busy(22, 0), Busy(24, 6)]
    assert reachable_users(32, seen) == 24
