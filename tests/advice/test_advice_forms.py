"""The forms a recommendation is pasted in."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from support.advice_pages import ScriptedEngine, Situation, capture, config_file
from vllm_advisor.ceilings.capture_sizes import capture_size_above, capture_size_below
from vllm_advisor.ceilings.recommended_form import cap_flags
from vllm_advisor.commands import recommend
from vllm_advisor.errors import EvidenceError, InputError
from vllm_advisor.sources.engine_facts import admission_cap
from vllm_advisor.web.formats import FORMATS

RECOMMENDATION: dict[str, Any] = {
    "deployment": "chat",
    "vllm_args": "--max-model-len 12288 --max-num-seqs 48 --max-num-active-seqs 43",
}


@pytest.mark.parametrize(
    ("sequences", "version", "flags"),
    [
        (43, "0.32.0", "--max-num-seqs 48 --max-num-active-seqs 43"),
        (43, "0.33.1", "--max-num-seqs 48 --max-num-active-seqs 43"),
        (40, "0.32.0", "--max-num-seqs 40"),
        (43, "0.31.0", "--max-num-seqs 43"),
        (43, None, "--max-num-seqs 43"),
        (43, "nightly", "--max-num-seqs 43"),
        (700, "0.32.0", "--max-num-seqs 700"),
    ],
)
def test_two_flags_where_the_engine_has_them(sequences: int, version: str | None, flags: str) -> None:
    """Buffers and graphs are made for the next capture size, admission stays exact."""
    assert cap_flags(sequences, version) == flags


@pytest.mark.parametrize(
    ("arguments", "cap"),
    [
        ({"max_num_seqs": 256, "max_num_active_seqs": 43}, 43),
        ({"max_num_seqs": 256, "max_num_active_seqs": None}, 256),
        ({"max_num_active_seqs": "43"}, 43),
        ({}, None),
    ],
)
def test_the_lower_of_two_caps_is_the_cap(arguments: dict[str, object], cap: int | None) -> None:
    """An engine that admits 43 of 256 is capped at 43."""
    assert admission_cap(arguments) == cap


@pytest.mark.parametrize(
    ("sequences", "above", "below"), [(1, 1, 1), (3, 4, 2), (9, 16, 8), (250, 256, 248), (257, 272, 256)]
)
def test_capture_sizes_are_vllms(sequences: int, above: int, below: int) -> None:
    """1, 2, 4, eights to 256, sixteens to 512."""
    assert (capture_size_above(sequences), capture_size_below(sequences)) == (above, below)
    assert capture_size_above(513) is None


def test_helm_values_are_the_charts() -> None:
    """The production-stack chart has keys for two flags and takes the third as it is."""
    values = yaml.safe_load(FORMATS["helm"](RECOMMENDATION))

    assert values["servingEngineSpec"]["modelSpec"] == [
        {
            "name": "chat",
            "vllmConfig": {
                "maxModelLen": 12288,
                "maxNumSeqs": 48,
                "extraArgs": ["--max-num-active-seqs=43"],
            },
        }
    ]


def test_the_kubernetes_patch_appends() -> None:
    """Each flag is added at the end of the first container's arguments."""
    patch = json.loads(FORMATS["kubernetes"](RECOMMENDATION))

    assert {one["op"] for one in patch} == {"add"}
    assert [one["value"] for one in patch] == [
        "--max-model-len=12288",
        "--max-num-seqs=48",
        "--max-num-active-seqs=43",
    ]


def run(*arguments: str) -> int:
    """Run the command."""
    parser = argparse.ArgumentParser()
    recommend.add_arguments(parser)
    return recommend.run(parser.parse_args(arguments))


def test_a_replay_prints_the_flags(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Requests of 700 tokens want a limit of 1,024."""
    pages = capture(tmp_path / "capture.jsonl", ScriptedEngine(), [(Situation(8), 300)])
    config = config_file(tmp_path)

    assert run("--replay", str(pages), "--config.file", str(config)) == 0
    assert capsys.readouterr().out == "--max-model-len 1024\n"


def test_several_are_told_apart(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each deployment's flags stand under its name, and all JSON is one document."""
    pages = capture(tmp_path / "capture.jsonl", ScriptedEngine(), [(Situation(8), 300)])
    target = "http://vllm-1:8000/metrics"
    more = capture(tmp_path / "more.jsonl", ScriptedEngine(), [(Situation(8), 300)], target=target)
    one = config_file(tmp_path).read_text().partition("\n")[2]
    both = tmp_path / "both.yml"
    both.write_text(f"deployments:\n{one}{one.replace('chat', 'code').replace('vllm-0', 'vllm-1')}")
    asked = ("--replay", str(pages), str(more), f"--config.file={both}")

    assert run(*asked) == 0
    assert capsys.readouterr().out == "# chat\n--max-model-len 1024\n# code\n--max-model-len 1024\n"
    assert run(*asked, "--json") == 0
    found = json.loads(capsys.readouterr().out)["recommendations"]
    assert [recommendation["deployment"] for recommendation in found] == ["chat", "code"]
    assert run(*asked, "--json", "--deployment=code") == 0
    assert json.loads(capsys.readouterr().out)["deployment"] == "code"


def test_no_number_is_no_answer(tmp_path: Path) -> None:
    """An idle engine gives nothing to paste."""
    pages = capture(tmp_path / "capture.jsonl", ScriptedEngine(), [(Situation(0), 60)])

    with pytest.raises(EvidenceError, match="does not carry a number"):
        run("--replay", str(pages), "--config.file", str(config_file(tmp_path)))


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ((), "either"),
        (("http://127.0.0.1:9",), "no running daemon"),
        (("--deployment", "other", "--replay"), "no deployment 'other'"),
    ],
)
def test_wrong_input_is_named(tmp_path: Path, arguments: tuple[str, ...], problem: str) -> None:
    """A missing, dead or unknown source is one clear line."""
    pages = capture(tmp_path / "capture.jsonl", ScriptedEngine(), [(Situation(8), 300)])
    more = (str(pages),) if "--replay" in arguments else ()

    with pytest.raises(InputError, match=problem):
        run(*arguments, *more)
