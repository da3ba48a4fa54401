"""`serve`: the daemon."""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path

from vllm_advisor.config import config_for_target, load_config
from vllm_advisor.daemon import DEFAULT_LISTEN_ADDRESS, DaemonOptions, run_daemon
from vllm_advisor.errors import InputError
from vllm_advisor.logs import FORMATS, LEVELS, configure_logging

__all__ = ["add_arguments", "add_daemon_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of `serve`."""
    parser.add_argument("--config.file", dest="config_file", type=Path, help="configuration file")
    parser.add_argument("--target", help="one engine instead of a file: host:port or http://host:port")
    parser.add_argument(
        "--slo.tpot", dest="slo_tpot", help="with --target: time per output token, such as 40ms"
    )
    parser.add_argument(
        "--web.enable-lifecycle", dest="lifecycle", action="store_true", help="allow POST /-/reload"
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
    parser.add_argument("--log.level", dest="log_level", choices=LEVELS, default="info")
    parser.add_argument("--log.format", dest="log_format", choices=FORMATS, default="auto")


def run(arguments: argparse.Namespace) -> int:
    """Run the daemon until it is told to stop."""
    configure_logging(log_format=arguments.log_format, level=arguments.log_level)
    if (arguments.config_file is None) == (arguments.target is None):
        raise InputError("give either --config.file or --target")
    if arguments.target is not None:
        config = config_for_target(arguments.target, slo_tpot=arguments.slo_tpot)
    else:
        config = load_config(arguments.config_file)
    options = DaemonOptions(arguments.listen_address, arguments.config_file, arguments.lifecycle)
    asyncio.run(run_daemon(config, options))
    return 0
