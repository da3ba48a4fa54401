"""Relabelling: Prometheus' own examples and meaning."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vllm_advisor.config_discovery import RelabelConfig
from vllm_advisor.sources.discovery import relabel, target_name

FOUND = {
    "__address__": "10.0.0.1:8000",
    "__meta_kubernetes_pod_label_app": "vllm",
    "__meta_kubernetes_pod_container_port_name": "http",
    "__meta_kubernetes_namespace": "serving",
}


def after(*steps: dict[str, Any]) -> dict[str, str] | None:
    """Return the labels after some steps."""
    return relabel(FOUND, [RelabelConfig.model_validate(step) for step in steps])


def test_keep_and_drop_match_the_whole_value() -> None:
    """A regular expression is anchored at both ends, and keep and drop are opposites."""
    source = ["__meta_kubernetes_pod_label_app"]
    assert after({"action": "keep", "source_labels": source, "regex": "vllm"}) == FOUND
    assert after({"action": "keep", "source_labels": source, "regex": "vll"}) is None
    assert after({"action": "drop", "source_labels": source, "regex": "vllm|sglang"}) is None
    assert after({"action": "drop", "source_labels": source, "regex": "llm"}) == FOUND
    assert after({"action": "keep", "source_labels": ["no_such_label"], "regex": ".+"}) is None


def test_replace_joins_and_refers() -> None:
    """Source labels are joined by the separator, and the replacement refers to groups."""
    step = {
        "source_labels": ["__meta_kubernetes_namespace", "__meta_kubernetes_pod_label_app"],
        "separator": "/",
        "regex": "(?P<space>.+)/(.+)",
        "replacement": "${2}-in-$1-${space}-$$",
        "target_label": "where",
    }
    assert (after(step) or {})["where"] == "vllm-in-serving-serving-$"


def test_replace_without_a_match_changes_nothing_and_with_an_empty_value_removes() -> None:
    """A value that does not match stands; an empty replacement takes the label away."""
    step = {"source_labels": ["__meta_kubernetes_namespace"], "target_label": "__address__"}
    assert after(step | {"regex": "other", "replacement": "x"}) == FOUND
    assert "__address__" not in (after(step | {"replacement": ""}) or {})


def test_the_address_is_rewritten_as_for_annotations() -> None:
    """The step that everybody copies for prometheus.io/port puts another port into the address."""
    step = {
        "source_labels": ["__address__", "__meta_kubernetes_pod_annotation_prometheus_io_port"],
        "regex": r"([^:]+)(?::\d+)?;(\d+)",
        "replacement": "$1:$2",
        "target_label": "__address__",
    }
    labels = FOUND | {"__meta_kubernetes_pod_annotation_prometheus_io_port": "9000"}
    changed = relabel(labels, [RelabelConfig.model_validate(step)])
    assert target_name(changed or {}) == "10.0.0.1:9000"


@pytest.mark.parametrize(
    ("labels", "name"),
    [
        ({"__address__": "a:8000"}, "a:8000"),
        ({"__address__": "a:8000", "__scheme__": "https"}, "https://a:8000/metrics"),
        ({"__address__": "a:8000", "__metrics_path__": "/vllm/metrics"}, "http://a:8000/vllm/metrics"),
        ({"__address__": "https://a/metrics"}, "https://a/metrics"),
        ({}, None),
    ],
)
def test_labels_name_a_page(labels: dict[str, str], name: str | None) -> None:
    """Scheme and path are labels too, with Prometheus' defaults."""
    assert target_name(labels) == name


@given(st.dictionaries(st.text("abc_", min_size=1, max_size=4), st.text("xyz", min_size=1, max_size=4)))
def test_the_default_step_copies(labels: dict[str, str]) -> None:
    """With every default, a label becomes a copy of another, and no other changes."""
    step = RelabelConfig.model_validate({"source_labels": ["a"], "target_label": "copy"})
    expected = {name: value for name, value in labels.items() if name != "copy"}
    if "a" in labels:
        expected["copy"] = labels["a"]
    assert relabel(labels, [step]) == expected
