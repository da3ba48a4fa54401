"""What the status page of many deployments costs: the server's CPU for a load, and the bytes that it takes.

A real daemon with as many deployments, each with an access log, a sweep and a pool, so that each row has both
flags and advice. A load is the page and every file that it names, as a browser without a cache fetches them.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import urljoin
from urllib.request import urlopen

from processes import free_ports, running, until_answers, usage_of

CPU_TARGET_SECONDS = 1.0
SIZE_TARGET_BYTES = 500_000
LOADS = 20
REQUESTS = 4000
_FILES = re.compile(r'(?:src|href)="([^"]+\.(?:js|css|svg))"')
_ENGINE = {
    "max_model_len": 131072,
    "max_num_seqs": 256,
    "weights_memory": "17.5GB",
    "tensor_parallel_size": 4,
    "gpu_memory": "80GB",
    "headroom": "8GB",
}
_MODEL = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 8192,
    "intermediate_size": 28672,
    "num_hidden_layers": 80,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "vocab_size": 128256,
    "max_position_embeddings": 1048576,
    "torch_dtype": "bfloat16",
}


@dataclass(frozen=True, slots=True)
class Load:
    """One load of a page."""

    cpu_seconds: float
    wall_seconds: float
    size_bytes: int
    files: int


def write_configuration(folder: Path, deployments: int) -> Path:
    """Write as many deployments that share their files."""
    (folder / "config.json").write_text(json.dumps(_MODEL))
    (folder / "sweep.csv").write_text("concurrency,tpot_p99\n8,0.016\n24,0.024\n40,0.038\n48,0.053\n")
    now_seconds = time.time()
    lines = (
        json.dumps({"ts": now_seconds - n, "usage": {"prompt_tokens": 50 + 2 * n, "completion_tokens": 200}})
        for n in range(REQUESTS)
    )
    (folder / "access.jsonl").write_text("\n".join(lines) + "\n")
    each = [
        {
            "name": f"deployment-{number:03}",
            "engine": _ENGINE | {"model_config": "config.json"},
            "access_logs": [{"paths": ["access.jsonl"]}],
            "sweep": "sweep.csv",
        }
        for number in range(deployments)
    ]
    path = folder / "advisor.yml"
    intervals = {"scrape_interval": "2s", "scrape_timeout": "2s", "evaluation_interval": "600s"}
    path.write_text(json.dumps({"global": intervals, "storage": {"path": "data"}, "deployments": each}))
    return path


def load(url: str, pid: int) -> Load:
    """Load a page with its files some times over; return what one load took, idle CPU not taken off."""
    before, start = usage_of(pid).cpu_seconds, time.monotonic()
    for _ in range(LOADS):
        page = fetch(url)
        files = [fetch(urljoin(url, name)) for name in _FILES.findall(page.decode())]
    return Load(
        cpu_seconds=(usage_of(pid).cpu_seconds - before) / LOADS,
        wall_seconds=(time.monotonic() - start) / LOADS,
        size_bytes=len(page) + sum(map(len, files)),
        files=len(files),
    )


def fetch(url: str) -> bytes:
    """Fetch a URL."""
    with urlopen(url, timeout=20) as response:  # noqa: S310 - always loopback
        return bytes(response.read())


def until_worked_out(url: str, deployments: int) -> None:
    """Wait until every deployment has both flags."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        found = json.loads(fetch(f"{url}/api/v1/deployments"))["deployments"]
        if sum(one["max_num_seqs"]["recommended"] is not None for one in found) == deployments:
            return
        time.sleep(1)
    raise TimeoutError("not every deployment was worked out in time")


def main() -> int:
    """Measure and report; return 1 when a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--deployments", type=int, default=200)
    deployments = parser.parse_args().deployments
    with TemporaryDirectory(prefix="status-page-") as name:
        folder, (port,) = Path(name), free_ports(1)
        config = write_configuration(folder, deployments)
        url = f"http://127.0.0.1:{port}"
        command = [sys.executable, "-m", "vllm_advisor", "serve", f"--config.file={config}"]
        command += [f"--web.listen-address=127.0.0.1:{port}", "--log.level=error"]
        with running(command, folder / "advisor.log") as pid:
            until_answers(f"{url}/-/healthy", timeout_seconds=60)
            until_worked_out(url, deployments)
            pages = {"overview": f"{url}/", "one deployment": f"{url}/deployments/deployment-000"}
            loads = {title: load(address, pid) for title, address in pages.items()}
    print(f"{deployments} deployments, {LOADS} loads each")
    for title, one in loads.items():
        spent = f"{one.cpu_seconds * 1000:6.1f} ms server CPU  {one.wall_seconds * 1000:6.1f} ms wall"
        print(f"  {title:15} {spent}  {one.size_bytes:8,} bytes with {one.files} files")
    print(f"  targets: under {CPU_TARGET_SECONDS:g} s of CPU and {SIZE_TARGET_BYTES:,} bytes")
    met = [
        one.cpu_seconds < CPU_TARGET_SECONDS and one.size_bytes < SIZE_TARGET_BYTES for one in loads.values()
    ]
    return 0 if all(met) else 1


if __name__ == "__main__":
    sys.exit(main())
