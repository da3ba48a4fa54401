"""The configuration file: what it takes, and what it says of mistakes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from vllm_advisor.cli import main
from vllm_advisor.config import config_problems, load_config

EXAMPLE = """\
global: {scrape_interval: 5s, scrape_timeout: 4s}
storage: {path: ./data}
deployments:
  - name: chat
    workload: interactive
    slo: {tpot: 40ms, quantile: 0.99}
    context: {quantile: 0.999, margin: 0.25, round_up_to: 1024, window: 7d}
    engine:
      max_num_seqs: 256
      model_config: llama-70b/config.json
      gpu_memory: 80GB
      tensor_parallel_size: 4
    static_configs: [{targets: ["vllm-0:8000", "vllm-1:8000"]}]
    access_logs:
      - paths: ["/var/log/gateway/*.jsonl"]
        format: json
        fields: {time: ts, prompt_tokens: usage.prompt_tokens, completion_tokens: usage.completion_tokens,
                 status: status, model: model, max_tokens: request.max_tokens}
    sweep: sweep.json
"""
MINIMAL = 'deployments:\n  - name: chat\n    static_configs: [{targets: ["vllm-0:8000"]}]\n'


def write(folder: Path, text: str) -> Path:
    """Write a configuration file."""
    path = folder / "advisor.yml"
    path.write_text(text)
    return path


def test_design_page_example_is_read(tmp_path: Path) -> None:
    """The design page's configuration, key for key."""
    (deployment,) = load_config(write(tmp_path, EXAMPLE)).deployments

    assert (deployment.slo.tpot_seconds, deployment.slo.quantile, deployment.slo.statistic) == (
        0.04,
        0.99,
        "p99",
    )
    assert deployment.context.window_seconds == 7 * 86400
    assert deployment.engine.gpu_memory_bytes == 80_000_000_000
    assert deployment.engine.model_config_path == tmp_path / "llama-70b" / "config.json"
    assert deployment.targets == ("vllm-0:8000", "vllm-1:8000")


def test_everything_but_the_name_and_a_place_to_look_has_a_default(tmp_path: Path) -> None:
    """The shortest configuration is a deployment with a target."""
    config = load_config(write(tmp_path, MINIMAL))

    assert config.global_.scrape_interval_seconds == 5
    assert config.deployments[0].context.quantile == 0.999
    assert config.deployments[0].slo.tpot_is_assumed


MISTAKES = {
    "unknown key": (MINIMAL + "    contextt: {}\n", 4, "deployments[0].contextt", "unknown key"),
    "unknown key, top": (MINIMAL + "scrape: {}\n", 4, "scrape", "unknown key"),
    "no name": (
        "deployments:\n  - static_configs: [{targets: [a]}]\n",
        2,
        "deployments[0].name",
        "is required",
    ),
    "no deployments": ("storage: {path: x}\n", 1, "deployments", "is required"),
    "nowhere to look": ("deployments:\n  - name: a\n", 2, "deployments[0]", "somewhere to look"),
    "duration without unit": (
        "global: {scrape_interval: 5}\n" + MINIMAL,
        1,
        "global.scrape_interval",
        "with its unit",
    ),
    "no duration": (
        "global: {scrape_interval: soon}\n" + MINIMAL,
        1,
        "global.scrape_interval",
        "expected a duration",
    ),
    "size without unit": (
        MINIMAL + "    engine: {gpu_memory: 80}\n",
        4,
        "deployments[0].engine.gpu_memory",
        "with its unit",
    ),
    "timeout over interval": (
        "global: {scrape_interval: 1s, scrape_timeout: 2s}\n" + MINIMAL,
        1,
        "global",
        "scrape_timeout",
    ),
    "bad quantile": (
        MINIMAL + "    slo: {quantile: 0.2}\n",
        4,
        "deployments[0].slo.quantile",
        "expected mean, or a quantile",
    ),
    "bad workload": (
        MINIMAL + "    workload: fast\n",
        4,
        "deployments[0].workload",
        "'interactive' or 'batch'",
    ),
    "negative": (
        MINIMAL + "    context: {margin: -1}\n",
        4,
        "deployments[0].context.margin",
        "expected a number of at least 0, not -1",
    ),
    "fraction of a sequence": (
        MINIMAL + "    engine: {max_num_seqs: 1.5}\n",
        4,
        "deployments[0].engine.max_num_seqs",
        "expected a whole number, not 1.5",
    ),
    "twice": (MINIMAL + "    slo: {}\n    slo: {}\n", 5, "slo", "given twice"),
    "same name": (
        MINIMAL + MINIMAL.split("\n", 1)[1],
        4,
        "deployments[1].name",
        "'chat' is used twice",
    ),
    "no entry": ("deployments: []\n", 1, "deployments", "expected a list with at least one entry"),
    "spaces in a name": (
        MINIMAL.replace("chat", "chat bot"),
        2,
        "deployments[0].name",
        "expected letters, digits, . _ -",
    ),
    "no mapping": (MINIMAL + "    slo: 40ms\n", 4, "deployments[0].slo", "expected a mapping, not text"),
    "no list": (
        MINIMAL.replace('["vllm-0:8000"]', "vllm-0:8000"),
        3,
        "deployments[0].static_configs[0].targets",
        "expected a list, not text",
    ),
    "word for a quantile": (
        MINIMAL + "    slo: {quantile: p99}\n",
        4,
        "deployments[0].slo.quantile",
        "expected mean, or a quantile from 0.5 to 0.999, not 'p99'",
    ),
    "not yaml": ("deployments: [\n", 2, None, "is not YAML"),
    "twice in one line": (MINIMAL + "    slo: {tpot: 40ms, tpot: 50ms}\n", 4, "tpot", "given twice"),
    "inside itself": (
        MINIMAL + "    access_logs: &logs\n      - paths: *logs\n",
        5,
        "deployments[0].access_logs[0].paths[0]",
        "expected text, not a mapping",
    ),
    "a date": (
        MINIMAL + "    context: {window: 2026-01-31}\n",
        4,
        "deployments[0].context.window",
        "expected a duration such as 40ms, 5s or 7d, not '2026-01-31'",
    ),
    "no date": (
        MINIMAL + "    context: {window: 2026-13-45}\n",
        4,
        "deployments[0].context.window",
        "expected a duration such as 40ms, 5s or 7d, not '2026-13-45'",
    ),
    "not a mapping": ("- a\n", 1, None, "expected a mapping"),
    "empty": ("", 1, None, "expected a mapping"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistake_is_told_with_line_key_and_expectation(name: str, tmp_path: Path) -> None:
    """Each mistake is one line: file, line, key, and what was expected."""
    text, line, key, words = MISTAKES[name]

    (problem,) = config_problems(write(tmp_path, text))
    assert (problem.line, problem.key) == (line, key)
    assert words in problem.problem
    assert str(problem).count("\n") == 0
    assert str(problem).startswith(f"{tmp_path / 'advisor.yml'}:{line}: ")


@pytest.mark.parametrize("target", ["http://h:99999", "a b", "ftp://x", "http://", "h:0", "http://[::1"])
def test_what_is_no_address_is_refused(target: str, tmp_path: Path) -> None:
    """A target that could never be scraped is a mistake, with the line that it stands on."""
    (problem,) = config_problems(write(tmp_path, MINIMAL.replace("vllm-0:8000", target)))

    assert (problem.line, problem.key) == (3, "deployments[0].static_configs[0].targets[0]")
    assert problem.problem.startswith("expected host:port or an address such as http://host:8000, not ")


_PROMETHEUS = "deployments: [{{name: a, prometheus: {}}}]\n"
_TARGETS = "deployments: [{{name: a, static_configs: [{{targets: {}}}]}}]\n"


@pytest.mark.parametrize(
    "text",
    [
        _TARGETS.format('"http://bob:hunter2@h:1"'),
        _TARGETS.format('["http://bob:hunter2@h:99999"]'),
        _TARGETS.format('["bob:hunter2@h:99999"]'),
        _TARGETS.format('["http://bob:hunt er hunter2@h"]'),
        _TARGETS.format('["http://bob:x/hunter2@h"]'),
        _TARGETS.format("""["http://bob:it's-hunter2@h:99999"]"""),
        _TARGETS.format('[["http://bob:hunter2@h"]]'),
        _TARGETS.format('[{"http://bob:hunter2@h": 1}]'),
        _PROMETHEUS.format('"http://bob:hunter2@h"'),
        _PROMETHEUS.format("""{url: "hxxp://bob:hunter2@h", selector: 'job="a"'}"""),
        _PROMETHEUS.format("""{url: "bob:hunter2@h", selector: 'job="a"'}"""),
        _PROMETHEUS.format("""{url: "http://h", selector: 'x@y', headers: {X-Key: [hunter2]}}"""),
        _PROMETHEUS.format("""{url: "http://h", selector: 'x', basic_auth: "bob:hunter2"}"""),
        _PROMETHEUS.format("""{"http://bob:hunter2@h": 1}"""),
        'deployments: [{name: "http://bob:hunter2@h"}]\n',
    ],
)
def test_no_password_is_printed(text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Whatever is wrong with an address or beside it, its user and password are not shown."""
    path = write(tmp_path, text)
    assert main(["check-config", str(path)]) == 1
    assert main(["check-config", "--json", str(path)]) == 1
    assert main(["serve", f"--config.file={path}"]) == 1

    printed = capsys.readouterr()
    assert "hunter2" not in printed.out + printed.err
    assert "expected" in printed.err or "unknown key" in printed.err or "required" in printed.err


@pytest.mark.parametrize("value", ["[" * 5000 + "]" * 5000, "9" * 5000])
def test_what_no_reader_can_take_is_one_line(value: str, tmp_path: Path) -> None:
    """Brackets by the thousand and a number as long are named without a traceback."""
    path = write(tmp_path, f"deployments: {value}\n")
    (problem,) = config_problems(path)

    assert str(problem).startswith(f"{path}: is not YAML")
    assert "\n" not in str(problem)


def test_check_config_prints_every_problem(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """All mistakes of a file are printed at once, by line, with exit 1."""
    path = write(tmp_path, MINIMAL + "    slo: {tpot: 5, quantile: 2.0}\n    context: {x: 1}\n")

    assert main(["check-config", str(path)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(": ")[1] for line in lines[1:]] == [
        "deployments[0].slo.tpot",
        "deployments[0].slo.quantile",
        "deployments[0].context.x",
    ]


def test_check_config_reads_the_files_that_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A file that is not there, or holds something else, is told at the line that names it."""
    (tmp_path / "sweep.csv").write_text("users,speed\n1,2\n")
    engine = "    engine:\n      model_config: none.json\n      startup_log: none.log\n"
    path = write(tmp_path, MINIMAL + engine + "    sweep: sweep.csv\n")

    assert main(["check-config", str(path)]) == 1
    column = "concurrency: expected a column named concurrency (of guidellm and AIPerf the JSON file is read)"
    missing = "cannot be read: No such file or directory"
    assert capsys.readouterr().out.splitlines()[1:] == [
        f"  {path}:5: deployments[0].engine.model_config: {tmp_path}/none.json: {missing}",
        f"  {path}:6: deployments[0].engine.startup_log: {tmp_path}/none.log: {missing}",
        f"  {path}:7: deployments[0].sweep: {tmp_path}/sweep.csv:1: {column}",
    ]


def test_check_config_opens_secrets_and_certificates(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A password or a certificate that is not there is told at its line; one that is there stays secret."""
    (tmp_path / "password").write_text("hunter2")
    asked = (
        "    prometheus:\n      url: http://prometheus:9090\n      selector: 'job=\"vllm\"'\n"
        "      basic_auth: {username: u, password_file: password}\n"
        "      tls_config:\n        ca_file: ca.pem\n"
    )
    found = "    http_sd_configs:\n      - url: http://sd\n        authorization: {credentials_file: token}\n"
    path = write(
        tmp_path, MINIMAL.replace('    static_configs: [{targets: ["vllm-0:8000"]}]\n', asked) + found
    )

    assert main(["check-config", str(path)]) == 1
    printed = capsys.readouterr().out
    missing = "cannot be read: No such file or directory"
    sd = "deployments[0].http_sd_configs[0]"
    assert printed.splitlines()[1:] == [
        f"  {path}:8: deployments[0].prometheus.tls_config.ca_file: {tmp_path}/ca.pem: {missing}",
        f"  {path}:11: {sd}.authorization.credentials_file: {tmp_path}/token: {missing}",
    ]
    assert "hunter2" not in printed


def test_check_config_answers_in_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With --json the problems are a list, and a good file is valid."""
    path = write(tmp_path, MINIMAL)

    assert main(["check-config", "--json", str(path)]) == 0
    assert json.loads(capsys.readouterr().out) == {"file": str(path), "valid": True, "problems": []}


def test_missing_file_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A file that is not there is named on stderr, without a traceback."""
    assert main(["serve", f"--config.file={tmp_path / 'none.yml'}"]) == 1
    assert capsys.readouterr().err.count("\n") == 1
