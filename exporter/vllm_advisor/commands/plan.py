"""``plan``: the arithmetic alone, from a model config, a GPU and flags to both flags' values."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING

from vllm_advisor.ceilings.pool import predict_pool
from vllm_advisor.commands.flag_types import count, margin
from vllm_advisor.commands.plan_answer import PlanQuestion, answer_plan
from vllm_advisor.commands.plan_flags import (
    add_engine_arguments,
    engine_flags,
    pool_inputs,
    refuse_uneven_heads,
)
from vllm_advisor.commands.plan_text import plan_text
from vllm_advisor.errors import EvidenceError, InputError, UsageError
from vllm_advisor.sources.model_config import read_model_config
from vllm_advisor.sources.startup_log import StartupReport, read_startup_log

if TYPE_CHECKING:
    from vllm_advisor.ceilings.latency import LatencyCeiling

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags: vLLM's own names, so that a command line can be pasted."""
    add_engine_arguments(parser)
    report = parser.add_argument_group("what the engine reported, to compare with")
    report.add_argument(
        "--startup-log", type=Path, metavar="FILE", help="its log, a directory of rotated logs"
    )
    report.add_argument("--kv-tokens", type=count, metavar="N", help="the tokens of its KV cache line")
    traffic = parser.add_argument_group("what the traffic needs")
    traffic.add_argument(
        "--context-tokens", type=count, metavar="N", help="a high percentile of request lengths"
    )
    traffic.add_argument("--margin", type=margin, default=0.25, help="added on top of it (default 0.25)")
    traffic.add_argument("--round-up-to", type=count, default=1024, metavar="N", help="tokens (default 1024)")
    traffic.add_argument("--sweep", type=Path, metavar="FILE", help="a measured sweep, JSON or CSV")
    traffic.add_argument("--slo.tpot", dest="slo_tpot", metavar="DURATION", help="target, such as 40ms")
    traffic.add_argument(
        "--slo.quantile", dest="slo_quantile", default="0.99", metavar="Q", help="mean, or 0.5 to 0.999"
    )
    parser.add_argument("--json", action="store_true", help="print the answer as JSON")


def run(arguments: argparse.Namespace) -> int:
    """Answer.

    Raises:
        InputError: a file or a flag is wrong.
        EvidenceError: a cap was to be worked out, and there is none; what there is has been printed.
    """
    latency = _latency_ceiling(arguments) if arguments.sweep else None
    report = _report(arguments.startup_log) if arguments.startup_log else StartupReport()
    model = read_model_config(arguments.model_config)
    flags = engine_flags(arguments, report, model)
    refuse_uneven_heads(flags, model)
    prediction = predict_pool(model, flags, pool_inputs(arguments, report))
    answer = answer_plan(prediction, _question(arguments, report, latency))
    if arguments.json:
        print(json.dumps(answer.to_json(), indent=2))
    else:
        print(plan_text(answer, report))
    if answer.lack:
        raise EvidenceError(f"no --max-num-seqs: {answer.lack}")
    return 0


def _report(path: Path) -> StartupReport:
    report = read_startup_log(path)
    if report.is_empty:
        raise InputError("tells of no engine's start", path=path)
    return report


def _question(
    arguments: argparse.Namespace, report: StartupReport, latency: LatencyCeiling | None
) -> PlanQuestion:
    length = arguments.max_model_len or report.max_model_len
    return PlanQuestion(
        max_model_len=length,
        context_tokens=arguments.context_tokens,
        margin_ratio=arguments.margin,
        round_up_to_tokens=arguments.round_up_to,
        engine_tokens=arguments.kv_tokens or report.kv_tokens,
        reported_len_tokens=report.max_model_len or (length if length != -1 else None),
        latency=latency,
        said=(*_of_the_length(arguments), *_of_the_log(report)),
    )


def _of_the_length(arguments: argparse.Namespace) -> tuple[str, ...]:
    if arguments.max_model_len is None or arguments.context_tokens is None:
        return ()
    return ("--context-tokens was used: the length follows from it, and not from --max-model-len.",)


def _of_the_log(report: StartupReport) -> tuple[str, ...]:
    if not report.refused:
        return ()
    needed, available = (
        "an unknown size" if size is None else f"{size / 2**30:.2f} GiB"
        for size in (report.needed_bytes, report.available_bytes)
    )
    longest = f"; it could have served {report.longest_tokens:,} tokens" if report.longest_tokens else ""
    return (f"The engine refused to start: one sequence needs {needed} of {available}{longest}.",)


def _latency_ceiling(arguments: argparse.Namespace) -> LatencyCeiling:
    """Find where a sweep crosses the target; the modules for it are loaded only here."""
    from vllm_advisor.ceilings.latency import sweep_ceiling  # noqa: PLC0415
    from vllm_advisor.commands.flag_sections import slo_of  # noqa: PLC0415
    from vllm_advisor.sources.sweep_file import read_sweep  # noqa: PLC0415

    if arguments.slo_tpot is None:
        raise UsageError("is needed with --sweep, such as 40ms", key="--slo.tpot")
    sweep = read_sweep(arguments.sweep)
    ceiling = sweep_ceiling(sweep, slo_of(arguments.slo_tpot, arguments.slo_quantile))
    if not ceiling.curve:
        has = sorted({f"tpot_{statistic}" for level in sweep.levels for statistic in level.tpot_seconds})
        column = f"tpot_{ceiling.statistic.replace('.', '')}"
        raise InputError(
            f"is missing for this --slo.quantile; there is {', '.join(has)}", path=arguments.sweep, key=column
        )
    return ceiling
