"""The history says why a recommendation changed."""

from __future__ import annotations

from dataclasses import replace

from vllm_advisor.evidence.history import HistoryPoint
from vllm_advisor.web.api.changes import changes_json

FIRST = HistoryPoint(1000.0, 12288, 12288, 40, 256, 47, 40, "latency")


def test_each_change_says_what_moved() -> None:
    """What, when and why: the ceilings, the engines' flags, or a value that had held for long enough."""
    applied = replace(FIRST, time_seconds=2000.0, configured_max_num_seqs=40)
    slower = replace(applied, time_seconds=3000.0, max_num_seqs=None, latency_sequences=None)
    held = replace(slower, time_seconds=4000.0, max_num_seqs=36)
    changes = changes_json((FIRST, applied, slower, held))

    assert [(one["time_seconds"], one["max_num_seqs"], one["why"]) for one in changes] == [
        (1000.0, 40, "first evaluation"),
        (2000.0, 40, "the engines went from --max-num-seqs 256 to 40"),
        (3000.0, None, "the latency ceiling went from 40 to unknown"),
        (4000.0, 36, "what the evidence had said before held for long enough"),
    ]


def test_no_history_is_no_change() -> None:
    """A deployment that was never evaluated has none."""
    assert changes_json(()) == []
