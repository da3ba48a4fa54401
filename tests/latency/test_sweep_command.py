"""`sweep` against real HTTP servers that behave and misbehave."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from pathlib import Path

import pytest

from support.openai_server import OpenAiServer, serving
from vllm_advisor.ceilings.latency import sweep_ceiling
from vllm_advisor.cli import main
from vllm_advisor.config import SloConfig
from vllm_advisor.sources.sweep_file import Sweep, read_sweep

QUICK = ("--yes", "--prompt-tokens", "20", "--output-tokens", "12", "--requests", "8", "--level-time", "5s")


def _sweep(server: OpenAiServer, output: Path, *flags: str) -> int:
    return main(["sweep", server.url, *QUICK, "--output", str(output), *flags])


def _all_ended(server: OpenAiServer) -> bool:
    """Wait for the server to notice closed connections."""
    deadline = time.monotonic() + 3
    while server.under_way and time.monotonic() < deadline:
        time.sleep(0.02)
    return server.under_way == 0


def _levels(sweep: Sweep) -> list[int]:
    return [level.concurrency for level in sweep.levels]


def test_it_doubles_halves_and_stops_by_itself(tmp_path: Path) -> None:
    """A pace of 5 ms + 2 ms a request misses 15 ms by 8 users: it is bracketed, and 16 never asked."""
    output = tmp_path / "sweep.json"
    with serving(OpenAiServer(0.005, 0.002)) as server:
        assert _sweep(server, output, "--slo.tpot=15ms", "--slo.quantile=mean") == 0
        assert _all_ended(server)
    sweep = read_sweep(output)
    assert max(_levels(sweep)) <= 8
    tpots = {level.concurrency: level.tpot_seconds["mean"] for level in sweep.levels}
    missed = min(users for users, tpot in tpots.items() if tpot > 0.015)
    assert missed - 1 in tpots
    ceiling = sweep_ceiling(sweep, SloConfig(tpot="15ms", quantile="mean"))
    assert ceiling.sequences is not None
    assert ceiling.sequences < missed


def test_tpot_is_the_servers_own(tmp_path: Path) -> None:
    """Client and server agree on the mean time per output token within 10%."""
    output = tmp_path / "sweep.json"
    with serving(OpenAiServer(0.01, 0.002)) as server:
        assert _sweep(server, output, "--levels=4", "--slo.tpot=10s", "--requests=20") == 0
    level = read_sweep(output).levels[0]
    served = server.tpots[5:]
    assert level.tpot_seconds["mean"] == pytest.approx(sum(served) / len(served), rel=0.1)


def test_the_file_goes_into_plan(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What `sweep` writes, `plan` reads."""
    output = tmp_path / "sweep.json"
    with serving(OpenAiServer(0.005, 0.002)) as server:
        _sweep(server, output, "--slo.tpot=11ms", "--levels=1,8", "--no-refine")
    capsys.readouterr()
    model = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 512}
    heads = {"num_hidden_layers": 4, "num_attention_heads": 8, "num_key_value_heads": 8}
    shape = {"intermediate_size": 1024, "vocab_size": 1000, "torch_dtype": "bfloat16"}
    config = tmp_path / "config.json"
    config.write_text(json.dumps(model | heads | shape), encoding="utf-8")
    plan = ["plan", "--model-config", str(config), "--kv-cache-memory", "1GiB", "--max-model-len", "1024"]
    plan += ["--sweep", str(output)]
    assert main([*plan, "--slo.tpot", "11ms", "--slo.quantile", "mean", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["latency_ceiling"] in {1, 2, 3, 4}


def test_it_asks_first(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without --yes and without anybody to ask, no request is sent."""
    with serving(OpenAiServer()) as server:
        assert main(["sweep", server.url, "--output", str(tmp_path / "s.json")]) == 2
        assert not server.bodies
    assert "--yes" in capsys.readouterr().err


def test_it_leaves_a_busy_engine_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An engine that serves others is only loaded with --force."""
    with serving(OpenAiServer(others=3)) as server:
        assert _sweep(server, tmp_path / "s.json") == 1
        assert not server.bodies
        assert "3 running" in capsys.readouterr().err
        assert _sweep(server, tmp_path / "s.json", "--levels=1", "--force") == 0


def test_an_interrupt_keeps_what_was_measured_and_leaves_nothing_running(tmp_path: Path) -> None:
    """SIGINT in the middle of a level: exit 130, the levels before it in the file, the server idle."""
    output = tmp_path / "s.json"
    with serving(OpenAiServer(0.02, 0.0)) as server:

        def interrupt() -> None:
            while server.running < 4:
                time.sleep(0.01)
            os.kill(os.getpid(), signal.SIGINT)

        thread = threading.Thread(target=interrupt)
        thread.start()
        status = _sweep(server, output, "--levels=1,4", "--slo.tpot=10s")
        thread.join()
        assert status == 130
        assert _all_ended(server)
    assert _levels(read_sweep(output)) == [1]


def test_a_refused_connection_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nobody listens: exit 1 and the address."""
    with serving(OpenAiServer()) as server:
        pass
    assert _sweep(server, tmp_path / "s.json") == 1
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert f"{server.url} cannot be reached" in error


def test_rate_limits_end_the_sweep_at_the_level_they_keep_from(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A gateway that lets four through: levels to 4 are measured, 16 is said not to be reached."""
    output = tmp_path / "s.json"
    with serving(OpenAiServer(refuse_above=4)) as server:
        assert _sweep(server, output, "--levels=2,4,16", "--slo.tpot=10s") == 0
        assert _all_ended(server)
    assert _levels(read_sweep(output)) == [2, 4]
    assert "16 users was not reached" in capsys.readouterr().err


def test_a_refusal_for_length_is_the_servers_own_words(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """400 ends the sweep with what the server said, and writes nothing."""
    output = tmp_path / "s.json"
    with serving(OpenAiServer(longest_tokens=8)) as server:
        assert _sweep(server, output) == 1
        assert _all_ended(server)
    assert "answers 400: max_tokens=12 cannot be greater than 8" in capsys.readouterr().err
    assert not output.exists()


def test_streams_cut_now_and_then_are_left_out(tmp_path: Path) -> None:
    """One stream in ten that breaks is not measured, and does not end the sweep."""
    output = tmp_path / "s.json"
    with serving(OpenAiServer(cut_every=10)) as server:
        assert _sweep(server, output, "--levels=2", "--slo.tpot=10s", "--requests=20") == 0
        assert _all_ended(server)
    assert read_sweep(output).levels[0].requests == 20


def test_streams_that_keep_breaking_end_the_sweep(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Where every second stream breaks, nothing measured is believed."""
    with serving(OpenAiServer(cut_every=2)) as server:
        assert _sweep(server, tmp_path / "s.json", "--levels=4") == 1
        assert _all_ended(server)
    assert "streams broke off" in capsys.readouterr().err


def test_without_usage_chunks_are_counted_and_it_says_so(tmp_path: Path) -> None:
    """An endpoint that reports no usage is still measured; the file says how."""
    output = tmp_path / "s.json"
    with serving(OpenAiServer(0.01, 0.0, reports_usage=False)) as server:
        assert _sweep(server, output, "--levels=2", "--slo.tpot=10s") == 0
    sweep = read_sweep(output)
    served = server.tpots[1:]
    assert sweep.levels[0].tpot_seconds["mean"] == pytest.approx(sum(served) / len(served), rel=0.15)
    assert "counted as chunks" in sweep.engine["notes"][0]


def test_a_level_over_the_engines_cap_is_said_not_to_be_reached(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An engine with max-num-seqs 3 under 12 users: the level is dropped, the cap is told."""
    output = tmp_path / "s.json"
    with serving(OpenAiServer(0.01, 0.0, cap=3)) as server:
        flags = ("--levels=2,12", "--slo.tpot=10s", "--requests=40", "--level-time=3s")
        assert _sweep(server, output, *flags) == 0
        assert _all_ended(server)
    assert _levels(read_sweep(output)) == [2]
    assert "the engine runs at most 3 at once" in capsys.readouterr().err


def test_lengths_come_from_a_trace_and_chat_is_spoken(tmp_path: Path) -> None:
    """Outputs are those of the log, cut to what the endpoint takes."""
    log = tmp_path / "log.jsonl"
    usages = [{"prompt_tokens": 30, "completion_tokens": output} for output in (5, 9)]
    log.write_text("\n".join(json.dumps({"ts": 1.7e9, "usage": usage}) for usage in usages), encoding="utf-8")
    with serving(OpenAiServer()) as server:
        flags = ("--trace", str(log), "--chat", "--levels=2", "--slo.tpot=10s")
        assert _sweep(server, tmp_path / "s.json", *flags) == 0
    assert {body["max_tokens"] for body in server.bodies} == {2, 5, 9}
    assert all("messages" in body for body in server.bodies)


def test_it_hands_the_sweep_to_a_daemon(tmp_path: Path) -> None:
    """The file's content is posted to the deployment."""
    output = tmp_path / "s.json"
    with serving(OpenAiServer()) as server:
        flags = ("--levels=1", "--slo.tpot=10s", f"--daemon={server.url}", "--deployment=chat")
        assert _sweep(server, output, *flags) == 0
        assert server.uploaded == [json.loads(output.read_text(encoding="utf-8"))]


@pytest.mark.parametrize(
    ("flag", "said"),
    [
        ("--slo.tpot=40", "expected a duration"),
        ("--slo.quantile=2", "expected mean, or a quantile"),
        ("--slo.quantile=x", "expected mean, or a quantile from 0.5 to 0.999"),
        ("--levels=1,x", "expected whole numbers"),
        ("--level-time=5", "expected a duration"),
        ("--requests=0", "expected at least 1"),
        ("--model=other", "serves no such model; it lists: tiny"),
        ("--api-key-env=NO_SUCH_KEY", "the environment has no NO_SUCH_KEY"),
    ],
)
def test_wrong_flags_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], flag: str, said: str
) -> None:
    """One line naming the flag, before any load; exit 2 but where the flag fits no server or environment."""
    fits_nowhere = flag.startswith(("--model", "--api-key-env"))
    with serving(OpenAiServer()) as server:
        assert _sweep(server, tmp_path / "s.json", flag) == (1 if fits_nowhere else 2)
        assert not server.bodies
    assert said in capsys.readouterr().err
