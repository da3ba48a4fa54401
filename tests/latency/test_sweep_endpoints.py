"""`sweep` against endpoints as they are met: keys, certificates, dialects, and answers of other shapes."""

from __future__ import annotations

import json
import ssl
from pathlib import Path
from typing import Any

import pytest
import trustme

from support.openai_server import OpenAiServer, serving
from vllm_advisor.cli import main
from vllm_advisor.sources.sweep_file import Sweep, read_sweep

QUICK = ("--yes", "--prompt-tokens=100", "--output-tokens=12", "--requests=8", "--slo.tpot=10s", "--levels=2")


def _swept(server: OpenAiServer, folder: Path, *flags: str, url: str = "") -> Sweep:
    output = folder / "sweep.json"
    assert main(["sweep", url or server.url, *QUICK, f"--output={output}", *flags]) == 0
    return read_sweep(output)


def _refused(capsys: pytest.CaptureFixture[str], folder: Path, url: str, *flags: str, status: int = 1) -> str:
    """Return the one line that a sweep ends with."""
    output = folder / "sweep.json"
    assert main(["sweep", url, *QUICK, f"--output={output}", *flags]) == status
    assert not output.exists()
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    return error


def _agrees(sweep: Sweep, server: OpenAiServer) -> bool:
    """Tell whether the mean time per output token is the server's own, the two first requests left out."""
    served = server.tpots[2:]
    return sweep.levels[0].tpot_seconds["mean"] == pytest.approx(sum(served) / len(served), rel=0.1)


@pytest.mark.parametrize(
    "below", ["", "/", "/v1", "/v1/", "/v1/completions", "/v1/chat/completions", "/v1/models"]
)
def test_an_address_is_taken_as_people_paste_it(tmp_path: Path, below: str) -> None:
    """The server's, the API's and a door's address are one endpoint, with or without its scheme."""
    with serving(OpenAiServer()) as server:
        assert _swept(server, tmp_path, "--requests=2", url=server.url.removeprefix("http://") + below).levels


@pytest.mark.parametrize(
    "url", ["ftp://127.0.0.1", "http://", "http://127.0.0.1:99999", "http://[::1", "http://a:b"]
)
def test_what_is_no_address_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str], url: str) -> None:
    """Exit 2 and an example of one."""
    assert "expected an address such as http://localhost:8000" in _refused(capsys, tmp_path, url, status=2)


def test_a_host_that_has_no_address_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A name that nobody knows is one that cannot be reached."""
    assert "no-such-host.invalid:80 cannot be reached" in _refused(
        capsys, tmp_path, "http://no-such-host.invalid:80"
    )


def test_a_server_of_something_else_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """No list of models: what it answered, and at which address."""
    with serving(OpenAiServer(lists_models=False)) as server:
        error = _refused(capsys, tmp_path, server.url)
    assert f"{server.url}/v1/models: answers 404: 404: Not Found" in error
    assert "--model" in error


def test_a_gateway_without_a_list_of_models_needs_a_name(tmp_path: Path) -> None:
    """With --model it is swept."""
    with serving(OpenAiServer(lists_models=False)) as server:
        assert _swept(server, tmp_path, "--model=tiny").engine["model"] == "tiny"


def test_a_missing_key_is_asked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """401 names the flag that gives a key, whether the list of models was asked or a completion."""
    with serving(OpenAiServer(api_key="secret")) as server:
        for flags in ((), ("--model=tiny",)):
            assert "answers 401: Unauthorized; an API key is given by --api-key-env" in _refused(
                capsys, tmp_path, server.url, *flags
            )


def test_a_key_opens_and_is_shown_nowhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The key from the environment is sent, a line's end after it left out, and stands in no output."""
    monkeypatch.setenv("SWEEP_KEY", "secret\n")
    with serving(OpenAiServer(api_key="secret")) as server:
        _swept(server, tmp_path, "--api-key-env=SWEEP_KEY")
    shown = capsys.readouterr()
    assert "secret" not in shown.out + shown.err + (tmp_path / "sweep.json").read_text(encoding="utf-8")


def test_a_certificate_is_trusted_when_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A certificate of one's own is refused; its authority, or no check at all, lets it through."""
    authority, tls = trustme.CA(), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(tls)
    trusted = tmp_path / "authority.pem"
    authority.cert_pem.write_to_path(str(trusted))
    with serving(OpenAiServer(tls=tls)) as server:
        error = _refused(capsys, tmp_path, server.url)
        assert "its certificate is not trusted; --ca-file names its authority" in error
        assert _swept(server, tmp_path, f"--ca-file={trusted}").levels
        assert _swept(server, tmp_path, "--insecure-skip-verify").levels
        plain = server.url.replace("https", "http")
        (tmp_path / "sweep.json").unlink()
        capsys.readouterr()
        assert f"{plain} gives no answer" in _refused(capsys, tmp_path, plain)


def test_https_to_a_plain_server_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The address with the wrong scheme cannot be reached."""
    with serving(OpenAiServer()) as server:
        secure = server.url.replace("http", "https")
        assert f"{secure} cannot be reached" in _refused(capsys, tmp_path, secure)


def test_a_chat_only_endpoint_is_told_to_chat(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """404 to completions names --chat, which works."""
    with serving(OpenAiServer(is_chat_only=True)) as server:
        assert "answers 404: Not Found; --chat" in _refused(capsys, tmp_path, server.url)
        assert _agrees(_swept(server, tmp_path, "--chat"), server)


@pytest.mark.parametrize(
    ("refuses", "noted"),
    [
        ({"ignore_eos"}, ["refuses ignore_eos"]),
        ({"stream_options"}, ["reports no usage"]),
        ({"ignore_eos", "stream_options"}, ["refuses ignore_eos", "reports no usage"]),
    ],
    ids=["ignore_eos", "stream_options", "both"],
)
def test_parameters_that_are_refused_are_left_out(
    tmp_path: Path, refuses: set[str], noted: list[str]
) -> None:
    """A server that knows no ignore_eos or stream_options is swept without them, and the file says so."""
    with serving(OpenAiServer(refuses=frozenset(refuses))) as server:
        sweep = _swept(server, tmp_path)
    accepted = [body for body in server.bodies if not refuses & body.keys()]
    assert {"ignore_eos", "stream_options"} - refuses <= accepted[0].keys()
    assert len(sweep.engine["notes"]) == len(noted)
    assert all(any(part in note for note in sweep.engine["notes"]) for part in noted)
    assert _agrees(sweep, server)


@pytest.mark.parametrize(
    "server",
    [OpenAiServer(chunk_tokens=4), OpenAiServer(chunk_tokens=4, reports_usage=False)],
    ids=["usage", "no usage"],
)
def test_several_tokens_in_an_event_all_count(tmp_path: Path, server: OpenAiServer) -> None:
    """Four tokens in an event, counted by usage or by the limit that was reached, are four."""
    with serving(server):
        assert _agrees(_swept(server, tmp_path), server)


def test_without_usage_and_reason_to_finish_chunks_are_counted(tmp_path: Path) -> None:
    """An endpoint that says neither is still measured; the file says how."""
    with serving(OpenAiServer(reports_usage=False, reports_finish=False)) as server:
        sweep = _swept(server, tmp_path)
    assert _agrees(sweep, server)
    assert "counted as chunks" in sweep.engine["notes"][0]


@pytest.mark.parametrize(
    "server",
    [
        OpenAiServer(reasons=True),
        OpenAiServer(reasons=True, reports_usage=False),
        OpenAiServer(has_end_mark=False),
    ],
    ids=["reasoning", "reasoning without usage", "no end mark"],
)
def test_chats_of_other_shapes_are_timed(tmp_path: Path, server: OpenAiServer) -> None:
    """Reasoning counts from its first token; a finished output needs no end mark."""
    with serving(server):
        sweep = _swept(server, tmp_path, "--chat")
    assert _agrees(sweep, server)
    first_seconds = server.base_seconds + 2 * server.per_request_seconds
    assert sweep.levels[0].ttft_p99_seconds == pytest.approx(first_seconds, abs=0.04)


def test_prompts_come_to_the_length_asked_for(tmp_path: Path) -> None:
    """100 tokens are asked; words of three tokens and a template of forty come to them, to a word."""
    with serving(OpenAiServer()) as server:
        _swept(server, tmp_path)
    assert all(abs(tokens - 100) <= 3 for tokens in server.prompt_tokens[2:])


def test_a_tokenizer_of_long_words_refuses_no_first_request(tmp_path: Path) -> None:
    """A prompt as long as the endpoint takes is asked for only once it is known how long words are."""
    with serving(OpenAiServer(longest_prompt_tokens=4000)) as server:
        _swept(server, tmp_path, "--prompt-tokens=8000", "--requests=2")
    assert max(server.prompt_tokens) > 3600


@pytest.mark.parametrize(
    ("server", "said"),
    [
        (OpenAiServer(fails=True), "first answer is no stream of tokens: answers 500: out of order"),
        (OpenAiServer(refuse_above=0), "refuses the first requests already: it answers 429: slow down"),
        (OpenAiServer(breaks_with_an_error=True), "no stream of tokens: a stream that brings an error"),
    ],
    ids=["500", "429", "error event"],
)
def test_an_endpoint_out_of_order_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], server: OpenAiServer, said: str
) -> None:
    """The first answer already tells, in the server's own words."""
    with serving(server):
        assert said in _refused(capsys, tmp_path, server.url)


def test_json_is_all_that_is_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With --json standard output is the sweep file, and standard error says nothing of progress."""
    with serving(OpenAiServer()) as server:
        _swept(server, tmp_path, "--json")
    shown = capsys.readouterr()
    expected: dict[str, Any] = json.loads((tmp_path / "sweep.json").read_text(encoding="utf-8"))
    assert json.loads(shown.out) == expected
    assert shown.err == ""
