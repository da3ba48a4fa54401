"""Panels as they are said here, and made into Grafana's with grafana-foundation-sdk."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from grafana_foundation_sdk.builders import common as common_builders
from grafana_foundation_sdk.builders import dashboard as builders
from grafana_foundation_sdk.builders import prometheus, stat, statetimeline, table, timeseries, trend
from grafana_foundation_sdk.models import common
from grafana_foundation_sdk.models import dashboard as models
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

__all__ = ["DATASOURCE", "Column", "Link", "Panel", "Query", "lines", "number", "states", "table_of", "xy"]

DATASOURCE = models.DataSourceRef(type_val="prometheus", uid="${datasource}")

GREEN, YELLOW, RED, GREY = "green", "yellow", "red", "text"

Panel = stat.Panel | statetimeline.Panel | table.Panel | timeseries.Panel | trend.Panel


@dataclass(frozen=True, slots=True)
class Query:
    """One query of a panel and what its series are called."""

    expr: str
    legend: str = ""


@dataclass(frozen=True, slots=True)
class Link:
    """Where a cell leads to."""

    title: str
    url: str


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table: a label of the queries, or the value of one.

    Args:
        title: the heading.
        source: a label's name, or a query.
        unit: of a value.
        link: where its cells lead to.
        colours: threshold from which on a cell has a colour; the first has none.
    """

    title: str
    source: str | Query
    unit: str = "none"
    link: Link | None = None
    colours: Mapping[float, str] = field(default_factory=dict)


def number(
    title: str,
    description: str,
    query: Query,
    *,
    unit: str = "locale",
    colours: Mapping[float, str] | None = None,
    text: bool = False,
) -> stat.Panel:
    """Return one newest number; with ``text`` the legend of its series instead."""
    panel = stat.Panel().title(title).description(description).datasource(DATASOURCE).unit(unit)
    panel = panel.span(4).height(4).no_value("not known").with_target(_target(query, "A", instant=True))
    panel = panel.graph_mode(common.BigValueGraphMode.NONE).thresholds(_thresholds(colours or {}))
    panel = panel.reduce_options(common_builders.ReduceDataOptions().calcs(["lastNotNull"]))
    return panel.text_mode(common.BigValueTextMode.NAME if text else common.BigValueTextMode.VALUE)


def lines(
    title: str,
    description: str,
    queries: list[Query],
    *,
    unit: str = "locale",
    width: int = 12,
    steps: bool = False,
    logarithmic: bool = False,
    top: float | None = None,
) -> timeseries.Panel:
    """Return lines over time; in steps where a value holds until it changes. Dashed: limits and targets."""
    panel = timeseries.Panel().title(title).description(description).datasource(DATASOURCE).unit(unit)
    panel = panel.span(width).height(9).line_width(2).fill_opacity(0).thresholds(_thresholds({}))
    if logarithmic:
        scale = common_builders.ScaleDistributionConfig().type(common.ScaleDistribution.LOG).log(2)
        panel = panel.scale_distribution(scale)
    else:
        panel = panel.min(0)
    if top is not None:
        panel = panel.max(top)
    if steps:
        panel = panel.line_interpolation(common.LineInterpolation.STEP_AFTER)
    for ref, query in _with_refs(queries):
        panel = panel.with_target(_target(query, ref))
    panel = panel.legend(_legend()).tooltip(_tooltip())
    dashed = {"fill": "dash", "dash": [8, 8]}
    return panel.override_by_regexp(
        "/ limit$|^target$|configured cap$|^cap of/",
        [models.DynamicConfigValue(id_val="custom.lineStyle", value=dashed)],
    )


def states(title: str, description: str, query: Query, *, text: str) -> statetimeline.Panel:
    """Return bars over time, one for each series, while its value is 1."""
    given = models.ValueMap({"1": models.ValueMappingResult(text=text, color="orange", index=0)})
    panel = statetimeline.Panel().title(title).description(description).datasource(DATASOURCE).unit("none")
    panel = panel.span(24).height(7).mappings([given]).show_value(common.VisibilityMode.NEVER)
    panel = panel.thresholds(_thresholds({})).legend(common_builders.VizLegendOptions().show_legend(False))
    return panel.with_target(_target(query, "A"))


def table_of(
    title: str, description: str, columns: list[Column], *, of_labels: list[Query], height: int = 8
) -> table.Panel:
    """Return a table: a row for each combination of its label columns.

    Args:
        title: the heading.
        description: what a reader should know of it.
        columns: in their order.
        of_labels: queries that bring labels and whose values are not shown.
        height: in units of Grafana's grid.
    """
    panel = table.Panel().title(title).description(description).datasource(DATASOURCE).unit("none")
    panel = panel.span(24).height(height).no_value("not known").thresholds(_thresholds({})).show_header(True)
    shown = [column.source for column in columns if isinstance(column.source, Query)]
    fields = {}
    for ref, query in _with_refs([*shown, *of_labels]):
        panel = panel.with_target(_target(query, ref, as_table=True))
        fields[query] = f"Value #{ref}" if shown else "Value"
    names = {}
    for column in columns:
        names[fields[column.source] if isinstance(column.source, Query) else column.source] = column.title
        panel = panel.override_by_name(column.title, _cell(column))
    organized = _organized(names, [fields[query] for query in of_labels])
    return panel.with_transformation(_transformation("merge")).with_transformation(organized)


def xy(
    title: str, description: str, x_label: str, x_title: str, curves: list[Query], *, unit: str
) -> trend.Panel:
    """Return curves over a number that is a label; those named a ceiling or a cap are marks."""
    panel = trend.Panel().title(title).description(description).datasource(DATASOURCE).unit(unit)
    panel = panel.span(24).height(10).min(0).x_field(x_title).line_width(2).thresholds(_thresholds({}))
    names = {x_label: x_title}
    for ref, query in _with_refs(curves):
        panel = panel.with_target(_target(query, ref, as_table=True))
        names[f"Value #{ref}"] = query.legend
    as_number = {"conversions": [{"targetField": x_title, "destinationType": "number"}]}
    panel = panel.with_transformation(_transformation("merge")).with_transformation(_organized(names))
    panel = panel.with_transformation(_transformation("convertFieldType", as_number))
    panel = panel.with_transformation(_transformation("sortBy", {"fields": {}, "sort": [{"field": x_title}]}))
    mark = {"custom.drawStyle": "points", "custom.showPoints": "always", "custom.pointSize": 14}
    marks = [models.DynamicConfigValue(id_val=key, value=value) for key, value in mark.items()]
    return panel.span_nulls(True).legend(_legend()).override_by_regexp("/(ceiling|cap)$/", marks)


def _target(query: Query, ref: str, *, instant: bool = False, as_table: bool = False) -> prometheus.Dataquery:
    target = prometheus.Dataquery().expr(query.expr).ref_id(ref).datasource(DATASOURCE)
    target = target.legend_format(query.legend) if query.legend else target
    target = target.instant() if instant or as_table else target.range()
    return target.format(PromQueryFormat.TABLE) if as_table else target


def _with_refs(queries: list[Query]) -> list[tuple[str, Query]]:
    return [(chr(ord("A") + index), query) for index, query in enumerate(queries)]


def _thresholds(colours: Mapping[float, str]) -> builders.ThresholdsConfig:
    steps = [models.Threshold(None, GREEN if colours else GREY)]
    steps += [models.Threshold(value, colour) for value, colour in colours.items()]
    return builders.ThresholdsConfig().mode(models.ThresholdsMode.ABSOLUTE).steps(steps)


def _cell(column: Column) -> list[models.DynamicConfigValue]:
    properties: dict[str, Any] = {"unit": column.unit}
    if column.link:
        properties["links"] = [{"title": column.link.title, "url": column.link.url}]
    if column.colours:
        properties["thresholds"] = _thresholds(column.colours).build()
        properties["custom.cellOptions"] = {"type": "color-text"}
    return [models.DynamicConfigValue(id_val=key, value=value) for key, value in properties.items()]


def _organized(names: Mapping[str, str], left_out: Iterable[str] = ()) -> models.DataTransformerConfig:
    options = {
        "excludeByName": dict.fromkeys(("Time", *left_out), True),
        "indexByName": {name: index for index, name in enumerate(names)},
        "renameByName": dict(names),
    }
    return _transformation("organize", options)


def _transformation(name: str, options: Mapping[str, Any] | None = None) -> models.DataTransformerConfig:
    return models.DataTransformerConfig(id_val=name, options=dict(options or {}))


def _legend() -> common_builders.VizLegendOptions:
    legend = common_builders.VizLegendOptions().show_legend(True)
    legend = legend.display_mode(common.LegendDisplayMode.LIST)
    return legend.placement(common.LegendPlacement.BOTTOM).calcs([])


def _tooltip() -> common_builders.VizTooltipOptions:
    return common_builders.VizTooltipOptions().mode(common.TooltipDisplayMode.MULTI)
