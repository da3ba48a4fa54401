"""A captured page behind nginx, for as many engines as a benchmark asks for, its counters growing."""

from __future__ import annotations

import json
import re
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path

__all__ = ["PAGE", "nginx_command", "pages_in_time", "pages_served", "turn_pages"]

PAGE = Path(__file__).parents[1] / "tests/data/pages/metrics-mid-llama-after-load.prom"

_GROWING = re.compile(rb"^((?:vllm|http|process_cpu)\S*_(?:total|bucket|sum|count)\b.* )(\S+)$", re.MULTILINE)


def nginx_command(folder: Path, listens: Iterable[str]) -> list[str]:
    """Return what serves ``page`` and the model list at every address of nginx's ``listen``."""
    models = json.dumps({"object": "list", "data": [{"id": "mid-llama", "max_model_len": 2048}]})
    path = folder / "nginx.conf"
    path.write_text(
        f"""
daemon off;
pid {folder}/nginx.pid;
error_log {folder}/nginx-error.log;
worker_processes 1;
events {{ worker_connections 8192; }}
http {{
    log_format agents '$request_uri $http_user_agent';
    access_log {folder}/agents.log agents buffer=64k flush=1s;
    client_body_temp_path {folder}; proxy_temp_path {folder}; fastcgi_temp_path {folder};
    uwsgi_temp_path {folder}; scgi_temp_path {folder};
    keepalive_requests 100000;
    server {{
        {" ".join(f"listen {address};" for address in listens)}
        default_type "text/plain; version=1.0.0; charset=utf-8";
        location = /metrics {{ root {folder}; try_files /page =404; }}
        location = /v1/models {{ default_type application/json; return 200 '{models}'; }}
    }}
}}
""",
        encoding="utf-8",
    )
    return ["nginx", "-p", str(folder), "-c", str(path), "-e", f"{folder}/nginx-error.log"]


def pages_in_time(*, static: bool = False) -> Iterator[bytes]:
    """Give one page after another, the counters of each a hundredth of the capture over the one before."""
    captured = PAGE.read_bytes()
    for number in range(sys.maxsize):
        growth = 1 if static else 1 + number / 100
        yield _GROWING.sub(partial(_grown, growth=growth), captured)


def _grown(line: re.Match[bytes], *, growth: float) -> bytes:
    return line[1] + b"%r" % (float(line[2]) * growth)


def turn_pages(folder: Path, pages: Iterator[bytes], every_seconds: float, for_seconds: float) -> None:
    """Put the next page in place every interval, for some time."""
    end = time.monotonic() + for_seconds
    while time.monotonic() < end:
        (folder / "next").write_bytes(next(pages))
        (folder / "next").replace(folder / "page")
        time.sleep(min(every_seconds, max(0.0, end - time.monotonic())))


def pages_served(folder: Path) -> Counter[str]:
    """Count the pages by who fetched them, from nginx's own log."""
    lines = (folder / "agents.log").read_text(encoding="utf-8").splitlines()
    return Counter(line.split()[1].split("/")[0] for line in lines if line.startswith("/metrics "))
