"""Discovery from real files, a real HTTP server and a real DNS server."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import time
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import pytest_asyncio
from aiohttp import web
from dns.asyncresolver import Resolver

from support.stores import free_port, running
from vllm_advisor.config_discovery import DnsSdConfig, FileSdConfig, HttpSdConfig
from vllm_advisor.sources.discovery import dns_sd, file_sd, http_sd
from vllm_advisor.sources.discovery.found import Listing


@pytest_asyncio.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    """Open a session."""
    async with aiohttp.ClientSession() as opened:
        yield opened


async def following(listings: AsyncGenerator[Listing, None]) -> Listing:
    """Return the next listing."""
    return await asyncio.wait_for(anext(listings), timeout=10)


def addresses(listing: Listing) -> list[str] | None:
    """Return what was found."""
    return None if listing.targets is None else [one.labels["__address__"] for one in listing.targets]


def group(*targets: str, **labels: str) -> str:
    """Write a target list."""
    return json.dumps([{"targets": targets, "labels": labels}])


async def test_files_are_followed(tmp_path: Path, session: aiohttp.ClientSession) -> None:
    """JSON and YAML that the globs find are read, and a change, a new file and a vanished one are seen."""
    (tmp_path / "a.json").write_text(group("a:1", "a:2", team="x"), encoding="utf-8")
    (tmp_path / "b.yml").write_text("- targets: ['b:1']\n", encoding="utf-8")
    config = FileSdConfig(files=[f"{tmp_path}/*.json", f"{tmp_path}/*.yml"])
    async with aclosing(file_sd.discover(config, session)) as listings:
        first = await following(listings)
        assert addresses(first) == ["a:1", "a:2", "b:1"]
        assert first.targets
        assert first.targets[0].labels == {
            "__address__": "a:1",
            "__meta_filepath": str(tmp_path / "a.json"),
            "team": "x",
        }
        (tmp_path / "c.json").write_text(group("c:1"), encoding="utf-8")
        (tmp_path / "b.yml").unlink()
        assert addresses(await following(listings)) == ["a:1", "a:2", "c:1"]


async def test_a_bad_file_keeps_its_own_last_targets(tmp_path: Path, session: aiohttp.ClientSession) -> None:
    """A half-written file is told and costs nothing; the other files go on being followed."""
    a, b = tmp_path / "a.json", tmp_path / "b.json"
    a.write_text(group("a:1"), encoding="utf-8")
    b.write_text(group("b:1"), encoding="utf-8")
    async with aclosing(file_sd.discover(FileSdConfig(files=[f"{tmp_path}/*.json"]), session)) as listings:
        await following(listings)
        a.write_text('[{"targets": ["a:', encoding="utf-8")
        b.write_text(group("b:2"), encoding="utf-8")
        listing = await following(listings)
        assert addresses(listing) == ["a:1", "b:2"]
        assert str(a) in listing.problem
        a.write_text(group("a:3"), encoding="utf-8")
        listing = await following(listings)
        assert (addresses(listing), listing.problem) == (["a:3", "b:2"], "")


@asynccontextmanager
async def answering(
    answer: web.Response | None, seen: list[web.BaseRequest]
) -> AsyncIterator[dict[str, Any]]:
    """Serve whatever ``served["answer"]`` makes."""
    served: dict[str, Any] = {"answer": lambda: answer}

    async def handle(request: web.BaseRequest) -> web.Response:
        seen.append(request)
        response: web.Response = served["answer"]()
        return response

    port = free_port()
    runner = web.ServerRunner(web.Server(handle))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    served["url"] = f"http://127.0.0.1:{port}/targets"
    try:
        yield served
    finally:
        await runner.cleanup()


async def test_a_server_is_asked(tmp_path: Path, session: aiohttp.ClientSession) -> None:
    """The list is fetched every interval as the configured user; an empty one means no targets."""
    seen: list[web.BaseRequest] = []
    (tmp_path / "password").write_text("pa:ss\n", encoding="utf-8")
    async with answering(None, seen) as served:
        config = HttpSdConfig.model_validate(
            {
                "url": served["url"],
                "refresh_interval": "100ms",
                "basic_auth": {"username": "reader", "password_file": tmp_path / "password"},
                "headers": {"X-Scope-OrgID": "team"},
            }
        )
        served["answer"] = lambda: web.json_response(json.loads(group("a:1")))
        async with aclosing(http_sd.discover(config, session)) as listings:
            first = await following(listings)
            assert addresses(first) == ["a:1"]
            assert first.targets
            assert first.targets[0].labels["__meta_url"] == served["url"]
            served["answer"] = lambda: web.json_response([])
            assert addresses(await following(listings)) == []
        assert aiohttp.BasicAuth.decode(seen[0].headers["Authorization"]) == ("reader", "pa:ss", "latin1")
        assert seen[0].headers["X-Scope-OrgID"] == "team"


@pytest.mark.parametrize(
    "answer",
    [
        lambda: web.Response(status=500, text="oh"),
        lambda: web.Response(text="<html>"),
        lambda: web.json_response({"targets": []}),
        lambda: web.json_response([{"targets": "a:1"}]),
        lambda: web.json_response([{"targets": ["a:1"], "label": {}}]),
    ],
    ids=["status", "no json", "no list", "no targets", "unknown key"],
)
async def test_a_bad_answer_leaves_the_last_list(answer: Any, session: aiohttp.ClientSession) -> None:
    """An answer that is no list of targets is a problem and no list."""
    async with answering(None, []) as served:
        served["answer"] = answer
        config = HttpSdConfig.model_validate({"url": served["url"], "refresh_interval": "100ms"})
        async with aclosing(http_sd.discover(config, session)) as listings:
            listing = await following(listings)
            assert listing.targets is None
            assert listing.problem


@pytest.fixture
def name_server(tmp_path: Path) -> Iterator[tuple[Path, Resolver]]:
    """Run dnsmasq over a hosts file, with a service record."""
    if shutil.which("dnsmasq") is None:
        pytest.skip("dnsmasq is not installed")
    port, hosts = free_port(), tmp_path / "hosts"
    hosts.write_text("127.0.0.11 vllm.test\n127.0.0.12 vllm.test\nfd00::1 vllm.test\n", encoding="utf-8")
    command = [
        *("dnsmasq", "--keep-in-foreground", f"--port={port}", "--listen-address=127.0.0.1", "--no-hosts"),
        *("--bind-interfaces", "--no-resolv", f"--addn-hosts={hosts}", "--conf-file=/dev/null"),
        *("--srv-host=_vllm._tcp.test,vllm-0.test,8001", "--srv-host=_vllm._tcp.test,vllm-1.test,8002"),
        *(f"--pid-file={tmp_path / 'pid'}", "--user=", "--local=/test/"),
    ]
    resolver = Resolver(configure=False)
    resolver.nameservers, resolver.port, resolver.lifetime = ["127.0.0.1"], port, 2.0
    with running(command, tmp_path / "dnsmasq.log") as process:
        time.sleep(0.3)
        assert process.poll() is None, (tmp_path / "dnsmasq.log").read_text(encoding="utf-8")
        yield tmp_path, resolver


RECORDS = [("A", "vllm.test"), ("AAAA", "vllm.test"), ("SRV", "_vllm._tcp.test"), ("A", "no.test")]


async def test_records_are_targets(name_server: tuple[Path, Resolver]) -> None:
    """A and AAAA records take the configured port, SRV records bring their own; no such name is no target."""
    _, resolver = name_server
    found = {}
    for kind, name in RECORDS:
        port = None if kind == "SRV" else 8000
        config = DnsSdConfig.model_validate({"names": [name], "type": kind, "port": port})
        async with aclosing(dns_sd.discover(config, None, resolver)) as listings:
            found[kind, name] = sorted(addresses(await following(listings)) or [])
    assert found == {
        ("A", "vllm.test"): ["127.0.0.11:8000", "127.0.0.12:8000"],
        ("AAAA", "vllm.test"): ["[fd00::1]:8000"],
        ("SRV", "_vllm._tcp.test"): ["vllm-0.test:8001", "vllm-1.test:8002"],
        ("A", "no.test"): [],
    }


async def test_records_are_asked_for_again(name_server: tuple[Path, Resolver]) -> None:
    """A new record is a new target at the next refresh; a server that is gone leaves the last list."""
    folder, resolver = name_server
    config = DnsSdConfig.model_validate(
        {"names": ["vllm.test"], "type": "A", "port": 8000, "refresh_interval": "200ms"}
    )
    async with aclosing(dns_sd.discover(config, None, resolver)) as listings:
        assert len(addresses(await following(listings)) or []) == 2
        (folder / "hosts").write_text("127.0.0.13 vllm.test\n", encoding="utf-8")
        os.kill(int((folder / "pid").read_text(encoding="utf-8")), signal.SIGHUP)
        await asyncio.sleep(0.3)
        assert addresses(await following(listings)) == ["127.0.0.13:8000"]
        resolver.nameservers, resolver.port = ["127.0.0.1"], free_port()
        resolver.lifetime = 0.3
        listing = await following(listings)
        assert listing.targets is None
        assert listing.problem
