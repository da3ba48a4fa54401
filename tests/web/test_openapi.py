"""The OpenAPI document, and the daemon held to it by schemathesis."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

from support.daemon_process import DaemonProcess
from support.web import ask
from vllm_advisor.ceilings.what_if import Change
from vllm_advisor.web.api.routes import api_routes

SCHEMATHESIS = Path(sys.executable).with_name("schemathesis")


def document_of(demo: DaemonProcess) -> dict[str, Any]:
    """Fetch the document."""
    return dict(ask(f"{demo.url}/openapi.json").json())


def test_document_names_every_route(demo: DaemonProcess) -> None:
    """The document has the routes that are served, no more and no fewer, and is OpenAPI 3.1."""
    document = document_of(demo)
    named = {(method.upper(), path) for path, item in document["paths"].items() for method in item}
    served = {(route.method, route.path) for route in api_routes("")}

    assert document["openapi"].startswith("3.1")
    assert named == served - {("GET", "/openapi.json")}


def test_document_names_every_change(demo: DaemonProcess) -> None:
    """Each thing that what-if takes is a parameter."""
    item = document_of(demo)["paths"]["/api/v1/deployments/{name}/what-if"]["get"]
    named = {parameter["name"] for parameter in item["parameters"] if "name" in parameter}

    assert named == set(Change.model_fields)


def test_daemon_keeps_to_the_document(demo: DaemonProcess, tmp_path: Path) -> None:
    """Whatever is sent, right or wrong: no answer is a server's error, or other than the document says."""
    config = tmp_path / "schemathesis.toml"
    config.write_text('[parameters]\nname = "demo"\n')
    command = [SCHEMATHESIS, "--config-file", config, "run", f"{demo.url}/openapi.json"]
    options = ["--checks=all", "--max-examples=15", "--seed=1", "--phases=coverage,fuzzing", "--no-color"]
    run = subprocess.run([*command, *options], cwd=tmp_path, capture_output=True, text=True, check=False)
    forgotten = ask(f"{demo.url}/api/v1/deployments/demo/sweep", method="DELETE")

    assert run.returncode == 0, run.stdout
    assert "Tested: 13" in run.stdout
    assert forgotten.status == 200
