"""`sweep`: the active concurrency sweep against a live OpenAI-compatible endpoint."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import sys
from dataclasses import replace
from pathlib import Path

from vllm_advisor.addresses import without_password
from vllm_advisor.ceilings.latency import LatencyCeiling, sweep_ceiling
from vllm_advisor.commands.flag_sections import slo_of
from vllm_advisor.commands.sweep_endpoint import find_endpoint, hand_over, refuse_when_busy
from vllm_advisor.config import AccessLogConfig, SloConfig
from vllm_advisor.errors import AdvisorError, EvidenceError, InputError, UsageError
from vllm_advisor.sources.access_logs import read_requests
from vllm_advisor.sources.load.endpoint import Endpoint
from vllm_advisor.sources.load.requests import RequestSource
from vllm_advisor.sources.load.sweep import SweepLimits, SweepPlan, SweepRun, run_sweep
from vllm_advisor.sources.sweep_file import SweepLevel, sweep_to_document
from vllm_advisor.units import format_duration, parse_duration_seconds

__all__ = ["add_arguments", "run"]

_INTERRUPTED = 130


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of `sweep`."""
    parser.add_argument("url", metavar="URL", help="the server, such as http://localhost:8000")
    parser.add_argument("--slo.tpot", dest="slo_tpot", default="40ms", help="target per output token (40ms)")
    parser.add_argument("--slo.quantile", dest="slo_quantile", default="0.99", help="mean, or 0.5 to 0.999")
    _add_request_arguments(parser.add_argument_group("requests"))
    _add_limit_arguments(parser.add_argument_group("how far"))
    output = parser.add_argument_group("output")
    output.add_argument("--output", type=Path, default=Path("sweep.json"), help="the sweep file (sweep.json)")
    output.add_argument("--json", action="store_true", help="print the sweep file's JSON too")
    output.add_argument("--daemon", metavar="URL", help="hand the sweep to a running daemon")
    output.add_argument("--deployment", default="default", help="whose sweep it is, there (default)")


def _add_request_arguments(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--model", help="the model's name (the first of /v1/models)")
    group.add_argument("--chat", action="store_true", help="chat completions instead of completions")
    group.add_argument("--api-key-env", metavar="NAME", help="environment variable with the API key")
    group.add_argument(
        "--no-ignore-eos", action="store_true", help="for endpoints that refuse vLLM's ignore_eos"
    )
    group.add_argument("--prompt-tokens", type=int, default=512, help="of every request (512)")
    group.add_argument("--output-tokens", type=int, default=128, help="of every request (128)")
    group.add_argument("--trace", type=Path, help="draw both from a log or trace that `contexts` reads")


def _add_limit_arguments(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--levels", help="concurrencies, such as 1,2,4,8 (doubling until the target is missed)"
    )
    group.add_argument("--max-concurrency", type=int, default=256, help="(256)")
    group.add_argument(
        "--refine", action=argparse.BooleanOptionalAction, default=True, help="halve the bracket"
    )
    group.add_argument("--requests", type=int, default=60, help="measured at each level at least (60)")
    group.add_argument("--level-time", default="60s", help="the most a level takes after its warm-up (60s)")
    group.add_argument("--max-time", default="30m", help="the most in all (30m)")
    group.add_argument("--max-tokens", type=int, default=2_000_000, help="the most output tokens in all")
    group.add_argument("--yes", action="store_true", help="do not ask before loading the server")
    group.add_argument("--force", action="store_true", help="even where the engine serves other traffic")


def run(arguments: argparse.Namespace) -> int:
    """Sweep, write the file, print the ceiling.

    Raises:
        UsageError: a flag is wrong.
        InputError: the endpoint refuses the requests.
        EvidenceError: the endpoint cannot be reached, serves others, or no level could be measured.
    """
    slo = slo_of(arguments.slo_tpot, arguments.slo_quantile)
    limits, lengths = _limits(arguments), _lengths(arguments)
    endpoint, longest_tokens = find_endpoint(_named_endpoint(arguments))
    _agree(arguments, endpoint, limits)
    if not arguments.force:
        refuse_when_busy(endpoint)
    facts = {"url": without_password(endpoint.base), "model": endpoint.model}
    sweep_run = SweepRun(facts=facts)
    plan = SweepPlan(endpoint, RequestSource(lengths, longest_tokens), slo, limits)
    interrupted = not asyncio.run(_unless_stopped(plan, sweep_run))
    _report(arguments, slo, sweep_run)
    return _INTERRUPTED if interrupted else 0


async def _unless_stopped(plan: SweepPlan, sweep_run: SweepRun) -> bool:
    """Run the sweep; return False when a signal stopped it, with nothing left running on the server."""
    task = asyncio.create_task(run_sweep(plan, sweep_run, _print_level))
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, task.cancel)
    try:
        await task
    except asyncio.CancelledError:
        sweep_run.notes.append("Interrupted.")
        return False
    except AdvisorError as error:
        if not sweep_run.levels:
            raise
        sweep_run.notes.append(f"Stopped: {error}.")
    return True


def _report(arguments: argparse.Namespace, slo: SloConfig, sweep_run: SweepRun) -> None:
    for note in sweep_run.notes:
        sys.stderr.write(f"{note}\n")
    if not sweep_run.levels:
        reason = sweep_run.notes[-1] if sweep_run.notes else "nothing was measured"
        raise EvidenceError(f"no level could be measured: {reason.rstrip('.')}")
    sweep = sweep_run.sweep()
    document = sweep_to_document(sweep)
    try:
        arguments.output.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror}", path=arguments.output) from error
    if arguments.json:
        print(json.dumps(document))
    else:
        print(_sentence(sweep_ceiling(sweep, slo)))
    if arguments.daemon:
        hand_over(document, arguments.daemon, arguments.deployment)


def _sentence(ceiling: LatencyCeiling) -> str:
    target = f"{ceiling.statistic} time per output token of {format_duration(ceiling.slo_tpot_seconds)}"
    if ceiling.sequences is not None:
        return f"latency ceiling {ceiling.sequences} for a {target}"
    if ceiling.high is None:
        return f"latency ceiling not reached: {ceiling.observed_to} users still meet a {target}"
    return f"no latency ceiling: a {target} is missed at {ceiling.high + 1} users already"


def _print_level(level: SweepLevel) -> None:
    tpot = {name: f"{seconds * 1000:.1f}" for name, seconds in level.tpot_seconds.items()}
    sys.stderr.write(
        f"{level.concurrency:>5} users: time per output token mean {tpot['mean']} ms, p99 {tpot['p99']} ms; "
        f"p99 to first token {level.ttft_p99_seconds or 0:.2f} s; "
        f"{level.output_tokens_per_second or 0:.0f} tokens/s; {level.requests} requests\n"
    )


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


def _named_endpoint(arguments: argparse.Namespace) -> Endpoint:
    key = None
    if arguments.api_key_env:
        key = os.environ.get(arguments.api_key_env)
        if not key:
            raise InputError(f"the environment has no {arguments.api_key_env}", key="--api-key-env")
    plain = Endpoint(arguments.url, arguments.model or "", chat=arguments.chat, api_key=key)
    return replace(plain, ignore_eos=not arguments.no_ignore_eos)


def _limits(arguments: argparse.Namespace) -> SweepLimits:
    return SweepLimits(
        levels=_levels(arguments.levels) if arguments.levels else None,
        highest=_positive(arguments.max_concurrency, "--max-concurrency"),
        refine=arguments.refine,
        requests=_positive(arguments.requests, "--requests"),
        level_seconds=_seconds(arguments.level_time, "--level-time"),
        seconds=_seconds(arguments.max_time, "--max-time"),
        tokens=_positive(arguments.max_tokens, "--max-tokens"),
    )


def _levels(text: str) -> list[int]:
    try:
        levels = sorted({int(part) for part in text.split(",")})
    except ValueError as error:
        raise UsageError(f"expected whole numbers such as 1,2,4,8, not {text!r}", key="--levels") from error
    if levels[0] < 1:
        raise UsageError("expected levels of at least 1", key="--levels")
    return levels


def _seconds(text: str, key: str) -> float:
    try:
        return parse_duration_seconds(text)
    except ValueError as error:
        raise UsageError(str(error), key=key) from error


def _positive(number: int, key: str) -> int:
    if number < 1:
        raise UsageError(f"expected at least 1, not {number}", key=key)
    return number


def _lengths(arguments: argparse.Namespace) -> list[tuple[int, int]]:
    if not arguments.trace:
        prompt = _positive(arguments.prompt_tokens, "--prompt-tokens")
        return [(prompt, _positive(arguments.output_tokens, "--output-tokens"))]
    log = AccessLogConfig(paths=(str(arguments.trace),))
    lengths = [
        (request.prompt_tokens, request.output_tokens)
        for request in read_requests(log)
        if request.prompt_tokens and request.output_tokens
    ]
    if not lengths:
        raise InputError("holds no request with its token counts", path=arguments.trace)
    return lengths
