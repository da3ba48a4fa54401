"""The JSON API: what it answers, what it does not send twice, and how it says no."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

import pytest

from support.daemon_process import DaemonProcess
from support.web import API, Answer, ask

TABLES = (
    "lengths",
    "prompt_lengths",
    "output_lengths",
    "tradeoff",
    "observed",
    "curve",
    "occupancy",
    "history",
)
SWEEP = {
    "levels": [
        {"concurrency": 8, "tpot_p99": 0.0016, "requests": 100},
        {"concurrency": 64, "tpot_p99": 0.0064, "requests": 100},
    ]
}


def answer_of(demo: DaemonProcess, path: str = "", **options: Any) -> Answer:
    """Ask for a path below the demo's deployment."""
    return ask(f"{demo.url}{API}{path}", **options)


def test_deployments_and_targets(demo: DaemonProcess) -> None:
    """The list names the deployment, and the target it watches is well."""
    (summary,) = ask(f"{demo.url}/api/v1/deployments").json()["deployments"]
    (target,) = ask(f"{demo.url}/api/v1/targets").json()["targets"]

    assert (summary["deployment"], summary["workload"]) == ("demo", "interactive")
    assert (target["deployment"], target["outcome"]) == ("demo", "ok")


@pytest.mark.parametrize("path", ["/api/v1/recommendations", API])
def test_unchanged_answer_is_not_sent_again(demo: DaemonProcess, path: str) -> None:
    """With its ETag or its Last-Modified the same answer is 304 and empty; with another tag it is not."""
    for _ in range(5):  # an evaluation may come between two questions
        first = ask(demo.url + path)
        tag, modified = first.headers["etag"], first.headers["last-modified"]
        by_tag = ask(demo.url + path, headers={"If-None-Match": tag})
        by_time = ask(demo.url + path, headers={"If-Modified-Since": modified})
        if by_tag.headers["etag"] == by_time.headers["etag"] == tag:
            break
    other = ask(demo.url + path, headers={"If-None-Match": '"other"', "If-Modified-Since": modified})

    assert (first.status, by_tag.status, by_time.status, other.status) == (200, 304, 304, 200)
    assert (by_tag.text, by_time.text) == ("", "")


@pytest.mark.parametrize("table", TABLES)
def test_table_is_the_same_as_json_and_csv(demo: DaemonProcess, table: str) -> None:
    """A table's CSV has the columns of the JSON, and is not empty."""
    columns = answer_of(demo, "/evidence").json()["tables"][table]
    exported = answer_of(demo, f"/evidence/{table}.csv")
    rows = list(csv.DictReader(io.StringIO(exported.text)))

    assert exported.headers["content-type"].startswith("text/csv")
    assert len({len(values) for values in columns.values()}) == 1
    assert rows
    assert list(rows[0]) == list(columns)


def test_lengths_add_up(demo: DaemonProcess) -> None:
    """The length table holds as many requests as the recommendation rests on, and its median is the same."""
    for _ in range(5):
        context = answer_of(demo).json()["context"]
        table = answer_of(demo, "/evidence").json()["tables"]["lengths"]
        if sum(table["requests"]) == context["requests"]:
            break
    raw = [t for t, n in zip(table["tokens"], table["requests"], strict=True) for _ in range(n)]

    assert len(raw) == context["requests"]
    assert abs(raw[len(raw) // 2] / context["p50"] - 1) < 0.01


def test_pool_shares_add_up_to_the_gpu(demo: DaemonProcess) -> None:
    """All shares and the pool together are the GPU's memory."""
    pool = answer_of(demo, "/evidence").json()["kv_pool"]
    total = pool["pool"]["expected_bytes"] + sum(share["expected_bytes"] for share in pool["shares"])

    assert total == pool["gpu_memory_bytes"] == 80e9


def test_explanation_has_inputs_and_outcome(demo: DaemonProcess) -> None:
    """The explanation names the deployment and is JSON without a value that JSON does not have."""
    explanation = answer_of(demo, "/explain")

    assert explanation.json()["deployment"] == "demo"
    assert "NaN" not in explanation.text


def test_history_ends_with_what_holds(demo: DaemonProcess) -> None:
    """The last change is what is recommended now, and times rise."""
    for _ in range(5):
        changes = answer_of(demo, "/history").json()["changes"]
        flags = answer_of(demo).json()["flags"]
        if changes[-1]["max_num_seqs"] == flags["max_num_seqs"]["recommended"]:
            break
    times = [change["time_seconds"] for change in changes]

    assert changes[-1]["max_model_len"] == flags["max_model_len"]["recommended"]
    assert changes[-1]["max_num_seqs"] == flags["max_num_seqs"]["recommended"]
    assert times == sorted(times)


def test_what_if_without_a_change_changes_nothing(demo: DaemonProcess) -> None:
    """Nothing supposed, nothing moved."""
    outcome = answer_of(demo, "/what-if").json()

    assert outcome["today"] == outcome["supposed"]
    assert outcome["notes"] == []


@pytest.mark.parametrize(
    ("query", "detail"),
    [
        ("slo_tpot_ms=0", "slo_tpot_ms: expected a number over 0"),
        ("slo_tpot_ms=soon", "slo_tpot_ms: expected a number"),
        ("quantile=1", "quantile: expected a number under 1"),
        ("gpus=1.5", "gpus: expected a whole number"),
        ("kv_cache_dtype=int3", "kv_cache_dtype: expected 'auto', 'bfloat16' or 'fp8'"),
        ("color=red", "color: unknown key"),
    ],
)
def test_wrong_parameter_is_a_problem(demo: DaemonProcess, query: str, detail: str) -> None:
    """A wrong parameter is named in a problem document with status 400."""
    answer = answer_of(demo, f"/what-if?{query}")

    assert answer.status == 400
    assert answer.headers["content-type"].startswith("application/problem+json")
    assert answer.json()["detail"].startswith(detail)


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/api/v1/nothing", 404),
        ("GET", "/api/v1/deployments/nobody", 404),
        ("GET", f"{API}/evidence/nothing.csv", 404),
        ("POST", "/api/v1/recommendations", 405),
        ("PUT", f"{API}/sweep", 405),
    ],
)
def test_refusal_is_a_problem(demo: DaemonProcess, method: str, path: str, status: int) -> None:
    """What is not there, or not to be done so, is said in a problem document."""
    answer = ask(demo.url + path, method=method)
    document = answer.json()

    assert (answer.status, document["status"], document["instance"]) == (status, status, path)
    assert answer.headers["content-type"].startswith("application/problem+json")
    assert ("allow" in answer.headers) == (status == 405)


def test_sweep_is_taken_and_forgotten(demo: DaemonProcess) -> None:
    """A sweep that is sent is given back, as JSON and as CSV, and is gone once forgotten."""
    kind = {"Content-Type": "application/json"}
    sent = answer_of(demo, "/sweep", method="POST", body=json.dumps(SWEEP).encode(), headers=kind)
    held = answer_of(demo, "/sweep").json()
    table = b"concurrency,tpot_p99\n8,0.0016\n64,0.0064\n"
    by_csv = answer_of(demo, "/sweep", method="POST", body=table, headers={"Content-Type": "text/csv"})
    forgotten = answer_of(demo, "/sweep", method="DELETE")

    assert (sent.status, by_csv.status, forgotten.status) == (200, 200, 200)
    assert held["levels"] == SWEEP["levels"]
    assert sent.json()["deployment"] == "demo"
    assert answer_of(demo, "/sweep").status == 404


@pytest.mark.parametrize(
    ("body", "kind", "status"),
    [
        (b"", "application/json", 400),
        (b"[]", "application/json", 400),
        (b'{"levels": []}', "application/json", 400),
        (b'{"levels": [{"concurrency": 1e300, "tpot_mean": 1}]}', "application/json", 400),
        (b'{"levels": [{"concurrency": 8, "tpot_mean": -1}]}', "application/json", 400),
        (b'{"levels": [{"concurrency": 1%s, "tpot_mean": 1}]}' % (b"0" * 400), "application/json", 400),
        (b'{"levels": [{"concurrency": 1%s, "tpot_mean": 1}]}' % (b"0" * 5000), "application/json", 400),
        (b'{"levels": [{"concurrency": 8, "tpot_mean": 1001}]}', "application/json", 400),
        (b"[" * 100_000, "application/json", 400),
        (b"\xff\xfe", "application/json", 400),
        (b"concurrency=8", "application/x-www-form-urlencoded", 415),
        (b" " * 1_100_000, "application/json", 413),
    ],
)
def test_wrong_sweep_is_a_problem(demo: DaemonProcess, body: bytes, kind: str, status: int) -> None:
    """What is no sweep is refused, and what was in use stays."""
    answer = answer_of(demo, "/sweep", method="POST", body=body, headers={"Content-Type": kind})

    assert answer.status == status
    assert answer.json()["status"] == status
    assert answer_of(demo, "/sweep").status == 404


def test_writes_from_other_sites_are_refused(demo: DaemonProcess) -> None:
    """A browser that sends a write for another site's page is refused."""
    headers = {"Sec-Fetch-Site": "cross-site"}

    assert answer_of(demo, "/sweep", method="DELETE", headers=headers).status == 403
    assert ask(f"{demo.url}/-/reload", method="POST", headers=headers).status == 403


def test_pages_answer_machines_too(demo: DaemonProcess) -> None:
    """Targets are JSON and the configuration YAML to whoever asks for no page."""
    targets, config = ask(f"{demo.url}/targets"), ask(f"{demo.url}/config")

    assert targets.json()["targets"][0]["deployment"] == "demo"
    assert config.headers["content-type"].startswith("application/yaml")
    assert "name: demo" in config.text
    assert "tpot: 3ms" in config.text


def test_every_answer_keeps_browsers_to_own_files(demo: DaemonProcess) -> None:
    """Pages, files, data and errors come with the policy that allows nothing from elsewhere."""
    for path in ("/", "/static/style.css", "/openapi.json", "/metrics", "/nothing"):
        policy = ask(demo.url + path).headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
