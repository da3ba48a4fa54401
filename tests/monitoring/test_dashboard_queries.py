"""Every query of every panel and variable, asked of a Prometheus that scraped the daemon and its engines."""

from __future__ import annotations

import re
from typing import Any

import pytest

from support.monitoring_stack import Stack, wait_for
from support.promql import dashboards, filled, panels

BOARDS = dashboards()
QUERIES = [
    pytest.param(target, id=f"{name}-{panel['title']}-{target['refId']}")
    for name, board in BOARDS.items()
    for panel in panels(board)
    for target in panel["targets"]
]
VARIABLES = [
    pytest.param(variable["query"]["query"], id=f"{name}-{variable['name']}")
    for name, board in BOARDS.items()
    for variable in board["templating"]["list"]
    if variable["type"] == "query"
]
CHOSEN = {"deployment": "slow", "model": "slow-model", "instance": ".*"}


LAST_TO_COME = (
    'vllm_advisor_ceiling_sequences{deployment="slow",ceiling="latency"}',
    'vllm_advisor_recommended_max_num_seqs{deployment="slow"}',
    'rate(vllm:inter_token_latency_seconds_sum{model_name="slow-model"}[10s]) > 0',
)


@pytest.fixture(scope="module")
def scraped(stack: Stack) -> Stack:
    """Wait until there is everything to ask for."""
    for query in LAST_TO_COME:
        wait_for(lambda query=query: stack.prometheus.query(query), query)
    return stack


@pytest.mark.parametrize("target", QUERIES)
def test_a_panels_query_returns_data(scraped: Stack, target: dict[str, Any]) -> None:
    """Series, and under the labels that their legend names."""
    expr = filled(target["expr"], **CHOSEN)
    ask = scraped.prometheus.query if target.get("instant") else scraped.prometheus.query_range
    series = ask(expr)

    assert series
    for label in re.findall(r"{{(\w+)}}", target.get("legendFormat", "")):
        assert all(label in one["metric"] for one in series)


@pytest.mark.parametrize("query", VARIABLES)
def test_a_variables_query_returns_data(scraped: Stack, query: str) -> None:
    """Values to choose from."""
    selector, label = re.fullmatch(r"label_values\((.*), (\w+)\)", query).groups()

    assert scraped.prometheus.label_values(filled(selector, **CHOSEN), label)


@pytest.mark.parametrize("name", BOARDS)
def test_changes_of_the_recommendation_are_marked(scraped: Stack, name: str) -> None:
    """The marks' query gives times in milliseconds of this very hour."""
    (mark,) = BOARDS[name]["annotations"]["list"]
    (now,) = {float(one["value"][1]) for one in scraped.prometheus.query("vector(time() * 1000)")}

    for series in scraped.prometheus.query(filled(mark["expr"], **CHOSEN)):
        assert now - 3_600_000 < float(series["value"][1]) <= now
