"""Coverage-guided fuzzing of every access-log format, from the sample lines on: ``make fuzz``.

Run as ``python tests/fuzz/fuzz_access_logs.py [-max_total_time=60] [INPUT]``; needs the dependency group
``fuzz``. Whatever the bytes are, no line raises, every line has an outcome, a served request could have been,
and reading in blocks comes to what reading line by line does.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["vllm_advisor.sources.access_logs"]):
    from vllm_advisor.config import AccessLogConfig
    from vllm_advisor.evidence.lengths import ContextLengths
    from vllm_advisor.sources.access_logs import LineReader, Logged, LoggedRequest, Outcome
    from vllm_advisor.sources.access_logs.fields import FIELD_NAMES
    from vllm_advisor.sources.access_logs.formats import FORMATS

NOW_SECONDS = 1_796_040_000.0
LOGS = [
    *(AccessLogConfig(paths=("*",), format=name) for name in ("auto", *sorted(FORMATS))),  # type: ignore[arg-type]
    AccessLogConfig(
        paths=("*",),
        format="regex",
        pattern=r"(?P<time>\S+) (?P<prompt_tokens>\S+) (?P<completion_tokens>\S+).*",
    ),
    AccessLogConfig(paths=("*",), models=("m",), match={"route.name": "chat"}),
]
SAMPLES = Path(__file__).parents[1] / "data" / "access_logs"


def one_input(data: bytes) -> None:
    """Read some bytes: the first says as which format, the second where a block ends."""
    if len(data) < 2:
        return
    log, cut, content = LOGS[data[0] % len(LOGS)], data[1], data[2:]
    by_line, by_block = LineReader(log), LineReader(log)
    lines = content.split(b"\n")
    singly = [request for line in lines for request in by_line.read(line, NOW_SECONDS)]
    by_line.finish()
    at = content.find(b"\n", cut) + 1
    blocks: list[Logged] = []
    for block in (content[:at], content[at:]):
        blocks += by_block.read_block(block, 0, NOW_SECONDS)
    by_block.finish()
    assert +by_line.counts == +by_block.counts
    assert by_line.lines == by_block.lines <= len(lines)
    alike(singly, blocks)


def alike(singly: list[LoggedRequest], blocks: list[Logged]) -> None:
    """Check that requests could have been, and that both ways of reading them give the same lengths."""
    one, other = ContextLengths(1e9), ContextLengths(1e9)
    for request in singly:
        assert request.time_seconds is not None
        assert 0 <= request.time_seconds <= NOW_SECONDS + 300
        if request.outcome is Outcome.SERVED:
            assert 0 < (request.prompt_tokens or 0) <= 100_000_000
            assert 0 < (request.output_tokens or 0) <= 100_000_000
        one.observe(request)
    for logged in blocks:
        other.observe(logged)
    first, second = one.snapshot(NOW_SECONDS), other.snapshot(NOW_SECONDS)
    assert first.outcomes == second.outcomes
    assert first.longest_tokens == second.longest_tokens
    assert (first.total.counts == second.total.counts).all()
    assert (first.requested.counts == second.requested.counts).all()


def write_corpus(folder: Path) -> None:
    """Write the samples: each whole, and a few of its lines under each way of reading them."""
    for path in sorted(SAMPLES.iterdir()):
        if path.suffix in {".md", ".json"}:
            continue
        content = path.read_bytes()
        for start in range(0, len(content), 4000):
            name = f"{path.name}-{start}"
            (folder / name).write_bytes(bytes([0, 200]) + content[start : start + 4000])


def write_words(path: Path) -> None:
    """Write the words that mean something: names of fields and numbers that are none."""
    fields = (getattr(form.rules.fields, name) for form in FORMATS.values() for name in FIELD_NAMES)
    words = {part for paths in fields for place in paths for part in place.split(".") if part.isidentifier()}
    numbers = ("-1", "1e999", "null", "[]", "{}", "true", "200", "400", "1796030100")
    path.write_text("".join(f'"{word}"\n' for word in [*sorted(words), *numbers]))


def main() -> None:
    """Fuzz until told to stop, from the samples unless a corpus is given; or read one input that is given."""
    with tempfile.TemporaryDirectory() as name:
        corpus, words = Path(name) / "corpus", Path(name) / "words"
        corpus.mkdir()
        write_corpus(corpus)
        write_words(words)
        given = any(not argument.startswith("-") for argument in sys.argv[1:])
        atheris.Setup([*sys.argv, f"-dict={words}", *([] if given else [str(corpus)])], one_input)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
