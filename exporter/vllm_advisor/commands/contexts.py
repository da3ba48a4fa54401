"""`contexts`: context percentiles and max-model-len from log files or traces."""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from vllm_advisor.ceilings.context_limit import ContextLimit, TradeoffRow, context_limit
from vllm_advisor.commands.contexts_reading import read_logs
from vllm_advisor.commands.flag_sections import validated
from vllm_advisor.commands.flag_types import count
from vllm_advisor.config import AccessLogConfig, ContextConfig
from vllm_advisor.errors import EvidenceError, UsageError
from vllm_advisor.evidence.lengths import ContextSnapshot
from vllm_advisor.sources.access_logs import REJECTED, Outcome

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of `contexts`."""
    told = "logs or traces; .gz, .zst and .parquet too; - is standard input"
    parser.add_argument("files", type=Path, nargs="+", metavar="FILE", help=told)
    parser.add_argument("--quantile", type=float, default=0.999, help="the percentile to fit (0.999)")
    parser.add_argument("--margin", type=float, default=0.25, help="added on top (0.25)")
    parser.add_argument("--round-up-to", type=int, default=1024, metavar="TOKENS", help="(1024)")
    parser.add_argument("--format", default="auto", help="a format's name (auto: by its lines)")
    parser.add_argument(
        "--field",
        action="append",
        default=[],
        metavar="NAME=PATH",
        help="where a field is, such as prompt_tokens=usage.input",
    )
    parser.add_argument("--pattern", help="with --format=regex: its named groups are the fields")
    parser.add_argument("--model", action="append", default=[], help="count only this model's requests")
    parser.add_argument(
        "--match", action="append", default=[], metavar="PATH=VALUE", help="count only lines with this value"
    )
    parser.add_argument("--max-model-len", type=count, help="today's limit, to tell what it refuses and cuts")
    parser.add_argument(
        "--kv-tokens",
        type=count,
        metavar="TOKENS",
        help="the engine's KV pool, to tell the memory ceiling of each choice",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(arguments: argparse.Namespace) -> int:
    """Read the files and print.

    Raises:
        InputError: a file cannot be read.
        UsageError: a flag is wrong.
        EvidenceError: no request with token counts was found.
    """
    context = validated(
        ContextConfig,
        {
            "quantile": arguments.quantile,
            "margin": arguments.margin,
            "round_up_to": arguments.round_up_to,
        },
        {"quantile": "--quantile", "margin": "--margin", "round_up_to": "--round-up-to"},
    )
    tally = read_logs(_access_log(arguments))
    snapshot, counts = tally.lengths.snapshot(0.0), +tally.counts
    if not snapshot.requests:
        found = ", ".join(f"{count} {outcome}" for outcome, count in counts.items()) or "nothing"
        raise EvidenceError(f"no request with token counts; found {found}")
    limit = context_limit(
        snapshot, context, configured_max_model_len=arguments.max_model_len, model_max_len=None
    )
    rows = [_choice(row, arguments.kv_tokens) for row in limit.tradeoff]
    if arguments.json:
        print(json.dumps(_document(snapshot, limit, counts) | {"tradeoff": rows}, allow_nan=False))
    else:
        _print(snapshot, limit, counts)
        _print_choices(rows)
    return 0


def _choice(row: TradeoffRow, kv_tokens: int | None) -> dict[str, Any]:
    """Return a row of the trade-off, where the pool is known with how many sequences it holds."""
    held = {} if kv_tokens is None else {"memory_ceiling": kv_tokens // row.max_model_len}
    return asdict(row) | held


def _access_log(arguments: argparse.Namespace) -> AccessLogConfig:
    values = {
        "paths": tuple(map(str, arguments.files)),
        "format": arguments.format,
        "fields": _pairs(arguments.field, "--field"),
        "models": tuple(arguments.model),
        "match": _pairs(arguments.match, "--match"),
        "pattern": arguments.pattern,
    }
    flags = {"fields": "--field", "models": "--model"}
    return validated(AccessLogConfig, values, {key: flags.get(key, f"--{key}") for key in values})


def _pairs(texts: Sequence[str], flag: str) -> dict[str, str]:
    pairs = [text.partition("=") for text in texts]
    if wrong := next((text for text, pair in zip(texts, pairs, strict=True) if not pair[1]), None):
        raise UsageError(f"expected NAME=VALUE, not {wrong!r}", key=flag)
    return {name: value for name, _, value in pairs}


def _document(snapshot: ContextSnapshot, limit: ContextLimit, counts: Counter[Outcome]) -> dict[str, Any]:
    return {
        "requests": snapshot.requests,
        "p50": limit.p50,
        "p90": limit.p90,
        "p99": limit.p99,
        "p999": limit.p999,
        "max": snapshot.longest_tokens,
        "recommended_max_model_len": limit.max_model_len,
        "rejected_lines": sum(counts[outcome] for outcome in REJECTED),
    }


def _print(snapshot: ContextSnapshot, limit: ContextLimit, counts: Counter[Outcome]) -> None:
    quantiles = f"p50 {limit.p50:.0f}, p90 {limit.p90:.0f}, p99 {limit.p99:.0f}, p999 {limit.p999:.0f}"
    print(f"{'requests':16} {snapshot.requests}")
    print(f"{'tokens':16} {quantiles}, longest {snapshot.longest_tokens}")
    print(f"{'lines':16} {', '.join(f'{count} {outcome}' for outcome, count in counts.items())}")
    recommended = "none" if limit.max_model_len is None else limit.max_model_len
    print(
        f"{'--max-model-len':16} {recommended} ({limit.grade}{': ' + limit.reason if limit.reason else ''})"
    )


def _print_choices(rows: Sequence[Mapping[str, Any]]) -> None:
    for row in rows:
        daily = row["requests_over_per_day"]
        each_day = "" if daily is None else f", {daily:.1f} a day"
        memory = f"; {row['memory_ceiling']} sequences in memory" if "memory_ceiling" in row else ""
        at = f"at {row['quantile'] * 100:g}%"
        print(f"{at:16} {row['max_model_len']}: {row['requests_over']} requests over it{each_day}{memory}")
