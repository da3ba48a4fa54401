"""`serve`: the daemon."""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path

from vllm_advisor.config import config_for_target, load_config
from vllm_advisor.daemon import DaemonOptions, run_daemon
from vllm_advisor.errors import UsageError
from vllm_advisor.logs import FORMATS, LEVELS, configure_logging
from vllm_advisor.shard import parse_shard
from vllm_advisor.web.served import DEFAULT_LISTEN_ADDRESS, WebOptions

__all__ = ["add_arguments", "add_daemon_arguments", "run", "web_options"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of `serve`."""
    parser.add_argument("--config.file", dest="config_file", type=Path, help="configuration file")
    parser.add_argument("--target", help="one engine instead of a file: host:port or http://host:port")
    parser.add_argument(
        "--slo.tpot", dest="slo_tpot", help="with --target: time per output token, such as 40ms"
    )
    add_daemon_arguments(parser)


def add_daemon_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags that every command which runs the daemon takes."""
    parser.add_argument(
        "--web.listen-address",
        dest="listen_address",
        default=DEFAULT_LISTEN_ADDRESS,
        help="host:port to listen on (default %(default)s)",
    )
    parser.add_argument(
        "--web.config.file",
        dest="web_config",
        type=Path,
        help="TLS and users, as other exporters take it",
    )
    parser.add_argument(
        "--web.external-url",
        dest="external_url",
        help="where people reach it; its path comes first in ours",
    )
    parser.add_argument(
        "--web.enable-lifecycle", dest="lifecycle", action="store_true", help="allow POST /-/reload"
    )
    parser.add_argument(
        "--web.enable-api-writes",
        dest="api_writes",
        action="store_true",
        help="let the API take sweeps and access-log lines",
    )
    parser.add_argument(
        "--shard", default="1/1", metavar="K/N", help="take the Kth of N shares of the deployments, by hash"
    )
    parser.add_argument("--log.level", dest="log_level", choices=LEVELS, default="info")
    parser.add_argument("--log.format", dest="log_format", choices=FORMATS, default="auto")


def web_options(arguments: argparse.Namespace) -> WebOptions:
    """Return what the flags say of serving."""
    return WebOptions(
        listen_address=arguments.listen_address,
        external_url=arguments.external_url,
        web_config_path=arguments.web_config,
        lifecycle=arguments.lifecycle,
        api_writes=arguments.api_writes,
    )


def run(arguments: argparse.Namespace) -> int:
    """Run the daemon until it is told to stop."""
    configure_logging(log_format=arguments.log_format, level=arguments.log_level)
    if (arguments.config_file is None) == (arguments.target is None):
        raise UsageError("give either --config.file or --target")
    if arguments.target is None and arguments.slo_tpot is not None:
        raise UsageError("goes with --target: a configuration file has its own", key="--slo.tpot")
    if arguments.target is not None:
        config = config_for_target(arguments.target, slo_tpot=arguments.slo_tpot)
    else:
        config = load_config(arguments.config_file)
    options = DaemonOptions(web_options(arguments), arguments.config_file, parse_shard(arguments.shard))
    asyncio.run(run_daemon(config, options))
    return 0
