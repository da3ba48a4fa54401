"""The same files and relabelling through Debian's Prometheus and through ours lead to the same pages."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import aiohttp
import pytest
import yaml

from support.stores import free_port, running
from support.waiting import wait_for
from vllm_advisor.addresses import metrics_url
from vllm_advisor.config import DeploymentConfig
from vllm_advisor.target_finder import TargetFinder

ADDRESS = "__address__"
LABELS = {"pod": "vllm-0", "team": "x-y", "__meta_port": "9000", "weird": "a;b", "number": "12"}
LISTED = json.dumps([{"targets": ["a:8000", "b:8001", "[::1]:8000", "c"], "labels": LABELS}])
STEPS: dict[str, list[dict[str, Any]]] = {
    "keep is anchored": [{"source_labels": [ADDRESS], "regex": "a:8", "action": "keep"}],
    "each alternative is": [{"source_labels": [ADDRESS], "regex": "a|b:8001", "action": "keep"}],
    "an empty one drops what is missing": [{"source_labels": ["no"], "regex": "", "action": "drop"}],
    "whole numbers are texts": [{"source_labels": ["number"], "regex": 12, "action": "keep"}],
    "a port in the replacement": [
        {"target_label": "__meta_port", "replacement": 9100},
        {
            "source_labels": [ADDRESS, "__meta_port"],
            "regex": r"([^:]+)(?::\d+)?;(\d+)",
            "replacement": "$1:$2",
            "target_label": ADDRESS,
        },
    ],
    "the scheme is known before": [{"source_labels": ["__scheme__"], "regex": "http", "action": "keep"}],
    "the path too": [
        {
            "source_labels": ["__metrics_path__"],
            "regex": "(.+)",
            "replacement": "/x$1",
            "target_label": "__metrics_path__",
        }
    ],
    "a path without a slash": [{"target_label": "__metrics_path__", "replacement": "m"}],
    "another scheme": [{"target_label": "__scheme__", "replacement": "https"}],
    "parameters": [
        {"source_labels": [ADDRESS], "target_label": "__param_target"},
        {"target_label": "__param_b", "replacement": "x y&"},
        {"target_label": ADDRESS, "replacement": "gateway:81"},
    ],
    "one page of many": [{"target_label": ADDRESS, "replacement": "one:1"}],
    "no separator": [
        {"source_labels": ["pod", "team"], "separator": "", "regex": "vllm-0x-y", "action": "keep"}
    ],
    "a separator in a value": [{"source_labels": ["weird"], "regex": "a;b", "action": "drop"}],
    "letters of any size": [{"source_labels": ["team"], "regex": "(?i)X-Y", "action": "keep"}],
    "classes": [{"source_labels": ["number"], "regex": "[[:digit:]]+", "action": "keep"}],
    "not of a class": [{"source_labels": ["pod"], "regex": "[^[:digit:]]+0", "action": "keep"}],
    "the end of the text": [{"source_labels": ["number"], "regex": r"\d+\z", "action": "keep"}],
    "a group in the name": [
        {"source_labels": ["pod"], "regex": "(vllm)-(.*)", "target_label": "__param_$1", "replacement": "$2"}
    ],
    "an action in capitals": [{"source_labels": ["pod"], "regex": "vllm-0", "action": "Keep"}],
    "labelmap": [{"regex": "(pod|team)", "action": "labelmap", "replacement": "__param_$1"}],
    "labeldrop": [{"regex": "__meta_.*|pod", "action": "labeldrop"}],
    "labelkeep": [
        {"source_labels": ["pod"], "target_label": "__param_pod"},
        {"regex": "__(address|scheme|metrics_path|scrape_.*)__", "action": "labelkeep"},
    ],
    "hashmod": [
        {"source_labels": [ADDRESS], "modulus": 2, "target_label": "__tmp", "action": "hashmod"},
        {"source_labels": ["__tmp"], "regex": 1, "action": "keep"},
    ],
    "uppercase": [{"source_labels": ["pod"], "target_label": "__param_p", "action": "uppercase"}],
    "lowercase": [{"source_labels": ["pod"], "target_label": "__param_p", "action": "lowercase"}],
    "keepequal": [{"source_labels": ["pod"], "target_label": "team", "action": "keepequal"}],
    "dropequal": [{"source_labels": ["pod"], "target_label": "team", "action": "dropequal"}],
}
FILES = {
    "empty.json": "",
    "null.json": "null",
    "none.json": "[]",
    "empty.yml": "",
    "comment.yml": "# nothing yet\n",
    "no_group.json": '[null, {"targets": ["a:1"]}]',
    "plain.yml": "- targets: [a:1]\n  labels: {team: 1, on: true, none: null, ratio: 1.50}\n",
    "number.json": '[{"targets": ["a:1"], "labels": {"team": 1}}]',
    "no_label.json": '[{"targets": ["a:1"], "labels": {"team": null}}]',
    "unknown.json": '[{"targets": ["a:1"], "x": 1}]',
    "unknown.yml": "- targets: [a:1]\n  x: 1\n",
    ".hidden.json": '[{"targets": ["a:1"]}]',
    "capitals.JSON": '[{"targets": ["a:1"]}]',
    "bad_label.json": '[{"targets": ["a:1"], "labels": {"a-b": "x"}}]',
    "no_targets.json": '[{"labels": {"a": "b"}}]',
    "twice.json": '[{"targets": ["z:1"], "targets": ["a:1"]}]',
    "more.json": '[{"targets": ["a:1"]}] x',
    "half.json": '[{"targets": ["a:1"',
    "object.json": '{"targets": ["a:1"]}',
    "deep.json": "[" * 100_000,
    "deep.yml": "[" * 3_000,
    "same.yml": "- &x\n  targets: [a:1]\n- *x\n",
    "no_address.json": '[{"targets": ["", "b:1"]}]',
    "meta.json": json.dumps(
        [{"targets": ["a:1"], "labels": {"__metrics_path__": "/m", "__scheme__": "https", "__param_q": "1"}}]
    ),
}


@pytest.fixture(scope="module")
def scraped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, dict[str, list[str]]]]:
    """Run Prometheus over all of it; give the folder, and the pages that each job would scrape."""
    folder = tmp_path_factory.mktemp("sd")
    port, jobs = free_port(), []
    for name, steps in STEPS.items():
        jobs.append({"job_name": name, "relabel_configs": steps} | listing(folder, name, "list.json", LISTED))
    for name, text in FILES.items():
        jobs.append({"job_name": name} | listing(folder, name, name, text))
    config = {"global": {"scrape_interval": "1h"}, "scrape_configs": jobs}
    (folder / "prometheus.yml").write_text(yaml.safe_dump(config), encoding="utf-8")
    command = [
        *("prometheus", f"--config.file={folder / 'prometheus.yml'}", "--log.level=error"),
        *(f"--storage.tsdb.path={folder / 'data'}", f"--web.listen-address=127.0.0.1:{port}"),
    ]
    with running(command, folder / "prometheus.log"):
        yield folder, wait_for(lambda: settled(port), "its targets", every_seconds=1)


def listing(folder: Path, name: str, file: str, text: str) -> dict[str, Any]:
    """Write a file into a folder of its own; return what reads it."""
    own = folder / name.replace(" ", "_")
    own.mkdir()
    (own / file).write_text(text, encoding="utf-8")
    return {"file_sd_configs": [{"files": [f"{own}/*.{ending}" for ending in ("json", "yml", "JSON")]}]}


def settled(port: int) -> dict[str, list[str]] | None:
    """Return the pages by job, once the last file is read."""
    try:
        with urlopen(f"http://127.0.0.1:{port}/api/v1/targets?state=active", timeout=5) as answer:
            targets = json.load(answer)["data"]["activeTargets"]
    except OSError:
        return None
    pages: dict[str, list[str]] = {name: [] for name in (*STEPS, *FILES)}
    for one in targets:
        pages[one["scrapePool"]].append(one["scrapeUrl"].replace("c:80/", "c/").replace("c:443/", "c/"))
    return {name: sorted(urls) for name, urls in pages.items()} if pages["meta.json"] else None


async def found(config: dict[str, Any]) -> list[str]:
    """Return the pages that our discovery finds."""
    finder = TargetFinder(DeploymentConfig.model_validate(config | {"name": "x"}), lambda _: None)
    async with aiohttp.ClientSession() as session:
        finder.follow(session)
        await asyncio.sleep(0.3)
        names = sorted(map(metrics_url, finder.targets()))
        finder.close()
        await asyncio.sleep(0)
    return names


@pytest.mark.parametrize("name", STEPS)
async def test_steps_mean_the_same(scraped: tuple[Path, dict[str, list[str]]], name: str) -> None:
    """After some steps the same pages are left, each once."""
    folder, expected = scraped
    config = {"file_sd_configs": [{"files": [f"{folder}/{name.replace(' ', '_')}/list.json"]}]}
    assert await found(config | {"relabel_configs": STEPS[name]}) == expected[name]


@pytest.mark.parametrize("name", FILES)
async def test_files_mean_the_same(scraped: tuple[Path, dict[str, list[str]]], name: str) -> None:
    """A file is read, or refused as a whole, as Prometheus does that."""
    folder, expected = scraped
    patterns = [f"{folder}/{name}/*.{ending}" for ending in ("json", "yml", "JSON")]
    assert await found({"file_sd_configs": [{"files": patterns}]}) == expected[name]
