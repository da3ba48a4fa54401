"""The dashboards: fresh, of Grafana's own shape, and by the rules of dashboard-linter."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models.dashboard import Dashboard

from monitoring.dashboards.files import dashboard_files
from monitoring.rule_files import DEFAULT_RUNBOOK_BASE
from support.promql import PROMETHEUS_OWN, ROOT, dashboards, exported_names, filled, names, panels

BOARDS = dashboards()
PANELS = [
    pytest.param(board, panel, id=f"{name}-{panel['title']}")
    for name, board in BOARDS.items()
    for panel in panels(board)
]
# Of Grafana's units, those that the panels use.
UNITS = {"none", "locale", "s", "percentunit", "bytes", "ops"}


def test_files_are_fresh() -> None:
    """What is committed is what `make dashboards` writes."""
    for name, text in dashboard_files(DEFAULT_RUNBOOK_BASE).items():
        assert text == (ROOT / name).read_text(encoding="utf-8"), f"{name}: run `make dashboards`"


@pytest.mark.parametrize("name", BOARDS)
def test_the_json_is_a_dashboard_of_grafanas_schema(name: str) -> None:
    """Grafana's types read the file and write it again, and nothing is lost but the marks' own settings."""
    register_default_plugins()
    board = BOARDS[name]
    again = json.loads(json.dumps(Dashboard.from_json(board), cls=JSONEncoder))
    lost = _lost(board, again)

    assert set() == {path for path in lost if not path.startswith("annotations.list.0.")}


@pytest.mark.parametrize("name", BOARDS)
def test_a_dashboard_is_found_and_not_edited_by_hand(name: str) -> None:
    """A uid of its own, tags, no editing; one data source variable that everything uses."""
    board = BOARDS[name]
    variables = {variable["name"]: variable for variable in board["templating"]["list"]}

    assert f"vllm-advisor-{name}" == board["uid"]
    assert {"vllm", "vllm-advisor"} <= set(board["tags"])
    assert board["editable"] is False
    assert variables["datasource"]["label"] == "Data source"
    assert [name for name, one in variables.items() if one["type"] == "datasource"] == ["datasource"]
    for variable in variables.values():
        if variable["type"] == "query":
            assert variable["refresh"] == 2
            assert variable["datasource"]["uid"] == "${datasource}"
            assert variable["query"]["query"].startswith("label_values(")


def test_the_two_lead_to_each_other() -> None:
    """The fleet's rows open their deployment, and both list each other by tag."""
    fleet = json.dumps(BOARDS["fleet"])

    assert "/d/vllm-advisor-deployment?${datasource:queryparam}&var-deployment=${__value.raw}" in fleet
    for board in BOARDS.values():
        assert [link["tags"] for link in board["links"]] == [["vllm-advisor"]]
    for board in BOARDS.values():
        assert f"{DEFAULT_RUNBOOK_BASE}/${{__value.raw}}.md" in json.dumps(board)


@pytest.mark.parametrize(("board", "panel"), PANELS)
def test_a_panel_says_what_it_shows(board: dict[str, Any], panel: dict[str, Any]) -> None:
    """Title, description, unit, data source and thresholds, and queries that can be told apart."""
    defaults = panel["fieldConfig"]["defaults"]

    assert panel["title"]
    assert panel["description"].endswith(".")
    assert defaults["unit"] in UNITS
    assert defaults["thresholds"]["steps"]
    assert panel["datasource"]["uid"] == "${datasource}"
    assert panel["targets"]
    references = [target["refId"] for target in panel["targets"]]
    assert sorted(set(references)) == references
    for target in panel["targets"]:
        assert target["datasource"]["uid"] == "${datasource}"


@pytest.mark.parametrize(("board", "panel"), PANELS)
def test_a_panel_asks_for_what_there_is(board: dict[str, Any], panel: dict[str, Any]) -> None:
    """Every query is PromQL, chooses the deployment or its engines, and takes counters by their rate."""
    for target in panel["targets"]:
        expr = filled(target["expr"], deployment="d", model="m", instance="i")
        asked = names(expr)

        assert asked <= exported_names() | PROMETHEUS_OWN
        assert (
            "$deployment" in target["expr"]
            or "$model" in target["expr"]
            or asked == {"vllm_advisor_build_info"}
        )
        if any(name.endswith(("_total", "_sum", "_count")) for name in asked):
            assert "rate(" in expr
            assert "$__rate_interval" in target["expr"]


def test_panels_do_not_overlap_and_are_numbered() -> None:
    """Each panel has its own number and its own place."""
    for board in BOARDS.values():
        taken: set[tuple[int, int]] = set()
        for panel in board["panels"]:
            place = panel["gridPos"]
            cells = {
                (x, y)
                for x in range(place["x"], place["x"] + place["w"])
                for y in range(place["y"], place["y"] + place["h"])
            }
            assert not taken & cells
            assert place["x"] + place["w"] <= 24
            taken |= cells
        numbers = [panel["id"] for panel in board["panels"]]
        assert sorted(set(numbers)) == numbers


def test_each_exclusion_from_the_linter_has_its_reason() -> None:
    """`grafana/.lint` holds nothing without a reason."""
    exclusions = yaml.safe_load((ROOT / "grafana/.lint").read_text(encoding="utf-8"))["exclusions"]

    assert all(exclusion["reason"].endswith(".") for exclusion in exclusions.values())


def _lost(before: Any, after: Any, path: str = "") -> set[str]:
    """Return the places whose value another document does not have."""
    if isinstance(before, dict) and isinstance(after, dict):
        return {
            lost for key in before for lost in _lost(before[key], after.get(key), f"{path}.{key}".lstrip("."))
        }
    if isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        return {
            lost
            for index, (one, other) in enumerate(zip(before, after, strict=True))
            for lost in _lost(one, other, f"{path}.{index}")
        }
    return set() if before == after else {path}
