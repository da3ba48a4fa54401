"""Not a word of a prompt leaves the lines it stands in, whatever their format and whichever way they come."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from support.daemon_process import DaemonProcess, daemon_process
from support.waiting import wait_for
from support.web import ask
from vllm_advisor.cli import main

SAMPLES = Path(__file__).parents[1] / "data" / "access_logs"
NAMES = sorted(path.name for path in SAMPLES.iterdir() if path.suffix in {".jsonl", ".csv", ".log"})
WORDS = "zebra-umbrella-quartz"
PATHS = (
    "",
    "/explain",
    "/history",
    "/what-if",
    "/evidence",
    "/evidence/lengths.csv",
    "/evidence/tradeoff.csv",
)


def with_prompts(name: str) -> bytes:
    """Return a sample with a prompt in each of its lines, whole lines and cut ones."""
    lines = [_with_prompt(line, name) for line in (SAMPLES / name).read_bytes().splitlines()]
    cut = [line[: line.find(WORDS.encode()) + len(WORDS)] for line in lines[2:5]]
    return b"\n".join(
        [*lines, *cut, WORDS.encode(), b'{"messages": "' + WORDS.encode(), b'"' + WORDS.encode()]
    )


def _with_prompt(line: bytes, name: str) -> bytes:
    words = WORDS.encode()
    if name.startswith("docker"):
        return line.replace(b'{\\"', b'{\\"prompt\\":\\"%b\\",\\"' % words, 1)
    if name.endswith(".csv"):
        return line + b',"%b"' % words
    if (b"{" in line and name.endswith("l")) or name.startswith("cri"):
        return line.replace(b"{", b'{"prompt":"%b","messages":[{"content":"%b"}],' % (words, words), 1)
    return line + b" prompt: '%b'" % words


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with a log of every format, and a configuration that follows each for a deployment."""
    lines = [f"storage: {{path: {tmp_path}/data}}", "deployments:"]
    for number, name in enumerate(NAMES):
        (tmp_path / name).write_bytes(with_prompts(name) + b"\n")
        lines += [
            f"  - name: d{number}",
            "    context: {window: 36500d}",
            "    static_configs: [{targets: ['127.0.0.1:9']}]",
            f"    access_logs: [{{paths: ['{tmp_path}/{name}']}}]",
        ]
    (tmp_path / "advisor.yml").write_text("\n".join(lines))
    return tmp_path


def answers(daemon: DaemonProcess) -> dict[str, str]:
    """Return what every door answers."""
    paths = ["/", "/metrics", "/targets", "/config", "/api/v1/recommendations", "/api/v1/targets"]
    for number in range(len(NAMES)):
        paths += [f"/deployments/d{number}", *(f"/api/v1/deployments/d{number}{path}" for path in PATHS)]
    return {path: ask(daemon.url + path).text for path in paths}


def test_the_daemon_lets_no_word_out(folder: Path) -> None:
    """Neither its talkative log, nor metrics, API, pages or state have the words, read or pushed."""
    flags = ["--web.enable-api-writes", "--log.level=debug"]
    with daemon_process(["serve", f"--config.file={folder}/advisor.yml", *flags], folder) as daemon:
        wait_for(
            lambda: (daemon.value("log_lines_total", outcome="served") or 0) > 200, "lines read", seconds=20
        )
        headers = {"Content-Type": "text/plain"}
        pushed = [
            ask(
                f"{daemon.url}/api/v1/deployments/d{number}/requests",
                method="POST",
                body=with_prompts(name),
                headers=headers,
            )
            for number, name in enumerate(NAMES)
        ]
        wait_for(lambda: "d0" in daemon.get("/api/v1/recommendations"), "a recommendation", seconds=20)
        said = answers(daemon)
        broken = daemon.value("log_lines_total", outcome="broken") or 0
        daemon.stop()
        said["log"] = (folder / "daemon.log").read_text()
        said["output"] = (folder / "daemon.out").read_text()
    with sqlite3.connect(folder / "data" / "state.db") as connection:
        rows = connection.execute("SELECT path, value FROM entries").fetchall()
    connection.close()

    assert broken > 20
    assert all(answer.status == 200 for answer in pushed)
    assert len(rows) > len(NAMES)
    assert [name for name, text in said.items() if WORDS in text] == []
    assert not any(WORDS in answer.text for answer in pushed)
    assert not any(WORDS.encode() in file.read_bytes() for file in (folder / "data").iterdir())


def test_contexts_lets_no_word_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Neither answers nor errors have the words, with any format named for any lines."""
    path = tmp_path / "a.log"
    for name in NAMES:
        path.write_bytes(with_prompts(name))
        for form in ("auto", "json", "csv", "litellm", "vllm", "otlp"):
            for flags in ([], ["--json"]):
                main(["contexts", str(path), f"--format={form}", *flags])
    out, err = capsys.readouterr()

    assert "requests" in out
    assert "no request with token counts" in err
    assert WORDS not in out + err
