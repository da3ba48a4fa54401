"""Shares of the deployments, by hash."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.daemon_process import daemon_process
from vllm_advisor.errors import InputError
from vllm_advisor.shard import Shard, parse_shard

NAMES = st.text("abcdefghijklmnopqrstuvwxyz-0123456789", min_size=1, max_size=20)


@given(NAMES, st.integers(1, 50))
def test_every_deployment_is_one_daemons(name: str, total: int) -> None:
    """Of any number of shares, just one takes a deployment."""
    assert sum(Shard(number, total).takes(name) for number in range(1, total + 1)) == 1


def test_shares_are_even() -> None:
    """Each of five shares of a thousand deployments has within a quarter of two hundred."""
    taken = [sum(Shard(number, 5).takes(f"model-{index}") for index in range(1000)) for number in range(1, 6)]
    assert all(150 <= one <= 250 for one in taken), taken


@pytest.mark.parametrize(
    "text",
    ["", "0/2", "3/2", "1", "a/b", "-1/2", "1/2/3", "½/2", "\N{FULLWIDTH DIGIT TWO}/5", "1/" + "9" * 5000],
)
def test_what_is_no_share_is_refused(text: str) -> None:
    """Only 1/N to N/N are shares."""
    with pytest.raises(InputError, match="--shard"):
        parse_shard(text)


def test_two_daemons_share_one_configuration(tmp_path: Path) -> None:
    """Two daemons of one file hold every deployment once between them."""
    names = [f"model-{index}" for index in range(6)]
    config = tmp_path / "advisor.yml"
    deployments = "".join(
        f"  - {{name: {name}, static_configs: [{{targets: ['127.0.0.1:9']}}]}}\n" for name in names
    )
    config.write_text(f"storage: {{path: data}}\ndeployments:\n{deployments}", encoding="utf-8")
    held = []
    for number in (1, 2):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "advisor.yml").write_text(config.read_text(encoding="utf-8"), encoding="utf-8")
        with daemon_process(["serve", "--config.file=advisor.yml", f"--shard={number}/2"], folder) as daemon:
            (event,) = [event for event in daemon.log() if event["msg"] == "listening"]
            held.append(event["deployments"])
    assert held == [sum(Shard(number, 2).takes(name) for name in names) for number in (1, 2)]
    assert sum(held) == len(names)
