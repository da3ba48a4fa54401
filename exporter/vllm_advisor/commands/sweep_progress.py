"""What `sweep` shows while it runs: a bar on a terminal, a line for each level."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import NoReturn, Self

from tqdm import tqdm

from vllm_advisor.sources.load.level import LevelRun
from vllm_advisor.sources.sweep_file import SweepLevel

__all__ = ["Progress"]

_BAR = "{desc} {bar} {n_fmt}/{total_fmt}, {elapsed} so far"


class Progress:
    """Follows a sweep on standard error; to be left when it ends.

    Args:
        is_silent: show nothing at all.
    """

    def __init__(self, *, is_silent: bool) -> None:
        self._is_silent = is_silent
        self._bar: tqdm[NoReturn] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._clear()

    def under_way(self, run: LevelRun) -> None:
        """Show how far a level is, on a terminal."""
        if self._is_silent or not sys.stderr.isatty():
            return
        is_warm = run.steady_since_seconds is not None
        total, done = (run.wanted, len(run.measured)) if is_warm else (run.users, len(run.warm_users))
        title = f"{run.users:>5} users, {'measured' if is_warm else 'warm-up '}"
        if self._bar is None:
            self._bar = tqdm(
                desc=title, total=total, file=sys.stderr, leave=False, bar_format=_BAR, dynamic_ncols=True
            )
        self._bar.total, self._bar.n = total, min(done, total)
        self._bar.set_description_str(title)

    def ended(self, level: SweepLevel | None) -> None:
        """Print what a level came to."""
        self._clear()
        if level is None or self._is_silent:
            return
        tpot = {name: f"{seconds * 1000:.1f}" for name, seconds in level.tpot_seconds.items()}
        sys.stderr.write(
            f"{level.concurrency:>5} users: time per output token mean {tpot['mean']} ms, "
            f"p99 {tpot['p99']} ms; p99 to first token {level.ttft_p99_seconds or 0:.2f} s; "
            f"{level.output_tokens_per_second or 0:.0f} tokens/s; {level.requests} requests\n"
        )

    def _clear(self) -> None:
        if self._bar is not None:
            self._bar.close()
            self._bar = None
