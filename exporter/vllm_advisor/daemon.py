"""The long-running daemon: schedule, session, signals, reload, graceful stop."""

from __future__ import annotations

import asyncio
import gc
import signal
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import aiohttp
import structlog
from apscheduler.schedulers.asyncio import AsyncIOScheduler

from vllm_advisor.ceilings.recommendation import Recommendation
from vllm_advisor.clock import SteadyClock
from vllm_advisor.config import AccessLogFormat, AdvisorConfig, load_config
from vllm_advisor.deployment import Deployment, open_deployment
from vllm_advisor.errors import AdvisorError
from vllm_advisor.scraper import Scraper, Target
from vllm_advisor.shard import WHOLE, Shard
from vllm_advisor.sources.access_logs import Outcome as LineOutcome
from vllm_advisor.sources.scrape import WELL, new_session
from vllm_advisor.store import Store
from vllm_advisor.web.listener import Listener
from vllm_advisor.web.served import Served, ServedDeployment, WebOptions
from vllm_advisor.web.server import build_app
from vllm_advisor.web.telemetry import Telemetry

__all__ = ["Daemon", "DaemonOptions", "run_daemon"]

_SAVE_SECONDS = 30.0

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class DaemonOptions:
    """What the command line says beside the configuration.

    Args:
        web: how to serve.
        config_path: where a reload reads the configuration, None when it came from flags.
        shard: which of the deployments are this daemon's.
    """

    web: WebOptions
    config_path: Path | None = None
    shard: Shard = WHOLE


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
    loop.add_signal_handler(signal.SIGHUP, daemon.reload_soon)
    try:
        url = await daemon.start()
        _spare_the_collector()
        if on_listening:
            on_listening(url)
        await stopping.wait()
        log.info("stopping")
    finally:
        await daemon.stop()


def _spare_the_collector() -> None:
    """Let the garbage collector pass over what stays for good, and come less often: some 8% less CPU."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)


class Daemon:
    """The daemon's parts, started and stopped together."""

    def __init__(self, config: AdvisorConfig, options: DaemonOptions) -> None:
        self._config = config = options.shard.of(config)
        self._options = options
        self._listener = Listener(options.web)
        self._clock = SteadyClock()
        self._telemetry = Telemetry()
        self._store = Store(config.storage.path)
        self._save_fails = False
        self._deployments = _open_all(config, self._store.load() or {}, {})
        self._scheduler = AsyncIOScheduler(
            job_defaults={"coalesce": True, "max_instances": 1, "misfire_grace_time": None}
        )
        self._session: aiohttp.ClientSession | None = None
        self._scraper: Scraper | None = None
        self._running: dict[str, asyncio.Task[Any]] = {}

    async def start(self) -> str:
        """Begin to serve and to scrape; return the URL."""
        if self._store.set_aside:
            log.warning("the saved state was damaged, starting without it", kept=str(self._store.set_aside))
        self._session = new_session()
        self._scraper = Scraper(self._session, self._config.global_, self._telemetry, self._clock)
        url = await self._listener.start(build_app(self._served()))
        self._took_effect()
        self._scheduler.start()
        log.info("listening", url=url, deployments=len(self._deployments), targets=len(self._targets()))
        return url

    async def stop(self) -> None:
        """Stop within a second, the evidence saved."""
        if self._scheduler.running:
            self._scheduler.shutdown(wait=False)
        await asyncio.gather(*self._running.values(), return_exceptions=True)
        for deployment in self._deployments.values():
            await deployment.stop()
        await self._listener.stop()
        if self._session:
            await self._session.close()
        await self._save()
        for deployment in self._deployments.values():
            deployment.close()
        self._store.close()

    def reload_soon(self) -> None:
        """Reload without waiting for it."""
        self._running["reload"] = asyncio.create_task(self.reload())

    async def reload(self) -> str | None:
        """Load the configuration again, all of it or nothing; return what was wrong."""
        path = self._options.config_path
        if path is None:
            return "there is no configuration file: the daemon was started from flags"
        try:
            config = self._options.shard.of(load_config(path))
            async with AsyncExitStack() as reading:
                for deployment in self._deployments.values():
                    await reading.enter_async_context(deployment.logs.lock)
                self._replace(config, _open_all(config, self._state(), self._deployments))
        except AdvisorError as error:
            self._telemetry.reload_successful.set(0)
            log.warning("reload failed, the earlier configuration stays", problem=str(error))
            return str(error)
        self._took_effect()
        log.info("reloaded", deployments=len(self._deployments), targets=len(self._targets()))
        return None

    def _targets(self) -> list[Target]:
        return [target for deployment in self._deployments.values() for target in deployment.targets]

    def _replace(self, config: AdvisorConfig, deployments: dict[str, Deployment]) -> None:
        for name, earlier in self._deployments.items():
            if deployments.get(name) is not earlier:
                earlier.close()
        self._config, self._deployments = config, deployments
        if self._scraper:
            self._scraper.limits = config.global_

    def _took_effect(self) -> None:
        self._telemetry.reload_successful.set(1)
        self._telemetry.reload_success_timestamp_seconds.set(self._clock.now_seconds())
        for name, deployment in self._deployments.items():
            for problem in deployment.pipeline.problems:
                log.warning("a file is left out", deployment=name, problem=problem)
        self._schedule()

    def _schedule(self) -> None:
        intervals = self._config.global_
        jobs: dict[str, tuple[Callable[[], Coroutine[Any, Any, None]], float]] = {
            "look": (self._look, intervals.scrape_interval_seconds),
            "evaluate": (self._evaluate, intervals.evaluation_interval_seconds),
            "save": (self._save, _SAVE_SECONDS),
        }
        for name, (job, seconds) in jobs.items():
            self._scheduler.add_job(
                self._begin, "interval", (name, job), seconds=seconds, id=name, replace_existing=True
            )
        self._scheduler.add_job(self._look, id="first look", replace_existing=True)
        first_pages = datetime.now(UTC) + timedelta(seconds=intervals.scrape_interval_seconds)
        self._scheduler.add_job(
            self._evaluate, "date", run_date=first_pages, id="first evaluation", replace_existing=True
        )

    async def _begin(self, name: str, job: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Begin a job as the daemon's own task: the scheduler would cut one off in the middle at its end."""
        running = self._running.get(name)
        if running is None or running.done():
            self._running[name] = asyncio.create_task(job())

    async def _look(self) -> None:
        """Begin to read every page and every log."""
        if self._scraper:
            ready = (one for one in self._deployments.values() if not one.is_catching_up)
            self._scraper.scrape_all(target for one in ready for target in one.targets)
        if self._session:
            for deployment in self._deployments.values():
                deployment.look(self._session, self._clock, self._telemetry)

    async def _evaluate(self) -> None:
        step_seconds = self._clock.follow_step()
        if step_seconds:
            log.warning("the clock stepped, intervals across it are left out", seconds=round(step_seconds, 3))
        for deployment in list(self._deployments.values()):
            if step_seconds:
                deployment.pipeline.evidence.break_intervals()
            if not deployment.is_catching_up:
                deployment.evaluate(self._clock.now_seconds())
            await asyncio.sleep(0)

    async def _save(self) -> None:
        async with AsyncExitStack() as reading:
            for deployment in self._deployments.values():
                await reading.enter_async_context(deployment.logs.lock)
            state = self._state()
        try:
            await asyncio.to_thread(self._store.save, state)
        except OSError as error:
            if not self._save_fails:
                log.warning("the evidence cannot be saved, what was saved before stands", problem=str(error))
            self._save_fails = True
        else:
            self._save_fails = False

    def _state(self) -> dict[str, Any]:
        return {"deployments": {name: one.state() for name, one in self._deployments.items()}}

    def _served(self) -> Served:
        return Served(
            telemetry=self._telemetry,
            options=self._options.web,
            config=lambda: self._config,
            deployments=self._served_deployments,
            recommendations=self._recommendations,
            changed_seconds=self._changed_seconds,
            ready=lambda: len(self._recommendations()) == len(self._deployments),
            reload=self.reload,
            targets=self._target_states,
            reevaluate=lambda name: self._deployments[name].evaluate(self._clock.now_seconds()),
            push=self._push,
        )

    async def _push(self, name: str, lines: bytes, form: AccessLogFormat) -> Counter[LineOutcome] | None:
        logs = self._deployments[name].logs
        return await logs.push(lines, form, self._clock.now_seconds(), self._telemetry)

    def _served_deployments(self) -> dict[str, ServedDeployment]:
        return {
            name: ServedDeployment(one.pipeline, one.recommendation, one.history.points)
            for name, one in self._deployments.items()
            if one.recommendation
        }

    def _recommendations(self) -> dict[str, Recommendation]:
        known = {name: one.recommendation for name, one in self._deployments.items()}
        return {name: recommendation for name, recommendation in known.items() if recommendation}

    def _changed_seconds(self) -> dict[str, float]:
        known = {name: one.changed_seconds for name, one in self._deployments.items()}
        return {name: seconds for name, seconds in known.items() if seconds is not None}

    def _target_states(self) -> list[dict[str, Any]]:
        """Return how every target's last scrape went, those that are not well first."""
        return [target.state() for target in sorted(self._targets(), key=lambda one: one.outcome in WELL)]


def _open_all(
    config: AdvisorConfig, state: Mapping[str, Any], running: Mapping[str, Deployment]
) -> dict[str, Deployment]:
    """Open every deployment on what is known of it; one that runs with this very configuration goes on."""
    known = state.get("deployments") or {}
    deployments = {}
    for one in config.deployments:
        earlier = running.get(one.name)
        unchanged = earlier is not None and earlier.pipeline.config == one
        deployments[one.name] = (
            earlier if earlier and unchanged else open_deployment(one, known.get(one.name))
        )
    return deployments
