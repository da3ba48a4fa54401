"""The flags of `sweep`, and what they come to."""

from __future__ import annotations

import argparse
import os
import ssl
from pathlib import Path
from urllib.parse import urlsplit

from vllm_advisor.config import AccessLogConfig
from vllm_advisor.config_discovery import TlsConfig
from vllm_advisor.errors import InputError, UsageError
from vllm_advisor.sources.access_logs import read_requests
from vllm_advisor.sources.http_client import tls_context
from vllm_advisor.sources.load.endpoint import Endpoint
from vllm_advisor.sources.load.sweep import SweepLimits
from vllm_advisor.units import parse_duration_seconds

__all__ = [
    "add_arguments",
    "daemon_of",
    "endpoint_of",
    "lengths_of",
    "limits_of",
    "refuse_unwritable",
    "trust_of",
]

_SCHEMES = {"http", "https"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of `sweep`."""
    parser.add_argument("url", metavar="URL", help="the server, such as http://localhost:8000")
    parser.add_argument("--slo.tpot", dest="slo_tpot", default="40ms", help="target per output token (40ms)")
    parser.add_argument("--slo.quantile", dest="slo_quantile", default="0.99", help="mean, or 0.5 to 0.999")
    _add_request_arguments(parser.add_argument_group("requests"))
    _add_limit_arguments(parser.add_argument_group("how far"))
    output = parser.add_argument_group("output")
    output.add_argument("--output", type=Path, default=Path("sweep.json"), help="the sweep file (sweep.json)")
    output.add_argument("--json", action="store_true", help="print the sweep file's JSON, and no progress")
    output.add_argument("--daemon", metavar="URL", help="hand the sweep to a running daemon")
    output.add_argument("--deployment", default="default", help="whose sweep it is, there (default)")


def _add_request_arguments(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--model", help="the model's name (the first of /v1/models)")
    group.add_argument("--chat", action="store_true", help="chat completions instead of completions")
    group.add_argument("--api-key-env", metavar="NAME", help="environment variable with the API key")
    group.add_argument("--ca-file", type=Path, help="trust these authorities (https), the daemon's too")
    group.add_argument("--insecure-skip-verify", action="store_true", help="trust any certificate (https)")
    group.add_argument("--no-ignore-eos", action="store_true", help="let the model end its outputs itself")
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


def endpoint_of(arguments: argparse.Namespace) -> Endpoint:
    """Return the endpoint as the flags name it, its model still unnamed where they do not.

    Raises:
        UsageError: the address is none.
        InputError: the environment lacks the key, or the authorities cannot be read.
    """
    key = None
    if arguments.api_key_env:
        key = os.environ.get(arguments.api_key_env, "").strip()
        if not key:
            raise InputError(f"the environment has no {arguments.api_key_env}", key="--api-key-env")
    return Endpoint(
        _address(arguments.url, "URL"),
        arguments.model or "",
        chat=arguments.chat,
        api_key=key,
        ignore_eos=not arguments.no_ignore_eos,
        tls=trust_of(arguments),
    )


def trust_of(arguments: argparse.Namespace) -> ssl.SSLContext | bool:
    """Return whom to trust, True for the system's authorities.

    Raises:
        InputError: the authorities cannot be read.
    """
    if not (arguments.ca_file or arguments.insecure_skip_verify):
        return True
    config = TlsConfig(ca_file=arguments.ca_file, insecure_skip_verify=arguments.insecure_skip_verify)
    try:
        return tls_context(config)
    except OSError as error:
        problem = f"cannot be read as certificates: {error.strerror or error}"
        raise InputError(problem, path=arguments.ca_file, key="--ca-file") from error


def daemon_of(arguments: argparse.Namespace) -> str | None:
    """Return the daemon's address, None without one.

    Raises:
        UsageError: it is none.
    """
    return _address(arguments.daemon, "--daemon") if arguments.daemon else None


def limits_of(arguments: argparse.Namespace) -> SweepLimits:
    """Return how far to go.

    Raises:
        UsageError: a flag is wrong.
    """
    return SweepLimits(
        levels=_levels(arguments.levels) if arguments.levels else None,
        highest=_positive(arguments.max_concurrency, "--max-concurrency"),
        refine=arguments.refine,
        requests=_positive(arguments.requests, "--requests"),
        level_seconds=_seconds(arguments.level_time, "--level-time"),
        seconds=_seconds(arguments.max_time, "--max-time"),
        tokens=_positive(arguments.max_tokens, "--max-tokens"),
    )


def lengths_of(arguments: argparse.Namespace) -> list[tuple[int, int]]:
    """Return the (prompt, output) tokens to draw from.

    Raises:
        UsageError: a flag is wrong.
        InputError: the trace cannot be read, or holds no lengths.
    """
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


def refuse_unwritable(path: Path) -> None:
    """Refuse an output that could not be written once everything is measured.

    Raises:
        InputError: it cannot be written.
    """
    if path.is_dir():
        raise InputError("is a folder", path=path, key="--output")
    if not path.parent.is_dir():
        raise InputError("is in no folder that exists", path=path, key="--output")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise InputError("cannot be written", path=path, key="--output")


def _address(text: str, key: str) -> str:
    address = text if "://" in text else f"http://{text}"
    try:
        parts = urlsplit(address)
        is_one = parts.scheme in _SCHEMES and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_one = False
    if not is_one:
        raise UsageError("expected an address such as http://localhost:8000", key=key)
    return address.rstrip("/")


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
