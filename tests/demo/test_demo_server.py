import asyncio
import json
from pathlib import Path

import aiohttp

from vllm_advisor.demo.access_log import FIELDS, AccessLog
from vllm_advisor.demo.engine import EngineSettings, FinishedRequest, Request
from vllm_advisor.demo.server import serve_engine


async def test_the_engine_serves_what_the_advisor_asks_for(tmp_path: Path) -> None:
    """Page, models and version answer, the counters move, and the log grows with them."""
    log = tmp_path / "access.jsonl"
    async with serve_engine(EngineSettings(), log) as address, aiohttp.ClientSession() as session:
        await asyncio.sleep(1.0)
        async with session.get(f"http://{address}/metrics") as response:
            page = await response.text()
        async with session.get(f"http://{address}/v1/models") as response:
            models = await response.json()
        async with session.get(f"http://{address}/version") as response:
            version = await response.json()

    served = {
        line.split("{")[0]: float(line.rsplit(" ", 1)[1]) for line in page.splitlines() if line[0] != "#"
    }
    assert served["vllm:generation_tokens_total"] > 0
    assert models["data"][0]["max_model_len"] == 131_072
    assert version == {"version": "0.32.0"}
    lines = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    assert lines
    assert all(0 < line["usage"]["completion_tokens"] <= line["request"]["max_tokens"] for line in lines)


async def test_the_engine_stops_with_its_context(tmp_path: Path) -> None:
    """After the context its port is closed and its log no longer grows."""
    log = tmp_path / "access.jsonl"
    async with serve_engine(EngineSettings(), log) as address:
        await asyncio.sleep(0.1)
    size = log.stat().st_size
    await asyncio.sleep(0.2)

    assert log.stat().st_size == size
    host, port = address.split(":")
    refused = await asyncio.gather(asyncio.open_connection(host, int(port)), return_exceptions=True)
    assert isinstance(refused[0], ConnectionRefusedError)


def test_a_log_line_holds_lengths_and_no_text(tmp_path: Path) -> None:
    """Every field that the configuration names is where it says, and there is no other."""
    path = tmp_path / "access.jsonl"

    AccessLog(path, "demo-chat").write([FinishedRequest(Request(1.0, 200, 30, 30), 2.5)])

    line = json.loads(path.read_text(encoding="utf-8"))
    read = {}
    for name, place in FIELDS.items():
        value = line
        for key in place.split("."):
            value = value[key]
        read[name] = value
    assert read == {
        "time": 2.5,
        "model": "demo-chat",
        "status": 200,
        "prompt_tokens": 200,
        "completion_tokens": 30,
        "max_tokens": 30,
        "finish_reason": "length",
    }


def test_a_grown_log_is_set_aside(tmp_path: Path) -> None:
    """The file never grows without bound: it is renamed, as logrotate does, and started anew."""
    log = AccessLog(tmp_path / "access.jsonl", "demo-chat", limit_bytes=500)

    for _ in range(20):
        log.write([FinishedRequest(Request(1.0, 200, 30, 100), 2.5)])

    assert {path.name for path in tmp_path.iterdir()} == {"access.jsonl", "access.1"}
    assert (tmp_path / "access.jsonl").stat().st_size < 700
