"""`access_logs:` in a configuration: what it takes, and one line for each mistake."""

from __future__ import annotations

from pathlib import Path

import pytest

from vllm_advisor.config import config_problems, load_config

HEAD = "deployments:\n  - name: chat\n    access_logs:\n"


def written(folder: Path, *lines: str) -> Path:
    """Write a configuration with these lines of its access log."""
    path = folder / "advisor.yml"
    path.write_text(
        HEAD + "\n".join(f"      {'- ' if not number else '  '}{line}" for number, line in enumerate(lines))
    )
    return path


def test_globs_start_from_the_configuration_file(tmp_path: Path) -> None:
    """A relative glob is beside the file, an absolute one stays."""
    path = written(tmp_path, 'paths: ["logs/*.jsonl", "/var/log/*.log"]')
    (log,) = load_config(path).deployments[0].access_logs
    assert log.paths == (str(tmp_path / "logs" / "*.jsonl"), "/var/log/*.log")
    assert (log.format, log.models, log.match) == ("auto", (), {})


def test_everything_a_log_can_say_is_taken(tmp_path: Path) -> None:
    """Format, pattern, fields, models and matches."""
    path = written(
        tmp_path,
        "paths: [a.log]",
        "format: regex",
        "pattern: '(?P<prompt_tokens>\\d+) (?P<completion_tokens>\\d+) (?P<time>\\S+)'",
        "models: [qwen3-8b]",
        "match: {tenant: a}",
    )
    (log,) = load_config(path).deployments[0].access_logs
    assert (log.models, log.match) == (("qwen3-8b",), {"tenant": "a"})


@pytest.mark.parametrize(
    ("lines", "line", "key", "problem"),
    [
        (["format: json"], 4, "paths", "is required"),
        (["paths: []"], 4, "paths", "expected"),
        (["paths: [a]", "format: xml"], 5, "format", "expected 'auto', 'apisix'"),
        (["paths: [a]", "fields: {tokens: x}"], 5, "fields", "expected 'time', 'prompt_tokens'"),
        (["paths: [a]", "fields: {time: 5}"], 5, "fields.time", "expected text"),
        (["paths: [a]", "format: regex"], 4, "", "pattern goes with format: regex"),
        (
            ["paths: [a]", "pattern: '(?P<prompt_tokens>.)(?P<completion_tokens>.)'"],
            4,
            "",
            "pattern goes with",
        ),
        (["paths: [a]", "format: regex", "pattern: '('"], 6, "pattern", "is no regular expression"),
        (
            ["paths: [a]", "format: regex", "pattern: '(?P<prompt_tokens>.)'"],
            6,
            "pattern",
            "needs the named group completion_tokens",
        ),
        (["paths: [a]", "modells: [x]"], 5, "modells", "unknown key"),
        (["paths: [a]", "models: qwen"], 5, "models", "expected a list"),
    ],
)
def test_a_mistake_is_named_with_its_line(
    tmp_path: Path, lines: list[str], line: int, key: str, problem: str
) -> None:
    """File, line, key and what was expected."""
    (found,) = config_problems(written(tmp_path, *lines))
    assert found.line == line
    assert (found.key or "").startswith(("deployments[0].access_logs[0]." + key).rstrip("."))
    assert found.problem.startswith(problem)
