"""Draw what the dashboards' panels show, as still pictures for the documentation.

Runs the simulated engine, the daemon and a Prometheus for a while, asks every query of the panels named, and
draws them with matplotlib, near enough to Grafana to judge a panel by:

    pip install --group pictures
    PYTHONPATH=tools:tests python tools/render_panels.py 180 docs/images
"""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import matplotlib as mpl
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter
from PIL import Image

from support.daemon_process import daemon_process
from support.monitoring_stack import Prometheus, prometheus
from support.promql import filled, panels

ROOT = Path(__file__).parents[1]
CHOSEN = {"deployment": "demo", "model": ".*", "instance": ".*"}
UNITS: dict[str, Callable[[float], str]] = {
    "s": lambda value: f"{value * 1000:g} ms" if abs(value) < 1 else f"{value:g} s",
    "percentunit": lambda value: f"{value * 100:.3g}%",
    "locale": lambda value: f"{value:,.0f}",
}


def main() -> int:
    """Draw both dashboards."""
    seconds, folder = float(sys.argv[1]), Path(sys.argv[2])
    mpl.use("Agg")
    plt.style.use("dark_background")
    plt.rcParams.update({"font.size": 7, "axes.titlesize": 9, "axes.grid": True, "grid.alpha": 0.2})
    with TemporaryDirectory() as scratch, daemon_process(["demo"], Path(scratch)) as daemon:
        engine = re.search(r"http://([\d.]+:\d+)/metrics", daemon.get("/api/v1/targets"))
        jobs = {"vllm-advisor": [daemon.url.removeprefix("http://")], "vllm": [engine[1]] if engine else []}
        with prometheus(Path(scratch), jobs) as asked:
            time.sleep(seconds)
            for name in ("fleet", "deployment"):
                board = json.loads((ROOT / f"grafana/dashboards/{name}.json").read_text(encoding="utf-8"))
                path = folder / f"dashboard-{name}.png"
                _draw(board, asked, seconds).savefig(path, dpi=66)
                Image.open(path).convert("RGB").quantize(96).save(path, optimize=True)
    return 0


def _draw(board: dict[str, Any], asked: Prometheus, seconds: float) -> Figure:
    shown = panels(board)
    rows = max(panel["gridPos"]["y"] + panel["gridPos"]["h"] for panel in shown)
    figure = plt.figure(figsize=(15, rows * 0.36))
    for panel in shown:
        place = panel["gridPos"]
        left, bottom = place["x"] / 24 + 0.045, 1 - (place["y"] + place["h"] - 1.8) / rows
        axes = figure.add_axes((left, bottom, place["w"] / 24 - 0.06, (place["h"] - 2.8) / rows))
        axes.set_title(panel["title"])
        DRAWN[panel["type"]](axes, panel, asked, seconds)
    return figure


def _number(axes: Axes, panel: dict[str, Any], asked: Prometheus, _seconds: float) -> None:
    (target,) = panel["targets"]
    series = asked.query(filled(target["expr"], **CHOSEN))
    text = "not known"
    if series and target.get("legendFormat"):
        text = _legend(target, series[0])
    elif series:
        text = _unit(panel)(float(series[0]["value"][1]))
    axes.axis("off")
    axes.text(0.5, 0.4, text, ha="center", va="center", fontsize=15, transform=axes.transAxes)


def _lines(axes: Axes, panel: dict[str, Any], asked: Prometheus, seconds: float) -> None:
    for target in panel["targets"]:
        for series in asked.query_range(filled(target["expr"], **CHOSEN), seconds=seconds):
            label = _legend(target, series)
            times, values = zip(*series["values"], strict=True)
            style = "--" if re.search(" limit$|^target$|configured cap$|^cap of", label) else "-"
            axes.plot([at - times[0] for at in times], [float(value) for value in values], style, label=label)
    if "scaleDistribution" in panel["fieldConfig"]["defaults"].get("custom", {}):
        axes.set_yscale("log", base=2)
    else:
        axes.set_ylim(bottom=0)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: _unit(panel)(value)))
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.08), ncols=6, frameon=False)


def _curves(axes: Axes, panel: dict[str, Any], asked: Prometheus, _seconds: float) -> None:
    names = panel["transformations"][1]["options"]["renameByName"]
    for target in panel["targets"]:
        label = names[f"Value #{target['refId']}"]
        series = asked.query(filled(target["expr"], **CHOSEN))
        points = sorted((float(one["metric"]["concurrency"]), float(one["value"][1])) for one in series)
        mark = re.search("(ceiling|cap)$", label)
        if points:
            axes.plot(*zip(*points, strict=True), "o" if mark else "-", markersize=8, label=label)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: _unit(panel)(value)))
    axes.set_xlabel("sequences")
    axes.set_ylim(bottom=0)
    axes.legend(frameon=False)


def _table(axes: Axes, panel: dict[str, Any], asked: Prometheus, _seconds: float) -> None:
    (organized,) = [one["options"] for one in panel["transformations"] if one["id"] == "organize"]
    names, rows = organized["renameByName"], {}
    labels = [name for name in names if not name.startswith("Value")]
    for target in panel["targets"]:
        value_name = f"Value #{target['refId']}"
        for series in asked.query(filled(target["expr"], **CHOSEN)):
            key = tuple(series["metric"].get(label) for label in labels if label in {"deployment", "code"})
            row = rows.setdefault(key, {})
            row |= series["metric"] | {value_name: f"{float(series['value'][1]):,.6g}"}
    ordered = sorted(names, key=lambda name: organized["indexByName"][name])
    cells = [[row.get(name, "") for name in ordered] for row in rows.values()] or [[""] * len(ordered)]
    axes.axis("off")
    titles = [names[name].replace(" ", "\n", 1) for name in ordered]
    drawn = axes.table(cells, colLabels=titles, loc="upper center", edges="horizontal")
    drawn.auto_set_font_size(value=False)
    drawn.set_fontsize(6)
    drawn.scale(1, 1.8)


def _states(axes: Axes, panel: dict[str, Any], asked: Prometheus, seconds: float) -> None:
    (target,) = panel["targets"]
    for series in asked.query_range(filled(target["expr"], **CHOSEN), seconds=seconds):
        times = [float(at) for at, _ in series["values"]]
        axes.barh(_legend(target, series), times[-1] - times[0], left=times[0] - time.time(), color="orange")


def _legend(target: dict[str, Any], series: dict[str, Any]) -> str:
    return re.sub(
        r"{{(\w+)}}", lambda label: series["metric"].get(label[1], ""), target.get("legendFormat", "")
    )


def _unit(panel: dict[str, Any]) -> Callable[[float], str]:
    return UNITS.get(panel["fieldConfig"]["defaults"]["unit"], lambda value: f"{value:g}")


DRAWN = {
    "stat": _number,
    "timeseries": _lines,
    "trend": _curves,
    "table": _table,
    "state-timeline": _states,
}

if __name__ == "__main__":
    sys.exit(main())
