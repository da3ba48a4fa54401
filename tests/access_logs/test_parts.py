"""A big log read in parts by several processes comes to what one process reads."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from support.access_logs import NOW_SECONDS, log_config, usage_line
from vllm_advisor.commands.contexts_reading import Tally, read_logs
from vllm_advisor.sources.access_logs import Outcome
from vllm_advisor.sources.access_logs.recent import REMEMBERED

PART_BYTES = 20_000


def same(one: Tally, other: Tally) -> None:
    """Check that two tallies hold the same."""
    assert +one.counts == +other.counts
    first, second = one.lengths.snapshot(0.0), other.lengths.snapshot(0.0)
    for kind in ("total", "prompt", "output", "requested", "cut"):
        assert (getattr(first, kind).counts == getattr(second, kind).counts).all(), kind
    assert first.outcomes == second.outcomes
    assert first.longest_tokens == second.longest_tokens
    # A line without a time is of when it was read.
    assert first.window_seconds == pytest.approx(second.window_seconds, abs=120)


def mixed_lines(seed: int, number: int) -> list[bytes]:
    """Requests, one in ten of them again some lines later, failures and broken lines among them."""
    chance = random.Random(seed)  # noqa: S311 - the same lines each time
    lines: list[bytes] = []
    for _ in range(number):
        kind = chance.random()
        if kind < 0.1 and lines:
            lines.append(chance.choice(lines[-300:]))
        elif kind < 0.15:
            lines.append(json.dumps({"status": 500, "usage": None}).encode() + b"\n")
        elif kind < 0.2:
            lines.append(usage_line(7, 7)[: chance.randrange(2, 40)] + b"\n")
        else:
            name = f"{chance.getrandbits(60):x}"
            time_seconds = NOW_SECONDS - chance.randrange(86_400)
            lines.append(
                usage_line(chance.randrange(1, 5000), chance.randrange(1, 900), time_seconds, request_id=name)
            )
    return lines


@pytest.mark.parametrize("processes", [2, 3])
def test_parts_come_to_the_whole(tmp_path: Path, processes: int) -> None:
    """Counts by outcome, repetitions across the cuts included, and every length are those of one process."""
    files = [tmp_path / "a.jsonl", tmp_path / "b.jsonl"]
    lines = mixed_lines(1, 4000)
    files[0].write_bytes(b"".join(lines).removesuffix(b"\n"))
    files[1].write_bytes(b"".join(lines[-50:] + mixed_lines(2, 2000)))
    log = log_config(*files)
    one = read_logs(log, processes=1)
    assert one.counts[Outcome.DUPLICATE] > 400
    assert one.counts[Outcome.BROKEN] > 200
    same(one, read_logs(log, processes=processes, part_bytes=PART_BYTES))


def test_a_part_knows_the_requests_long_before_it(tmp_path: Path) -> None:
    """A request logged again almost as many lines later as are remembered is not counted twice."""
    distance = REMEMBERED - 100
    lines = [
        usage_line(number % 90 + 1, 2, request_id=str(number % distance)) for number in range(3 * distance)
    ]
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"".join(lines))
    tally = read_logs(log_config(path), processes=2, part_bytes=200_000)
    assert +tally.counts == {Outcome.SERVED: distance, Outcome.DUPLICATE: 2 * distance}


@pytest.mark.parametrize("name", ["csv", "cri", "too long"])
def test_lines_that_hang_together_are_read_by_one(tmp_path: Path, name: str) -> None:
    """A header holds for every line, and the parts of a record are put together wherever they are."""
    path = tmp_path / "a.log"
    match name:
        case "csv":
            rows = [f"2026-11-30T09:15:00Z,{number % 900 + 1},2" for number in range(3000)]
            path.write_text("\n".join(["timestamp,prompt_tokens,completion_tokens", *rows]))
        case "cri":
            stamp = b"2026-11-30T09:15:00.1Z stdout "
            halves = [(line[:30], line[30:]) for line in mixed_lines(3, 1500)]
            path.write_bytes(b"".join(stamp + b"P " + a + b"\n" + stamp + b"F " + b for a, b in halves if b))
        case "too long":
            long = usage_line(5, 5, text="x" * 2_500_000)
            path.write_bytes(b"".join([*mixed_lines(4, 500), long, *mixed_lines(5, 500)]))
    one = read_logs(log_config(path), processes=1)
    assert one.counts[Outcome.SERVED] > 500
    same(one, read_logs(log_config(path), processes=2, part_bytes=PART_BYTES))


def test_small_files_start_no_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Below two parts' size the file is read where the command runs."""
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"".join(mixed_lines(6, 100)))

    def refuse() -> int:
        raise AssertionError("a process was started")

    monkeypatch.setattr("os.fork", refuse)
    assert read_logs(log_config(path), processes=4).counts[Outcome.SERVED] > 50
