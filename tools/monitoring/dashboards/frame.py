"""What both dashboards share: their variables, links, and the marks of a changed recommendation."""

from __future__ import annotations

from grafana_foundation_sdk.builders import dashboard as builders
from grafana_foundation_sdk.models import dashboard as models

from monitoring.dashboards.panels import DATASOURCE

__all__ = ["DEPLOYMENT_UID", "FLEET_UID", "finished", "framed", "variable"]

FLEET_UID = "vllm-advisor-fleet"
DEPLOYMENT_UID = "vllm-advisor-deployment"

_TAG = "vllm-advisor"


def framed(title: str, uid: str, description: str) -> builders.Dashboard:
    """Return a dashboard without panels."""
    datasource = builders.DatasourceVariable("datasource").label("Data source").type("prometheus")
    board = builders.Dashboard(title).uid(uid).description(description).tags(["vllm", _TAG]).readonly()
    board = board.time("now-24h", "now").refresh("1m").timezone("browser")
    board = board.tooltip(models.DashboardCursorSync.CROSSHAIR).with_variable(datasource)
    link = builders.DashboardLink("vLLM advisor").type(models.DashboardLinkType.DASHBOARDS)
    return board.link(link.tags([_TAG]).as_dropdown(True).include_vars(True).keep_time(True))


def variable(name: str, label: str, query: str, *, several: bool = False) -> builders.QueryVariable:
    """Return a choice among the values of a label; of several of them, all at first."""
    chosen = builders.QueryVariable(name).label(label).datasource(DATASOURCE)
    chosen = chosen.query({"query": query, "refId": f"{name}-variable"})
    chosen = chosen.refresh(models.VariableRefresh.ON_TIME_RANGE_CHANGED)
    chosen = chosen.sort(models.VariableSort.ALPHABETICAL_ASC)
    if several:
        everything = models.VariableOption(selected=True, text="All", value="$__all")
        chosen = chosen.multi(True).include_all(True).all_value(".*").current(everything)
    return chosen


class _TimesInValues(models.AnnotationQuery):
    """Marks the time that a series' value is, in milliseconds."""

    def to_json(self) -> dict[str, object]:
        return super().to_json() | {
            "useValueForTime": True,
            "titleFormat": "Recommendation changed",
            "textFormat": "{{deployment}}",
        }


def finished(board: builders.Dashboard, selector: str) -> models.Dashboard:
    """Return a dashboard with its panels numbered and a mark wherever a recommendation changed.

    Args:
        board: with all its panels.
        selector: of the deployments whose changes are marked, with braces.
    """
    expr = f"max by (deployment) (vllm_advisor_recommendation_changed_timestamp_seconds{selector}) * 1000"
    built = board.build()
    built.annotations = models.AnnotationContainer(
        [_TimesInValues("Recommendation changes", DATASOURCE, icon_color="blue", expr=expr)]
    )
    for number, panel in enumerate(built.panels or [], start=1):
        panel.id_val = number
    return built
