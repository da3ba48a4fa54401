"""The long-running daemon: schedule, session, signals, reload, graceful stop."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import structlog
from aiohttp import web
from apscheduler.schedulers.asyncio import AsyncIOScheduler

from vllm_advisor.ceilings.recommendation import Recommendation
from vllm_advisor.clock import SteadyClock
from vllm_advisor.config import AdvisorConfig, load_config
from vllm_advisor.errors import AdvisorError, InputError
from vllm_advisor.pipeline import DeploymentPipeline
from vllm_advisor.scraper import Scraper, Target
from vllm_advisor.sources.scrape import new_session
from vllm_advisor.web.served import Served
from vllm_advisor.web.server import build_app
from vllm_advisor.web.telemetry import Telemetry

__all__ = ["DEFAULT_LISTEN_ADDRESS", "Daemon", "DaemonOptions", "run_daemon"]

DEFAULT_LISTEN_ADDRESS = ":10838"

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class DaemonOptions:
    """What the command line says beside the configuration.

    Args:
        listen_address: ``host:port``; no host means all of them, port 0 any free one.
        config_path: where a reload reads the configuration, None when it came from flags.
        lifecycle: whether ``POST /-/reload`` is allowed.
    """

    listen_address: str = DEFAULT_LISTEN_ADDRESS
    config_path: Path | None = None
    lifecycle: bool = False


async def run_daemon(
    config: AdvisorConfig,
    options: DaemonOptions,
    *,
    on_listening: Callable[[str], None] | None = None,
) -> None:
    """Run until SIGTERM or SIGINT.

    Args:
        config: where to look and what to hold the evidence against.
        options: how to serve.
        on_listening: is told the daemon's URL once it answers.

    Raises:
        InputError: a file that the configuration names, or the listen address, cannot be used.
    """
    daemon = Daemon(config, options)
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    loop.add_signal_handler(signal.SIGHUP, daemon.reload)
    try:
        url = await daemon.start()
        if on_listening:
            on_listening(url)
        await stopping.wait()
    finally:
        await daemon.stop()


class Daemon:
    """The daemon's parts, started and stopped together."""

    def __init__(self, config: AdvisorConfig, options: DaemonOptions) -> None:
        self._config = config
        self._options = options
        self._clock = SteadyClock()
        self._telemetry = Telemetry()
        self._pipelines = {one.name: DeploymentPipeline(one) for one in config.deployments}
        self._targets = [
            Target(name, pipeline)
            for pipeline in self._pipelines.values()
            for name in pipeline.config.targets
        ]
        self._recommendations: dict[str, Recommendation] = {}
        self._changed_seconds: dict[str, float] = {}
        self._failing: set[str] = set()
        self._scheduler = AsyncIOScheduler(
            job_defaults={"coalesce": True, "max_instances": 1, "misfire_grace_time": None}
        )
        self._session: aiohttp.ClientSession | None = None
        self._scraper: Scraper | None = None
        self._runner: web.AppRunner | None = None

    async def start(self) -> str:
        """Begin to serve and to scrape; return the URL."""
        self._session = new_session(len(self._targets))
        self._scraper = Scraper(self._session, self._config.global_, self._telemetry, self._clock)
        url = await self._listen()
        self._loaded()
        self._schedule()
        self._scheduler.start()
        log.info("listening", url=url, deployments=len(self._pipelines), targets=len(self._targets))
        return url

    async def stop(self) -> None:
        """Stop within a second."""
        if self._scheduler.running:
            self._scheduler.shutdown(wait=False)
        for target in self._targets:
            if target.scraping:
                target.scraping.cancel()
        if self._runner:
            await self._runner.cleanup()
        if self._session:
            await self._session.close()
        log.info("stopped")

    def reload(self) -> str | None:
        """Load the configuration again, all of it or nothing; return what was wrong."""
        path = self._options.config_path
        if path is None:
            return "there is no configuration file: the daemon was started from flags"
        try:
            config = load_config(path)
            pipelines = {one.name: DeploymentPipeline(one) for one in config.deployments}
        except AdvisorError as error:
            self._telemetry.reload_successful.set(0)
            log.warning("reload failed, the earlier configuration stays", problem=str(error))
            return str(error)
        self._replace(config, pipelines)
        self._loaded()
        log.info("reloaded", deployments=len(pipelines), targets=len(self._targets))
        return None

    def _replace(self, config: AdvisorConfig, pipelines: dict[str, DeploymentPipeline]) -> None:
        for name, pipeline in pipelines.items():
            if name in self._pipelines:
                pipeline.adopt(self._pipelines[name])
        kept = {(target.pipeline.config.name, target.name): target for target in self._targets}
        self._targets = []
        for name, pipeline in pipelines.items():
            for target_name in pipeline.config.targets:
                target = kept.pop((name, target_name), Target(target_name, pipeline))
                target.pipeline = pipeline
                self._targets.append(target)
        if self._scraper:
            for gone in kept.values():
                self._scraper.forget(gone)
            self._scraper.limits = config.global_
        self._config, self._pipelines = config, pipelines
        for known in (self._recommendations, self._changed_seconds):
            for name in known.keys() - pipelines.keys():
                del known[name]
        self._schedule()

    def _loaded(self) -> None:
        self._telemetry.reload_successful.set(1)
        self._telemetry.reload_success_timestamp_seconds.set(self._clock.now_seconds())

    def _schedule(self) -> None:
        intervals = self._config.global_
        jobs: dict[str, tuple[Callable[[], Any], float]] = {
            "scrape": (self._scrape, intervals.scrape_interval_seconds),
            "evaluate": (self._evaluate, intervals.evaluation_interval_seconds),
        }
        for name, (job, seconds) in jobs.items():
            self._scheduler.add_job(job, "interval", seconds=seconds, id=name, replace_existing=True)
        self._scheduler.add_job(self._scrape, id="first scrape", replace_existing=True)

    async def _scrape(self) -> None:
        if self._scraper:
            self._scraper.scrape_all(self._targets)

    async def _evaluate(self) -> None:
        step_seconds = self._clock.follow_step()
        if step_seconds:
            log.warning("the clock stepped, intervals across it are left out", seconds=round(step_seconds, 3))
        for name, pipeline in list(self._pipelines.items()):
            if step_seconds:
                pipeline.evidence.break_intervals()
            self._evaluate_one(name, pipeline)
            await asyncio.sleep(0)

    def _evaluate_one(self, name: str, pipeline: DeploymentPipeline) -> None:
        now_seconds = self._clock.now_seconds()
        try:
            recommendation = pipeline.recommend(now_seconds)
        except Exception:  # one deployment's fault must not silence the others
            if name not in self._failing:
                log.exception("evaluation failed, the last recommendation stays", deployment=name)
            self._failing.add(name)
            return
        self._failing.discard(name)
        before = self._recommendations.get(name)
        flags = _flags(recommendation)
        if before is None or _flags(before) != flags:
            self._changed_seconds[name] = now_seconds
            log.info("recommendation", deployment=name, binding=str(recommendation.binding), **flags)
        self._recommendations[name] = recommendation

    async def _listen(self) -> str:
        served = Served(
            telemetry=self._telemetry,
            recommendations=lambda: self._recommendations,
            changed_seconds=lambda: self._changed_seconds,
            ready=lambda: len(self._recommendations) >= len(self._pipelines),
            reload=self.reload,
            targets=self._target_states,
            lifecycle=self._options.lifecycle,
        )
        self._runner = web.AppRunner(build_app(served), access_log=None, shutdown_timeout=0.3)
        await self._runner.setup()
        host, port = _host_and_port(self._options.listen_address)
        try:
            await web.TCPSite(self._runner, host, port).start()
        except OSError as error:
            reason = error.strerror or str(error)
            raise InputError(f"cannot listen: {reason}", key="--web.listen-address") from error
        return f"http://{host or 'localhost'}:{self._runner.addresses[0][1]}"

    def _target_states(self) -> list[dict[str, Any]]:
        return [
            {
                "deployment": target.pipeline.config.name,
                "url": target.url,
                "outcome": target.outcome,
                "detail": target.detail,
                "last_scrape": target.last_scrape_seconds,
                "duration_seconds": target.duration_seconds,
            }
            for target in self._targets
        ]


def _flags(recommendation: Recommendation) -> dict[str, int | None]:
    return {
        "max_model_len": recommendation.max_model_len.recommended,
        "max_num_seqs": recommendation.max_num_seqs.recommended,
    }


def _host_and_port(address: str) -> tuple[str | None, int]:
    host, _, port = address.rpartition(":")
    if not port.isdigit() or int(port) > 65535:
        raise InputError(f"expected host:port, not {address!r}", key="--web.listen-address")
    return host.strip("[]") or None, int(port)
