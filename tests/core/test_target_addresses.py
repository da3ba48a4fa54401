"""Addresses of an engine's doors."""

from __future__ import annotations

import pytest

from vllm_advisor.addresses import base_url, metrics_url, without_password


@pytest.mark.parametrize(
    ("target", "page", "base"),
    [
        ("vllm-0:8000", "http://vllm-0:8000/metrics", "http://vllm-0:8000"),
        ("http://vllm-0:8000", "http://vllm-0:8000/metrics", "http://vllm-0:8000"),
        ("http://vllm-0:8000/", "http://vllm-0:8000/metrics", "http://vllm-0:8000"),
        ("https://a.example/v/metrics", "https://a.example/v/metrics", "https://a.example/v"),
        ("http://a/metrics/", "http://a/metrics/", "http://a"),
        ("http://a/m?x=1#y", "http://a/m?x=1", "http://a/m"),
    ],
)
def test_page_and_doors_of_a_target(target: str, page: str, base: str) -> None:
    """A bare host and port gets the scheme and the path; a whole URL stays as it is."""
    assert metrics_url(target) == page
    assert base_url(target) == base


def test_password_is_not_shown() -> None:
    """What may be logged or served names no user and no password."""
    assert without_password("https://u:p@w@a:1/metrics?x=1") == "https://a:1/metrics?x=1"
