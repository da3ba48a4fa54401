"""The command line: one sub-command a module of `commands`, imported when it is asked for."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import NoReturn

from vllm_advisor import __version__
from vllm_advisor.errors import AdvisorError, UsageError

__all__ = ["COMMANDS", "main"]

COMMANDS = {
    "serve": "run the daemon",
    "check-config": "validate a configuration file",
    "plan": "work the flags out from a model config, a GPU and flags",
    "contexts": "context percentiles and max-model-len from log files or traces",
    "sweep": "the concurrency sweep against a live endpoint",
    "recommend": "the recommendation to paste, from a running daemon or from captures",
    "replay": "recorded pages and logs through the daemon's own pipeline",
    "demo": "the daemon beside a simulated engine",
}

_SUMMARY = "Recommends --max-model-len and --max-num-seqs for vLLM, from what its engines and logs show."


class _Parser(argparse.ArgumentParser):
    """Tells of wrong usage in one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message.removeprefix('argument ')}\n")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; return 0 answered, 1 wrong input or no answer, 2 wrong usage."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    parser = _Parser(prog="vllm-advisor", description=_SUMMARY)
    parser.add_argument("--version", action="version", version=f"vllm-advisor {__version__}")
    subparsers = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    asked = next((word for word in arguments if not word.startswith("-")), None)
    for name, summary in COMMANDS.items():
        subparser = subparsers.add_parser(name, help=summary, description=summary)
        if name == asked:
            module = import_module(f"vllm_advisor.commands.{name.replace('-', '_')}")
            module.add_arguments(subparser)
            subparser.set_defaults(run=module.run)
    namespace = parser.parse_args(arguments)
    try:
        status: int = namespace.run(namespace)
    except AdvisorError as error:
        sys.stderr.write(f"vllm-advisor {namespace.command}: {error}\n")
        return 2 if isinstance(error, UsageError) else 1
    except BrokenPipeError:
        return 1
    except KeyboardInterrupt:
        return 130
    return status
