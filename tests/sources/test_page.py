"""The page reader against prometheus-client's own parser."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from vllm_advisor.sources.engine_sample import EngineSample
from vllm_advisor.sources.families import FAMILIES, PREFIXES, Family, Kind
from vllm_advisor.sources.page import PageReader, Problem

CAPTURED = sorted((Path(__file__).parents[1] / "data" / "pages").glob("*.prom"))
FOREIGN = (
    "v0-0.4.3-opt125m",
    "v0.32-two-engines-multi-process",
    "v1-0.10.0-old-and-new-names",
    "v1-0.11.0-pid-label",
    "v1-multi-engine-odd-lines",
)


Samples = dict[str, list[tuple[dict[str, str], float]]]


def client_samples(text: str) -> Samples:
    """Return every sample by name as prometheus-client reads it, a bad line being one line."""
    samples: Samples = defaultdict(list)
    for line in text.splitlines():
        if line.startswith("#") or not line.strip():
            continue
        try:
            (family,) = text_string_to_metric_families(line + "\n")
        except ValueError:
            continue
        for sample in family.samples:
            samples[sample.name].append((sample.labels, sample.value))
    return samples


def expected_number(samples: Samples, family: Family, part: str, engine: EngineSample) -> float | None:
    """Return a family's number for one engine: of its newest name, the greatest gauge or summed counter.

    One that no engine counts, negative or too large to be exact, is unknown.
    """
    for name in family.names:
        for prefix in PREFIXES:
            found = [
                value
                for labels, value in samples.get(f"{prefix}{name}{part}", [])
                if labels.get("engine", "0") == engine.engine
                and labels.get("model_name", engine.model_name) == engine.model_name
            ]
            if found:
                number = max(found) if family.kind is Kind.GAUGE else sum(found)
                return number if 0 <= number <= 2**53 else None
    return None


def assert_read_as_the_client_does(text: str) -> None:
    """Assert that every number of every engine is the client's."""
    samples = client_samples(text)
    page = PageReader().read(text.encode())
    assert page.engines
    for engine in page.engines:
        for family in FAMILIES:
            if family.kind in {Kind.GAUGE, Kind.COUNTER} and family.key != "sleep_state":
                assert getattr(engine, family.key) == expected_number(samples, family, "", engine), family.key
            if family.kind is Kind.TOTALS:
                for part in ("_sum", "_count"):
                    assert getattr(engine, family.key + part) == expected_number(
                        samples, family, part, engine
                    )
            if family.kind is Kind.HISTOGRAM:
                assert_histogram(samples, family, engine)
            if family.kind is Kind.INFO:
                infos = [
                    labels
                    for prefix in PREFIXES
                    for labels, _ in samples.get(f"{prefix}{family.names[0]}", [])
                    if labels.get("engine", "0") == engine.engine
                ]
                assert dict(engine.cache_config) == (infos[0] if infos else {})


def assert_histogram(samples: Samples, family: Family, engine: EngineSample) -> None:
    """Assert bounds, counts, sum and count of one histogram."""
    buckets = {
        float(labels["le"]): value
        for prefix in PREFIXES
        for labels, value in samples.get(f"{prefix}{family.names[0]}_bucket", [])
        if labels.get("engine", "0") == engine.engine
    }
    read = getattr(engine, family.key)
    if not buckets or expected_number(samples, family, "_sum", engine) is None:
        assert read is None
        return
    assert dict(zip(read.bounds, read.counts, strict=True)) == buckets
    assert list(read.bounds) == sorted(buckets)
    assert read.total == expected_number(samples, family, "_sum", engine)
    assert read.count == expected_number(samples, family, "_count", engine)


@pytest.mark.parametrize("path", CAPTURED, ids=lambda path: path.stem)
def test_captured_page_is_read_as_prometheus_client_reads_it(path: Path) -> None:
    """Every wanted number of every captured page is what prometheus-client finds."""
    assert_read_as_the_client_does(path.read_text())


@pytest.mark.parametrize("name", FOREIGN)
def test_page_of_another_version_is_read_as_prometheus_client_reads_it(name: str, test_data: Path) -> None:
    """Old names, old and new side by side, stale processes, odd labels: read as the client does."""
    assert_read_as_the_client_does((test_data / "pages" / f"{name}.prom").read_text())


def test_second_page_of_the_same_layout_gives_the_new_numbers() -> None:
    """A remembered layout must not remember numbers."""
    reader = PageReader()
    first = reader.read((CAPTURED[0].parent / "metrics-mid-llama-load-c08.prom").read_bytes(), "engine")
    text = (CAPTURED[0].parent / "metrics-mid-llama-load-c32.prom").read_bytes()

    assert reader.read(text, "engine") == PageReader().read(text)
    assert reader.read(text, "engine") != first


def test_changed_layout_is_read_afresh() -> None:
    """A series that appears, vanishes or changes a label is never read from its old place."""
    reader = PageReader()
    page = (
        b'vllm:num_requests_running{engine="0",model_name="m"} 3\n'
        b'vllm:prompt_tokens_total{engine="0",model_name="m"} 9\n'
    )
    assert reader.read(page, "t").engines[0].running == 3
    other = page.replace(b'engine="0"', b'engine="1"')

    assert [one.engine for one in reader.read(other, "t").engines] == ["1"]
    assert reader.read(page.split(b"\n", 1)[1], "t").engines[0].running is None


@pytest.mark.parametrize("before", [b"", b"# a comment", b"vllm:num_requests_running"])
def test_series_in_the_place_of_another_line_is_seen(before: bytes) -> None:
    """A line that becomes a series, the others staying, is no longer what it was."""
    rest = b'\nvllm:prompt_tokens_total{engine="0"} 9\n'
    reader = PageReader()
    reader.read(before + rest, "t")

    (engine,) = reader.read(b'vllm:num_requests_running{engine="0"} 3' + rest, "t").engines
    assert engine.running == 3


def test_number_before_a_timestamp_or_exemplar_is_read() -> None:
    """A timestamp or an OpenMetrics exemplar after the number is no part of it."""
    page = (
        b'vllm:num_requests_running{engine="0",model_name="m"} 3 1712345678\n'
        b'vllm:generation_tokens_total{engine="0",model_name="m"} 12 # {trace_id="a"} 1 2\n'
    )

    (engine,) = PageReader().read(page).engines
    assert (engine.running, engine.generation_tokens) == (3, 12)


def test_renamed_prefixes_are_read() -> None:
    """Ray and name-mangling proxies write the prefix with an underscore."""
    for prefix in ("vllm_", "ray_vllm_"):
        page = f'{prefix}num_requests_running{{engine="0",model_name="m"}} 3\n'.encode()
        assert PageReader().read(page).engines[0].running == 3


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (b"<!doctype html>\n<html><body>not here</body></html>\n", Problem.NOT_METRICS),
        (b'{"detail": "Not Found"}\n', Problem.NOT_METRICS),
        (b"# HELP up one\nprocess_open_fds 12\n", Problem.NO_VLLM_FAMILIES),
        (b"", Problem.NO_VLLM_FAMILIES),
        (b'vllm:num_requests_running{server="http://a"} 3\n', Problem.ROUTER),
        (b'vllm:num_requests_running{engine="0",model_name="m"} NaN\n', Problem.MALFORMED),
        (b'vllm:num_requests_running{engine="0",model_name="m"} three\n', Problem.MALFORMED),
        (b'vllm:num_requests_running{engine="0",model_name="m" 3\n', Problem.MALFORMED),
        (b'vllm:num_requests_running{engine="0"} 3\n' * 2, Problem.DUPLICATE_SERIES),
    ],
)
def test_problem_of_a_page_is_named(text: bytes, problem: Problem) -> None:
    """What is wrong with a page is told by name, on the first and on later reads."""
    reader = PageReader()

    assert reader.read(text, "t").problems == {problem}
    assert reader.read(text, "t").problems == {problem}


def test_of_repeated_series_the_first_stands() -> None:
    """As in Prometheus, the first of two equal series counts."""
    page = b'vllm:num_requests_running{engine="0"} 3\nvllm:num_requests_running{engine="0"} 7\n'

    assert PageReader().read(page).engines[0].running == 3


LABEL_TEXT = st.text(
    st.characters(exclude_categories=("Cs", "Cc"), exclude_characters="\u2028\u2029\x85"), max_size=12
)


@given(
    model_name=LABEL_TEXT.filter(bool),
    other=LABEL_TEXT,
    number=st.floats(0, 2**53),
)
def test_any_label_text_and_number_is_read_back(model_name: str, other: str, number: float) -> None:
    """Quotes, backslashes, braces and any other text in labels disturb neither labels nor number."""

    def escaped(text: str) -> str:
        return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")

    labels = f'x="{escaped(other)}",model_name="{escaped(model_name)}",engine="0"'
    line = f"vllm:num_requests_running{{{labels}}} {number!r}\n"

    (engine,) = PageReader().read(line.encode()).engines
    assert (engine.model_name, engine.running) == (model_name, number)


@given(st.binary(max_size=300))
def test_any_bytes_are_read_without_an_error(text: bytes) -> None:
    """Whatever comes as a page, reading it raises nothing."""
    reader = PageReader()

    assert reader.read(text, "t") == reader.read(text, "t")
