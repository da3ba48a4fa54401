"""Requests that are all alike."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from support.advice_pages import ScriptedEngine, Situation, capture, config_file, replayed


def test_a_mix_that_never_varies_does_not_widen_the_spread(tmp_path: Path) -> None:
    """Tokens take 12 ms and 0.8 ms a sequence, a tenth up or down: p99 is 50 ms between 30 and 47."""
    rng = np.random.default_rng(1)
    script = [
        (Situation(n, 0, n / 700, tpot_seconds=(0.012 + 0.0008 * n) * rng.normal(1, 0.1)), 15)
        for _ in range(40)
        for n in range(4, 72, 2)
    ]
    pages = capture(tmp_path / "capture.jsonl", ScriptedEngine(), script)
    config = config_file(tmp_path, slo={"tpot": "50ms", "quantile": 0.99})

    assert 30 <= (replayed(config, [pages]).latency.sequences or 0) <= 47
