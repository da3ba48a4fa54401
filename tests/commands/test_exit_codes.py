"""What commands tell a script: 0 answered, 1 no answer from this input, 2 wrong usage."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from vllm_advisor.cli import main

PAGES = Path(__file__).parent.parent / "data" / "pages"
LIVE_CAPTURE = Path(__file__).parent.parent / "data" / "advice" / "cap-binds-seqs4-c16.jsonl.gz"


def captured(folder: Path, page: str) -> Path:
    """Write a capture of one page, seen twice."""
    text = (PAGES / page).read_text()
    rows = [{"ts": seconds, "target": "vllm-0:8000", "text": text} for seconds in (1000.0, 1005.0)]
    path = folder / "capture.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.mark.parametrize("form", [[], ["--json"]])
def test_a_replay_without_a_value_for_any_flag_is_no_answer(
    form: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An idle engine shows nothing to work a flag out from: printed all the same, and exit 1."""
    path = captured(tmp_path, "metrics-tiny-llama-idle.prom")

    assert main(["replay", str(path), *form]) == 1
    out = capsys.readouterr().out
    if form:
        flags = json.loads(out)["recommendations"][0]["flags"]
        assert [flag["recommended"] for flag in flags.values()] == [None, None]
    else:
        assert "--max-num-seqs" in out


def test_a_replay_with_a_value_is_an_answer(capsys: pytest.CaptureFixture[str]) -> None:
    """A capture under load gives at least one flag."""
    assert main(["replay", str(LIVE_CAPTURE), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["recommendations"][0]["vllm_args"]


@pytest.mark.parametrize(
    "arguments",
    [["plan"], ["plan", "--no-such-flag"], ["contexts"], ["serve", "--log.level", "loud"], ["nothing"], []],
)
def test_wrong_usage_is_one_line(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """What the parser itself refuses is exit 2 and one line as well."""
    with pytest.raises(SystemExit) as ended:
        main(arguments)

    assert ended.value.code == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_help_is_for_users(capsys: pytest.CaptureFixture[str]) -> None:
    """The first words say what the program is for, and none of them how it is built."""
    with pytest.raises(SystemExit):
        main(["--help"])

    text = " ".join(capsys.readouterr().out.split())
    assert "Recommends --max-model-len and --max-num-seqs for vLLM" in text
    assert "module" not in text
