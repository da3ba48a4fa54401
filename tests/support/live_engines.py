"""Scripted engines behind real HTTP, their counters moving with the clock."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock, Thread

from support.advice_pages import ScriptedEngine, Situation

__all__ = ["live_engines"]


@contextmanager
def live_engines(engines: Mapping[str, tuple[ScriptedEngine, Situation]]) -> Iterator[dict[str, str]]:
    """Serve each engine's page below a path of its own while the context lasts; give their URLs by name."""
    moved = dict.fromkeys(engines, time.monotonic())
    lock = Lock()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            _, name, door = self.path.split("/", 2)
            if name not in engines or door != "metrics":
                self.send_error(404)
                return
            engine, situation = engines[name]
            with lock:
                now = time.monotonic()
                engine.run(situation, now - moved[name])
                moved[name] = now
                page = engine.page().encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(page)))
            self.end_headers()
            self.wfile.write(page)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
            """Keep quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield {name: f"http://127.0.0.1:{server.server_port}/{name}/metrics" for name in engines}
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
