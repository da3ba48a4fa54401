import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families

from vllm_advisor.demo.engine import Engine, EngineSettings, Request, StepLaw
from vllm_advisor.demo.page import render_page

CAPTURED = Path(__file__).parents[1] / "data/pages/metrics-mid-llama-after-load.prom"


def _families(text: str) -> dict[str, Metric]:
    return {family.name: family for family in text_string_to_metric_families(text)}


@pytest.fixture
def pages() -> SimpleNamespace:
    """The demo's page of a short run beside a page captured from vLLM 0.32.0."""
    engine = Engine(EngineSettings(max_model_len_tokens=2048), StepLaw(), lambda: 1.0, 0.0)
    for tokens in np.random.default_rng(0).integers(1, 400, 200).tolist():
        engine.submit(Request(0.0, tokens, tokens, 1000))
    engine.advance_to(10.0)
    return SimpleNamespace(
        ours=_families(render_page(engine).decode()), theirs=_families(CAPTURED.read_text(encoding="utf-8"))
    )


def _label_sets(family: Metric) -> set[tuple[str, ...]]:
    return {(sample.name, *sorted(sample.labels)) for sample in family.samples}


def _bounds(family: Metric) -> list[str]:
    return [sample.labels["le"] for sample in family.samples if sample.name.endswith("_bucket")]


def test_every_family_is_as_the_engine_serves_it(pages: SimpleNamespace) -> None:
    """Name, type, help, series names, label names and bucket bounds are those of a real page."""
    assert pages.ours

    for name, family in pages.ours.items():
        real = pages.theirs[name]
        assert (family.type, family.documentation) == (real.type, real.documentation)
        assert _label_sets(family) == _label_sets(real)
        assert _bounds(family) == _bounds(real)


def test_label_values_that_are_enumerations_are_the_engines(pages: SimpleNamespace) -> None:
    """The reasons and states are exactly those of a real page."""
    for name, label in [
        ("vllm:request_success", "finished_reason"),
        ("vllm:num_requests_waiting_by_reason", "reason"),
        ("vllm:engine_sleep_state", "sleep_state"),
    ]:
        ours, theirs = (
            [sample.labels[label] for sample in page[name].samples] for page in (pages.ours, pages.theirs)
        )
        assert ours == theirs


def test_the_numbers_are_written_the_way_the_engine_writes_them() -> None:
    """A line of the demo's page has the captured line's shape, labels in the same order."""
    captured = CAPTURED.read_text(encoding="utf-8").replace("mid-llama", "demo-chat").splitlines()
    shapes = {re.sub(r" [^ ]+$", "", line) for line in captured}
    page = render_page(
        Engine(EngineSettings(max_model_len_tokens=2048), StepLaw(), lambda: 1.0, 0.0)
    ).decode()

    ours = {re.sub(r" [^ ]+$", "", line) for line in page.splitlines() if "cache_config_info{" not in line}

    assert ours <= shapes


def test_the_cache_configuration_states_the_pool_as_the_engine_counts_it(pages: SimpleNamespace) -> None:
    """A plain model's tokens are blocks times block size, and tokens over concurrency give max-model-len.

    The relation is the one vLLM 0.32.0 reported on real servers.
    """
    (ours,), (theirs,) = (page["vllm:cache_config_info"].samples for page in (pages.ours, pages.theirs))

    assert set(ours.labels) == set(theirs.labels)
    assert int(ours.labels["kv_cache_size_tokens"]) == 40_960 * 16
    assert int(ours.labels["kv_cache_size_tokens"]) / float(ours.labels["kv_cache_max_concurrency"]) == 2048
