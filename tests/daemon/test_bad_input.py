import json
import socket
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from prometheus_client.metrics_core import Metric

from support.bad_engine import BadEngines, bad_engines
from support.daemon_process import daemon_process

INTERVAL_SECONDS = 1.0
ROUNDS = 9
LONGEST_SECONDS = 90.0

STEADY_OUTCOMES = {
    "down": "down",
    "slow": "timeout",
    "status_500": "http_error",
    "redirect_loop": "redirect",
    "shorter_than_announced": "truncated",
    "cut_in_a_line": "truncated",
    "packed_and_cut": "truncated",
    "html": "not_metrics",
    "gigabyte": "too_large",
    "gigabyte_announced": "too_large",
    "packed_bomb": "too_large",
    "nan": "malformed",
    "duplicate_series": "duplicate_series",
    "no_vllm_family": "no_vllm_families",
    "empty": "no_vllm_families",
    "router": "router",
}
CASES = [*STEADY_OUTCOMES, "packed", "restart", "in_turns", "vanishing"]


@dataclass(frozen=True)
class Watched:
    """What was seen of a daemon after some rounds with every bad engine, each beside a healthy one."""

    engines: BadEngines
    targets: dict[str, str]
    metrics: dict[str, Metric]
    log: list[dict[str, Any]]
    seen_seconds: float
    peak_memory_bytes: int
    stop_seconds: float
    exit_status: int | None

    def events(self, case: str) -> list[dict[str, Any]]:
        """Return what was logged of a case's bad engine."""
        return [event for event in self.log if event.get("target") == self.targets[case]]

    def value(self, name: str, **labels: str) -> float:
        """Return one exported value."""
        (value,) = (
            sample.value
            for sample in self.metrics[name].samples
            if labels.items() <= sample.labels.items() and not sample.name.endswith("_created")
        )
        return value


@contextmanager
def _closed_port() -> Iterator[int]:
    """Hold a port on which nobody listens."""
    with closing(socket.socket()) as held:
        held.bind(("127.0.0.1", 0))
        yield int(held.getsockname()[1])


def _configuration(engines: BadEngines, targets: dict[str, str]) -> str:
    deployments = [
        {"name": case, "static_configs": [{"targets": [target, engines.target("healthy", case)]}]}
        for case, target in targets.items()
    ]
    interval = f"{INTERVAL_SECONDS * 1000:g}ms"
    times = {"scrape_interval": interval, "scrape_timeout": interval, "evaluation_interval": "1s"}
    return json.dumps({"global": times | {"page_limit": "4MB"}, "deployments": deployments})


def _wait_for_rounds(engines: BadEngines) -> None:
    """Wait until every engine was scraped often enough, which a busy machine takes longer for."""
    deadline = time.monotonic() + LONGEST_SECONDS
    wanted = {f"/healthy/{case}/metrics": ROUNDS for case in CASES}
    wanted |= {f"/{case}/alone/metrics": ROUNDS // 2 for case in CASES if case != "down"}
    wanted |= {f"/{case}/alone/metrics": ROUNDS for case in ("restart", "vanishing")}
    while time.monotonic() < deadline and any(
        engines.scrapes[path] < rounds for path, rounds in wanted.items()
    ):
        time.sleep(0.1)


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    """One daemon with every bad engine at once."""
    folder = tmp_path_factory.mktemp("bad-input")
    config = folder / "advisor.yml"
    with bad_engines() as engines, _closed_port() as closed_port:
        targets = {case: engines.target(case) for case in CASES} | {
            "down": f"http://127.0.0.1:{closed_port}/metrics"
        }
        config.write_text(_configuration(engines, targets), encoding="utf-8")
        with daemon_process(["serve", f"--config.file={config}"], folder) as daemon:
            _wait_for_rounds(engines)
            metrics, seen_seconds, peak_bytes = daemon.metrics(), time.time(), daemon.peak_memory_bytes()
            stop_seconds = daemon.stop()
            log, status = daemon.log(), daemon.process.returncode
        yield Watched(
            engines, targets, metrics, log, seen_seconds, peak_bytes, stop_seconds, exit_status=status
        )


@pytest.mark.parametrize("case", STEADY_OUTCOMES)
def test_a_bad_engine_is_counted_by_name_and_logged_once(watched: Watched, case: str) -> None:
    """Every scrape of it (a slow one takes two rounds) has its outcome, and the log says so just once."""
    outcome = STEADY_OUTCOMES[case]
    sharing = list(STEADY_OUTCOMES.values()).count(outcome)

    assert [(event["level"], event["outcome"]) for event in watched.events(case)] == [("warning", outcome)]
    assert watched.value("scrapes", outcome=outcome) >= sharing * (ROUNDS // 2 - 2)


@pytest.mark.parametrize("case", CASES)
def test_the_healthy_engine_beside_it_is_not_disturbed(watched: Watched, case: str) -> None:
    """It is fetched at every round, nothing is logged of it but that it is well, and its evidence goes on."""
    healthy = watched.engines.target("healthy", case)
    logged = [event for event in watched.log if event.get("target") == healthy]

    assert watched.engines.scrapes[f"/healthy/{case}/metrics"] >= ROUNDS - 3
    assert all(event["level"] == "info" for event in logged)
    assert watched.value("kv_pool_tokens", deployment=case, source="engine") == 174_752
    last_seconds = watched.value("last_observation_timestamp_seconds", deployment=case)
    assert watched.seen_seconds - last_seconds < 3


def test_a_page_that_a_proxy_packed_is_read(watched: Watched) -> None:
    """It is asked for unpacked; where it comes packed all the same, it is a page like any other."""
    assert [event["outcome"] for event in watched.events("packed")] == ["ok"]


def test_a_restart_is_counted_and_said_once(watched: Watched) -> None:
    """Counters that fall are one restart; before and after it the engine is well."""
    assert watched.value("scrapes", outcome="restarted") == 1
    assert [event["msg"] for event in watched.events("restart")] == ["target is well", "engine restarted"]


def test_engines_that_take_turns_at_one_address_are_said_once(watched: Watched) -> None:
    """The second began to count before the first: no restart, and so it stays."""
    said = [(event["msg"], event.get("outcome")) for event in watched.events("in_turns")]

    assert said == [
        ("target is well", "ok"),
        ("target is not well", "several_engines"),
    ]
    assert watched.value("scrapes", outcome="several_engines") >= ROUNDS - 3


def test_an_engine_that_vanishes_and_comes_back_is_said_twice(watched: Watched) -> None:
    """After its first page, once that it is down and once that it is well again."""
    said = [(event["level"], event["outcome"]) for event in watched.events("vanishing")]

    assert said == [("info", "ok"), ("warning", "down"), ("info", "ok")]


def test_a_gigabyte_is_never_held(watched: Watched) -> None:
    """The exchange ends soon after the limit of 4 MB, and memory stays far below the page's size."""
    target = "/gigabyte/alone/metrics"
    streamed_bytes = watched.engines.streamed_bytes[target] / watched.engines.scrapes[target]

    assert streamed_bytes < 40_000_000
    assert watched.peak_memory_bytes < 250_000_000


def test_nothing_unforeseen_is_logged(watched: Watched) -> None:
    """No error and no traceback, whatever the engines did."""
    assert [event for event in watched.log if event["level"] not in {"info", "warning"}] == []


def test_the_daemon_stops_within_a_second_among_bad_engines(watched: Watched) -> None:
    """SIGTERM ends it cleanly while scrapes are under way."""
    assert watched.stop_seconds < 1
    assert watched.exit_status == 0
