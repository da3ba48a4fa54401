"""`sweep` against real HTTP servers that behave and misbehave."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
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


@contextmanager
def _signalled_at(server: OpenAiServer, users: int, number: signal.Signals) -> Iterator[None]:
    """Send this process a signal once so many requests run."""

    def send() -> None:
        while server.running < users:
            time.sleep(0.01)
        os.kill(os.getpid(), number)

    thread = threading.Thread(target=send)
    thread.start()
    yield
    thread.join()


def _levels(sweep: Sweep) -> list[int]:
    return [level.concurrency for level in sweep.levels]


def test_it_doubles_halves_and_stops_by_itself(tmp_path: Path) -> None:
    """A pace of 20 ms + 10 ms a request misses 75 ms by 8 users: it is bracketed, and 16 never asked."""
    output = tmp_path / "sweep.json"
    with serving(OpenAiServer(0.02, 0.01)) as server:
        assert _sweep(server, output, "--slo.tpot=75ms", "--slo.quantile=mean") == 0
        assert _all_ended(server)
    sweep = read_sweep(output)
    assert max(_levels(sweep)) <= 8
    tpots = {level.concurrency: level.tpot_seconds["mean"] for level in sweep.levels}
    missed = min(users for users, tpot in tpots.items() if tpot > 0.075)
    assert missed - 1 in tpots
    ceiling = sweep_ceiling(sweep, SloConfig(tpot="75ms", quantile="mean"))
    assert ceiling.sequences is not None
    assert ceiling.sequences < missed


def test_tpot_is_the_servers_own(tmp_path: Path) -> None:
    """Client and server agree on the mean time per output token within 10%."""
    output = tmp_path / "sweep.json"
    with serving(OpenAiServer()) as server:
        assert _sweep(server, output, "--levels=4", "--slo.tpot=10s", "--requests=20") == 0
    level = read_sweep(output).levels[0]
    served = server.tpots[6:]
    assert level.tpot_seconds["mean"] == pytest.approx(sum(served) / len(served), rel=0.1)


def test_tokens_a_second_are_the_servers_own(tmp_path: Path) -> None:
    """In three short rounds of eight users, the rate is the server's in its steady middle, to 10%."""
    output = tmp_path / "sweep.json"
    with serving(OpenAiServer()) as server:
        assert _sweep(server, output, "--levels=8", "--slo.tpot=10s") == 0
    written = sorted(server.token_seconds)
    start, end = (written[0] + (written[-1] - written[0]) * part for part in (0.3, 0.7))
    steady = sum(start < one <= end for one in written) / (end - start)
    assert read_sweep(output).levels[0].output_tokens_per_second == pytest.approx(steady, rel=0.1)


def test_the_targets_own_quantile_is_measured(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A p99.9 target is in the file under its name, and gets an answer."""
    output = tmp_path / "sweep.json"
    with serving(OpenAiServer()) as server:
        assert _sweep(server, output, "--levels=1", "--slo.tpot=10s", "--slo.quantile=0.999") == 0
    assert "p99.9" in read_sweep(output).levels[0].tpot_seconds
    assert "not reached: 1 users still meet a p99.9" in capsys.readouterr().out


def test_the_file_goes_into_plan(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What `sweep` writes, `plan` reads."""
    output = tmp_path / "sweep.json"
    with serving(OpenAiServer(0.02, 0.01)) as server:
        _sweep(server, output, "--slo.tpot=65ms", "--levels=1,8", "--no-refine")
    capsys.readouterr()
    model = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 512}
    heads = {"num_hidden_layers": 4, "num_attention_heads": 8, "num_key_value_heads": 8}
    shape = {"intermediate_size": 1024, "vocab_size": 1000, "torch_dtype": "bfloat16"}
    config = tmp_path / "config.json"
    config.write_text(json.dumps(model | heads | shape), encoding="utf-8")
    plan = ["plan", "--model-config", str(config), "--kv-cache-memory", "1GiB", "--max-model-len", "1024"]
    plan += ["--sweep", str(output)]
    assert main([*plan, "--slo.tpot", "65ms", "--slo.quantile", "mean", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["latency_ceiling"] in {3, 4, 5}


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


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_keeps_what_was_measured_and_leaves_nothing_running(
    tmp_path: Path, number: signal.Signals
) -> None:
    """A signal in the middle of a level: exit 130, the levels before it in the file, the server idle."""
    output = tmp_path / "s.json"
    with serving(OpenAiServer()) as server, _signalled_at(server, 4, number):
        assert _sweep(server, output, "--levels=1,4", "--slo.tpot=10s") == 130
        assert _all_ended(server)
    assert _levels(read_sweep(output)) == [1]


def test_an_interrupt_before_anything_was_measured_writes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """SIGINT in the first level: exit 130, one line, no file."""
    output = tmp_path / "s.json"
    with serving(OpenAiServer()) as server, _signalled_at(server, 4, signal.SIGINT):
        assert _sweep(server, output, "--levels=4") == 130
        assert _all_ended(server)
    assert capsys.readouterr().err == "Interrupted.\n"
    assert not output.exists()


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
    assert read_sweep(output).levels[0].requests in {20, 21}  # both users may end one at the same moment


def test_streams_that_keep_breaking_end_the_sweep(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Where every second stream breaks, nothing measured is believed."""
    with serving(OpenAiServer(cut_every=2)) as server:
        assert _sweep(server, tmp_path / "s.json", "--levels=4") == 1
        assert _all_ended(server)
    assert "too many requests failed, the last of them by a stream that was cut" in capsys.readouterr().err


def test_a_level_over_the_engines_cap_is_said_not_to_be_reached(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An engine with max-num-seqs 3 under 12 users: the level is dropped, the cap is told."""
    output = tmp_path / "s.json"
    with serving(OpenAiServer(0.02, 0.0, cap=3)) as server:
        flags = ("--levels=2,12", "--slo.tpot=10s", "--requests=40", "--level-time=3s")
        assert _sweep(server, output, *flags) == 0
        assert _all_ended(server)
    assert _levels(read_sweep(output)) == [2]
    assert "12 users was not reached: the engine runs at most 3 at once" in capsys.readouterr().err


def test_the_engines_cap_is_measured_where_levels_are_not_given(tmp_path: Path) -> None:
    """Doubling from 1 under a cap of 3 comes to 4, which waits, and so to 3, the last that can be reached."""
    output = tmp_path / "s.json"
    with serving(OpenAiServer(0.02, 0.0, cap=3)) as server:
        assert _sweep(server, output, "--slo.tpot=10s", "--requests=30", "--level-time=4s") == 0
    assert _levels(read_sweep(output)) == [1, 2, 3]


def test_others_on_the_engine_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With --force beside three requests of others, the file says that they were there."""
    output = tmp_path / "s.json"
    with serving(OpenAiServer(others=3)) as server:
        flags = ("--levels=2", "--slo.tpot=10s", "--force", "--requests=30")
        assert _sweep(server, output, *flags) == 0
    note = "With 2 users the engine served 3 requests of others too."
    assert read_sweep(output).engine["notes"] == [note]
    assert note in capsys.readouterr().err


@pytest.mark.parametrize("flag", ["--max-time=2s", "--max-tokens=100"])
def test_a_limit_ends_the_sweep_between_two_requests(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], flag: str
) -> None:
    """What was measured until then stands, a level that hardly began does not, and the limit is named."""
    output = tmp_path / "s.json"
    with serving(OpenAiServer()) as server:
        assert _sweep(server, output, "--levels=1,2,4,8,16,32", "--slo.tpot=10s", "--requests=3", flag) == 0
        assert _all_ended(server)
    assert 1 <= len(read_sweep(output).levels) < 6
    assert "limit on time or tokens" in capsys.readouterr().err


def test_lengths_come_from_a_trace_and_chat_is_spoken(tmp_path: Path) -> None:
    """Outputs are those of the log, cut to what the endpoint takes."""
    log = tmp_path / "log.jsonl"
    usages = [{"prompt_tokens": 30, "completion_tokens": output} for output in (5, 9)]
    log.write_text("\n".join(json.dumps({"ts": 1.7e9, "usage": usage}) for usage in usages), encoding="utf-8")
    with serving(OpenAiServer()) as server:
        flags = ("--trace", str(log), "--chat", "--levels=2", "--slo.tpot=10s")
        assert _sweep(server, tmp_path / "s.json", *flags) == 0
    assert {body["max_tokens"] for body in server.bodies[2:]} == {5, 9}
    assert all("messages" in body for body in server.bodies)


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
        ("--daemon=ftp://here", "expected an address such as"),
        ("--ca-file=/no/such.pem", "--ca-file: cannot be read as certificates"),
        ("--output=/no/such/sweep.json", "is in no folder that exists"),
        ("--trace=/no/such.jsonl", "/no/such.jsonl"),
        ("--api-key-env=NO_SUCH_KEY", "the environment has no NO_SUCH_KEY"),
    ],
)
def test_wrong_flags_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], flag: str, said: str
) -> None:
    """One line naming the flag, before any load; exit 2 but where the flag fits no server or environment."""
    fits_nowhere = flag.startswith(("--model", "--api-key-env", "--ca-file", "--output", "--trace"))
    with serving(OpenAiServer()) as server:
        assert _sweep(server, tmp_path / "s.json", flag) == (1 if fits_nowhere else 2)
        assert not server.bodies
    assert said in capsys.readouterr().err
