"""The configuration as it is shown: whole enough to be loaded again, and without secrets."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from vllm_advisor.config import AdvisorConfig, load_config
from vllm_advisor.units import format_size, parse_size_bytes
from vllm_advisor.web.doors import configuration_text

TEXT = """\
global: {scrape_interval: 15s, page_limit: 16MiB}
deployments:
  - name: chat
    slo: {tpot: 40ms, quantile: mean, ttft: 2s}
    context: {quantile: 0.9999, margin: 0.1, window: 3d}
    engine: {gpu_memory: 79.1GiB, headroom: 8GB, max_num_seqs: 64}
    static_configs:
      - targets: ["http://watcher:hunter2@vllm-1:8000/metrics", "watcher:hunter2@vllm-2:8000", "vllm-0:8000"]
    access_logs: [{paths: [/var/log/gateway/*.jsonl], fields: {prompt_tokens: usage.in, time: '@timestamp'}}]
"""


def loaded(folder: Path, text: str) -> AdvisorConfig:
    """Load a configuration from its text."""
    path = folder / "advisor.yml"
    path.write_text(text)
    return load_config(path)


def test_what_is_shown_is_what_is_in_force(tmp_path: Path) -> None:
    """The text shown, loaded as a file, is the same configuration but for the secret."""
    config = loaded(tmp_path, TEXT)
    shown = configuration_text(config)
    again = loaded(tmp_path, shown.replace("<secret>", "watcher:hunter2"))

    assert again == config


def test_no_secret_is_shown(tmp_path: Path) -> None:
    """User and password of an address do not appear; names of token fields do."""
    shown = configuration_text(loaded(tmp_path, TEXT))

    assert "hunter2" not in shown
    assert "watcher" not in shown
    assert "http://<secret>@vllm-1:8000/metrics" in shown
    assert "- <secret>@vllm-2:8000" in shown
    assert "prompt_tokens: usage.in" in shown


@given(st.integers(1, 10**14))
def test_size_reads_back_exactly(size_bytes: int) -> None:
    """Any number of bytes is written so that reading it gives the same number."""
    assert parse_size_bytes(format_size(size_bytes)) == size_bytes
