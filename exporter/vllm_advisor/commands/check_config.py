"""`check-config`: every problem of a configuration file and of the files that it names, with its line."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from vllm_advisor.config import config_problems, load_config
from vllm_advisor.config_files import file_problems

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of `check-config`."""
    parser.add_argument("file", type=Path, metavar="FILE")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(arguments: argparse.Namespace) -> int:
    """Check one file; return 1 when something is wrong with it."""
    problems = config_problems(arguments.file)
    config = None if problems else load_config(arguments.file)
    problems = problems if config is None else file_problems(arguments.file, config)
    if arguments.json:
        listed = [{"line": one.line, "key": one.key, "problem": one.problem} for one in problems]
        print(json.dumps({"file": str(arguments.file), "valid": not problems, "problems": listed}))
    elif problems:
        print(f"FAILED: {arguments.file}", *problems, sep="\n  ")
    else:
        names = ", ".join(one.name for one in load_config(arguments.file).deployments)
        print(f"SUCCESS: {arguments.file} is valid: deployments {names}")
    return 1 if problems else 0
