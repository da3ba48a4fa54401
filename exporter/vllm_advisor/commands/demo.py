"""`demo`: the daemon beside a simulated engine, nothing else needed."""

from __future__ import annotations

import argparse
import asyncio
import json
from pathlib import Path
from tempfile import TemporaryDirectory

import yaml

from vllm_advisor.commands.serve import add_daemon_arguments, web_options
from vllm_advisor.config import load_config
from vllm_advisor.daemon import DaemonOptions, run_daemon
from vllm_advisor.demo.access_log import FIELDS
from vllm_advisor.demo.engine import EngineSettings
from vllm_advisor.demo.model import ENGINE, MODEL_CONFIG
from vllm_advisor.demo.server import serve_engine
from vllm_advisor.logs import configure_logging
from vllm_advisor.web.served import WebOptions

__all__ = ["add_arguments", "run"]

_SLO = {"tpot": "3ms", "quantile": "mean"}
"""A minute is too short to measure a high percentile."""
_MODEL_CONFIG_FILE = "config.json"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of `demo`."""
    add_daemon_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """Run both until told to stop."""
    configure_logging(log_format=arguments.log_format, level=arguments.log_level)
    with TemporaryDirectory(prefix="vllm-advisor-demo-") as folder:
        asyncio.run(_run(Path(folder), web_options(arguments)))
    return 0


async def _run(folder: Path, options: WebOptions) -> None:
    settings = EngineSettings()
    access_log_path = folder / "access.jsonl"
    async with serve_engine(settings, access_log_path) as target:
        (folder / _MODEL_CONFIG_FILE).write_text(json.dumps(MODEL_CONFIG), encoding="utf-8")
        config_path = folder / "advisor.yml"
        config_path.write_text(_configuration(target, settings, access_log_path), encoding="utf-8")
        await run_daemon(
            load_config(config_path), DaemonOptions(options, config_path), on_listening=_announce
        )


def _announce(url: str) -> None:
    print(
        f"vllm-advisor demo: {url} shows what it makes of a simulated engine; Ctrl-C stops both.", flush=True
    )


def _configuration(target: str, settings: EngineSettings, access_log_path: Path) -> str:
    """Return a configuration as one would write it for such an engine, but for the demo's quicker time."""
    deployment = {
        "name": "demo",
        "slo": _SLO,
        "engine": {"max_num_seqs": settings.max_num_seqs, "model_config": _MODEL_CONFIG_FILE} | ENGINE,
        "static_configs": [{"targets": [target]}],
        "access_logs": [{"paths": [str(access_log_path)], "format": "json", "fields": FIELDS}],
    }
    configuration = {
        "global": {"scrape_interval": "500ms", "scrape_timeout": "500ms", "evaluation_interval": "5s"},
        "storage": {"path": "data"},
        "deployments": [deployment],
    }
    return yaml.safe_dump(configuration, sort_keys=False)
