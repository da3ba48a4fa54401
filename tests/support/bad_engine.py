"""Engines that misbehave, each in its own way, at ``/<case>/<neighbour>/metrics`` of one loopback port."""

from __future__ import annotations

import gzip
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

PAGE = (Path(__file__).parents[1] / "data/pages/metrics-mid-llama-after-load.prom").read_bytes()
TYPE = "text/plain; version=1.0.0; charset=utf-8"
GIGABYTE = 1_000_000_000
_BOMB = gzip.compress(bytes(GIGABYTE // 10), 1)

_GROWING = re.compile(rb"^(vllm:\S*_(?:total|bucket|sum|count)\b.* )(\S+)$", re.MULTILINE)
_BEGAN = re.compile(rb"^(vllm:generation_tokens_created\S* )\S+$", re.MULTILINE)
_SERIES = b'vllm:generation_tokens_total{engine="0",model_name="mid-llama"} '


def grown_page(number: int) -> bytes:
    """Return the captured page as it might look some scrapes later."""
    growth = 1 + number / 100
    return _GROWING.sub(lambda line: line[1] + repr(float(line[2]) * growth).encode(), PAGE)


class _Engine(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: BadEngines

    def do_GET(self) -> None:
        self.case = self.path.split("/")[1]
        if not self.path.endswith("/metrics"):
            self.answer(b"", status=404)
            return
        self.server.scrapes[self.path] += 1
        with suppress(ConnectionError):
            CASES[self.case](self, self.server.scrapes[self.path])

    def log_message(self, *_: object) -> None:
        """Keep quiet."""

    def answer(self, body: bytes, *, status: int = 200, content_type: str = TYPE, **headers: object) -> None:
        self.send_response(status)
        headers = {"Content_Type": content_type, "Content_Length": len(body)} | headers
        for name, value in headers.items():
            if value is not None:
                self.send_header(name.replace("_", "-"), str(value))
        self.end_headers()
        self.wfile.write(body)

    def hang_up(self) -> None:
        self.close_connection = True


class BadEngines(ThreadingHTTPServer):
    """Every misbehaving engine, on one loopback port."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Engine)
        self.scrapes: Counter[str] = Counter()
        self.streamed_bytes: Counter[str] = Counter()

    def target(self, case: str, neighbour: str = "alone") -> str:
        """Return a case's address, as the configuration takes it."""
        return f"http://127.0.0.1:{self.server_port}/{case}/{neighbour}/metrics"

    def handle_error(self, *_: object) -> None:
        """Keep quiet: clients that hang up are part of the test."""


def _healthy(engine: _Engine, number: int) -> None:
    engine.answer(grown_page(number))


def _slow(engine: _Engine, number: int) -> None:
    time.sleep(3)
    engine.answer(grown_page(number))


def _status_500(engine: _Engine, _: int) -> None:
    engine.answer(b"broken\n", status=500)


def _redirect_loop(engine: _Engine, _: int) -> None:
    engine.answer(b"", status=302, Location=engine.path)


def _shorter_than_announced(engine: _Engine, number: int) -> None:
    page = grown_page(number)
    engine.answer(page[:20_000], Content_Length=len(page))
    engine.hang_up()


def _cut_in_a_line(engine: _Engine, number: int) -> None:
    engine.answer(grown_page(number)[:20_000], Content_Length=None, Connection="close")
    engine.hang_up()


def _html(engine: _Engine, _: int) -> None:
    page = b"<!doctype html>\n<html><head><title>Sign in</title></head>\n<body><p>Please.</p></body></html>"
    engine.answer(page, content_type="text/html")


def _gigabyte(engine: _Engine, _: int) -> None:
    engine.answer(b"", Content_Length=None, Connection="close")
    engine.hang_up()
    line = b'other_total{path="/"} 1.0\n' * 4096
    for _ in range(GIGABYTE // len(line)):
        engine.wfile.write(line)
        engine.server.streamed_bytes[engine.path] += len(line)


def _gigabyte_announced(engine: _Engine, _: int) -> None:
    engine.answer(b'other_total{path="/"} 1.0\n', Content_Length=GIGABYTE)
    engine.hang_up()


def _nan(engine: _Engine, number: int) -> None:
    engine.answer(re.sub(re.escape(_SERIES) + rb"\S+", _SERIES + b"NaN", grown_page(number)))


def _duplicate_series(engine: _Engine, number: int) -> None:
    engine.answer(grown_page(number) + _SERIES + b"1.0\n")


def _packed(engine: _Engine, number: int) -> None:
    engine.answer(gzip.compress(grown_page(number), 1), Content_Encoding="gzip")


def _packed_and_cut(engine: _Engine, number: int) -> None:
    engine.answer(gzip.compress(grown_page(number), 1)[:3000], Content_Encoding="gzip")


def _packed_bomb(engine: _Engine, _: int) -> None:
    engine.answer(_BOMB, Content_Encoding="gzip")


def _restart(engine: _Engine, number: int) -> None:
    engine.answer(grown_page(number if number <= 4 else number - 4))


def _in_turns(engine: _Engine, number: int) -> None:
    engine.answer(_BEGAN.sub(rb"\g<1>1.79613413%d577e+09" % (number % 2), grown_page(number)))


def _vanishing(engine: _Engine, number: int) -> None:
    if 3 < number <= 6:
        engine.hang_up()
    else:
        engine.answer(grown_page(number))


def _no_vllm_family(engine: _Engine, number: int) -> None:
    kept = [line for line in grown_page(number).splitlines(keepends=True) if b"vllm:" not in line]
    engine.answer(b"".join(kept))


def _empty(engine: _Engine, _: int) -> None:
    engine.answer(b"")


def _router(engine: _Engine, number: int) -> None:
    lines = [
        "# TYPE vllm:num_requests_running gauge",
        'vllm:num_requests_running{server="http://127.0.0.1:8000"} 3.0',
        "# TYPE vllm:current_qps gauge",
        f'vllm:current_qps{{server="http://127.0.0.1:8000"}} {number}.0',
    ]
    engine.answer("\n".join(lines).encode() + b"\n")


CASES: dict[str, Callable[[_Engine, int], None]] = {
    "healthy": _healthy,
    "slow": _slow,
    "status_500": _status_500,
    "redirect_loop": _redirect_loop,
    "shorter_than_announced": _shorter_than_announced,
    "cut_in_a_line": _cut_in_a_line,
    "html": _html,
    "gigabyte": _gigabyte,
    "gigabyte_announced": _gigabyte_announced,
    "nan": _nan,
    "duplicate_series": _duplicate_series,
    "packed": _packed,
    "packed_and_cut": _packed_and_cut,
    "packed_bomb": _packed_bomb,
    "restart": _restart,
    "in_turns": _in_turns,
    "vanishing": _vanishing,
    "no_vllm_family": _no_vllm_family,
    "empty": _empty,
    "router": _router,
}


@contextmanager
def bad_engines() -> Iterator[BadEngines]:
    """Serve every case while the context lasts."""
    with BadEngines() as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
