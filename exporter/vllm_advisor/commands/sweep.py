"""`sweep`: the active concurrency sweep against a live OpenAI-compatible endpoint."""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
import sys
from typing import Any

from vllm_advisor.addresses import without_password
from vllm_advisor.ceilings.latency import LatencyCeiling, sweep_ceiling
from vllm_advisor.commands.flag_sections import slo_of
from vllm_advisor.commands.sweep_endpoint import (
    Daemon,
    find_endpoint,
    hand_over,
    hint,
    refuse_daemon,
    refuse_when_busy,
)
from vllm_advisor.commands.sweep_flags import (
    add_arguments,
    daemon_of,
    endpoint_of,
    lengths_of,
    limits_of,
    refuse_unwritable,
    trust_of,
)
from vllm_advisor.commands.sweep_progress import Progress
from vllm_advisor.errors import AdvisorError, EvidenceError, InputError, UsageError
from vllm_advisor.sources.load.endpoint import Endpoint
from vllm_advisor.sources.load.requests import RequestSource
from vllm_advisor.sources.load.stream import RefusedError
from vllm_advisor.sources.load.sweep import SweepLimits, SweepPlan, SweepRun, run_sweep
from vllm_advisor.sources.sweep_file import sweep_to_document
from vllm_advisor.units import format_duration

__all__ = ["add_arguments", "run"]

_INTERRUPTED = 130


def run(arguments: argparse.Namespace) -> int:
    """Sweep, write the file, print the ceiling, hand it over.

    Raises:
        UsageError: a flag is wrong.
        InputError: the endpoint refuses the requests, or the output cannot be written.
        EvidenceError: the endpoint or the daemon cannot be reached or refuses, the engine serves others, or
            no level could be measured.
    """
    slo = slo_of(arguments.slo_tpot, arguments.slo_quantile)
    limits, lengths = limits_of(arguments), lengths_of(arguments)
    named, daemon = endpoint_of(arguments), _daemon(arguments)
    refuse_unwritable(arguments.output)
    if daemon:
        refuse_daemon(daemon)
    endpoint, longest_tokens = find_endpoint(named)
    _agree(arguments, endpoint, limits)
    if not arguments.force:
        refuse_when_busy(endpoint)
    sweep_run = SweepRun(facts={"url": without_password(endpoint.base), "model": endpoint.model})
    plan = SweepPlan(endpoint, RequestSource(lengths, longest_tokens), slo, limits)
    with Progress(is_silent=arguments.json) as progress:
        interrupted = not asyncio.run(_unless_stopped(plan, sweep_run, progress))
    for note in sweep_run.notes:
        sys.stderr.write(f"{note}\n")
    if interrupted and not sweep_run.levels:
        return _INTERRUPTED
    document = _written(arguments, sweep_run)
    print(json.dumps(document) if arguments.json else _sentence(sweep_ceiling(sweep_run.sweep(), slo)))
    if interrupted:
        return _INTERRUPTED
    if daemon:
        hand_over(document, daemon)
    return 0


async def _unless_stopped(plan: SweepPlan, sweep_run: SweepRun, progress: Progress) -> bool:
    """Run the sweep; return False when a signal stopped it, with nothing left running on the server."""
    task = asyncio.create_task(run_sweep(plan, sweep_run, progress))
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, task.cancel)
    try:
        await task
    except asyncio.CancelledError:
        sweep_run.notes.append("Interrupted.")
        return False
    except AdvisorError as error:
        helped = f"{error}{hint(error.status)}" if isinstance(error, RefusedError) else str(error)
        if not sweep_run.levels:
            raise EvidenceError(helped) from error
        sweep_run.notes.append(f"Stopped: {helped}.")
    return True


def _daemon(arguments: argparse.Namespace) -> Daemon | None:
    url = daemon_of(arguments)
    return Daemon(url, arguments.deployment, trust_of(arguments)) if url else None


def _written(arguments: argparse.Namespace, sweep_run: SweepRun) -> dict[str, Any]:
    if not sweep_run.levels:
        reason = sweep_run.notes[-1] if sweep_run.notes else "nothing was measured"
        raise EvidenceError(f"no level could be measured: {reason.rstrip('.')}")
    document = sweep_to_document(sweep_run.sweep())
    try:
        arguments.output.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror}", path=arguments.output) from error
    return document


def _sentence(ceiling: LatencyCeiling) -> str:
    target = f"{ceiling.statistic} time per output token of {format_duration(ceiling.slo_tpot_seconds)}"
    if ceiling.sequences is not None:
        return f"latency ceiling {ceiling.sequences} for a {target}"
    if ceiling.high is None:
        return f"latency ceiling not reached: {ceiling.observed_to} users still meet a {target}"
    return f"no latency ceiling: a {target} is missed at {ceiling.high + 1} users already"


def _agree(arguments: argparse.Namespace, endpoint: Endpoint, limits: SweepLimits) -> None:
    """Ask before loading a server, unless told not to."""
    if arguments.yes:
        return
    if not sys.stdin.isatty():
        raise UsageError("is needed where nobody can be asked: a sweep loads the server", key="--yes")
    users = max(limits.levels or (limits.highest,))
    sys.stderr.write(
        f"Load {without_password(endpoint.base)} with up to {users} users at once, for at most "
        f"{format_duration(limits.seconds)} and {limits.tokens:,} output tokens? [y/N] "
    )
    if input().strip().lower() not in {"y", "yes"}:
        raise EvidenceError("not started")
