"""`recommend`: a recommendation to paste, from a running daemon or from captures."""

from __future__ import annotations

import argparse
import asyncio
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import aiohttp

from vllm_advisor.commands.replay import add_config_arguments, config_of, replay
from vllm_advisor.errors import EvidenceError, InputError, UsageError
from vllm_advisor.web.formats import FORMATS
from vllm_advisor.web.recommendation_json import document

__all__ = ["add_arguments", "run"]

_TIMEOUT_SECONDS = 10.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of `recommend`."""
    parser.add_argument(
        "url", nargs="?", metavar="URL", help="a running daemon, such as http://localhost:10838"
    )
    parser.add_argument(
        "--replay", type=Path, nargs="+", metavar="CAPTURE", help="recorded pages instead of a daemon"
    )
    parser.add_argument("--deployment", help="one deployment; without it, all of them")
    parser.add_argument("--format", choices=list(FORMATS), default="args", help="default %(default)s")
    parser.add_argument("--json", dest="format", action="store_const", const="json", help="as --format json")
    add_config_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print each deployment's recommendation; return 1 where none has a number."""
    if (arguments.url is None) == (arguments.replay is None):
        raise UsageError("give either a daemon's URL or --replay")
    if arguments.url is not None:
        found = asyncio.run(_fetched(arguments.url))
    else:
        found = document(replay(config_of(arguments), arguments.replay))["recommendations"]
    chosen = [one for one in found if arguments.deployment in {None, one["deployment"]}]
    if not chosen and arguments.deployment is None:
        raise EvidenceError("the daemon has not worked out a recommendation yet")
    if not chosen:
        raise InputError(f"there is no deployment {arguments.deployment!r}", key="--deployment")
    if arguments.format != "json" and not any(one["vllm_args"] for one in chosen):
        raise EvidenceError("the evidence does not carry a number for either flag yet")
    print(_written(chosen, arguments.format))
    return 0


def _written(chosen: Sequence[Mapping[str, Any]], form: str) -> str:
    """Write one as it is pasted, several each under its name; as JSON they are one document."""
    if form == "json" and len(chosen) > 1:
        return json.dumps({"recommendations": chosen}, indent=2, allow_nan=False)
    if len(chosen) == 1:
        return FORMATS[form](chosen[0])
    written = [f"# {one['deployment']}\n{FORMATS[form](one)}" for one in chosen if one["vllm_args"]]
    return "\n".join(written)


async def _fetched(url: str) -> list[dict[str, Any]]:
    place = url if "://" in url else f"http://{url}"
    timeout = aiohttp.ClientTimeout(total=_TIMEOUT_SECONDS)
    try:
        async with (
            aiohttp.ClientSession(timeout=timeout) as session,
            session.get(f"{place.rstrip('/')}/api/v1/recommendations", raise_for_status=True) as response,
        ):
            answer = await response.json(content_type=None)
    except (aiohttp.ClientError, TimeoutError, ValueError) as error:
        raise InputError(f"is no running daemon: {error or 'it did not answer in time'}", key=url) from error
    found = answer.get("recommendations") if isinstance(answer, dict) else None
    if not isinstance(found, list):
        raise InputError("answers, but not as a daemon", key=url)
    return found
