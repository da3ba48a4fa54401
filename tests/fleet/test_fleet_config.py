"""Discovery and stores in the configuration: Prometheus' own keys, and what is said of mistakes."""

from __future__ import annotations

from pathlib import Path

import pytest

from vllm_advisor.config import config_problems, load_config

HEAD = "deployments:\n  - name: chat\n"
WHOLE = (
    HEAD
    + """\
    file_sd_configs: [{files: ["targets/*.json"], refresh_interval: 1m}]
    http_sd_configs:
      - url: https://inventory/targets
        basic_auth: {username: reader, password_file: secrets/password}
        tls_config: {ca_file: ca.pem}
    dns_sd_configs: [{names: [_vllm._tcp.example.com]}, {names: [vllm], type: A, port: 8000}]
    kubernetes_sd_configs:
      - role: pod
        namespaces: {names: [serving]}
        selectors: [{role: pod, label: app=vllm}]
    relabel_configs:
      - {source_labels: [__meta_kubernetes_pod_container_port_name], regex: http, action: keep}
    prometheus:
      url: http://prometheus:9090/
      selector: '{job="vllm", model_name=~"llama.*"}'
      authorization: {credentials_file: /run/token}
      headers: {X-Scope-OrgID: team}
"""
)


def test_everything_is_taken(tmp_path: Path) -> None:
    """A deployment may be found in every way at once; paths start from the file's folder."""
    path = tmp_path / "advisor.yml"
    path.write_text(WHOLE, encoding="utf-8")
    (deployment,) = load_config(path).deployments
    assert deployment.file_sd_configs[0].files == (f"{tmp_path}/targets/*.json",)
    assert deployment.http_sd_configs[0].basic_auth
    assert deployment.http_sd_configs[0].basic_auth.password_path == tmp_path / "secrets/password"
    assert [(one.type, one.port) for one in deployment.dns_sd_configs] == [("SRV", None), ("A", 8000)]
    assert deployment.prometheus
    assert deployment.prometheus.url == "http://prometheus:9090"
    assert deployment.prometheus.selector == 'job="vllm", model_name=~"llama.*"'
    assert deployment.discovers


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        ("    dns_sd_configs: [{names: [vllm], type: A}]\n", ":3: deployments[0].dns_sd_configs[0]: port is"),
        ("    file_sd_configs: [{files: [targets.txt]}]\n", "expected a path such as targets/*.json"),
        ("    http_sd_configs: [{url: inventory}]\n", "expected an address such as http://host:9090"),
        ("    http_sd_configs: [{url: 'http://u:p@inventory'}]\n", "belong in basic_auth"),
        (
            "    prometheus: {url: 'http://p', selector: '{a=\"b\"}', headers: {Authorization: secret}}\n",
            "belongs in basic_auth or authorization",
        ),
        ("    kubernetes_sd_configs: [{role: node}]\n", "expected 'pod' or 'endpointslice', not 'node'"),
        (
            "    static_configs: [{targets: [a]}]\n    relabel_configs: [{action: keep}]\n",
            ":4: deployments[0].relabel_configs[0]: source_labels are required to keep",
        ),
        (
            "    static_configs: [{targets: [a]}]\n    relabel_configs: [{regex: '(', target_label: x}]\n",
            "is no regular expression",
        ),
        ("    prometheus: {url: 'http://p', selector: up}\n", 'expected label matchers such as {job="vllm"}'),
        ("    prometheus: {url: 'http://p', selector: '{}'}\n", "expected label matchers"),
        ("    prometheus: {url: 'http://p'}\n", "selector: is required"),
        (
            (
                "    prometheus:\n      url: http://p\n      selector: '{a=\"b\"}'\n"
                "      basic_auth: {username: u, password_file: p}\n"
                "      authorization: {credentials_file: c}\n"
            ),
            "give either basic_auth or authorization",
        ),
        ("    workload: batch\n", "needs somewhere to look: static_configs, *_sd_configs, prometheus"),
    ],
)
def test_a_mistake_is_named(tmp_path: Path, lines: str, problem: str) -> None:
    """Each mistake is one line that says where and what was expected."""
    path = tmp_path / "advisor.yml"
    path.write_text(HEAD + lines, encoding="utf-8")
    (only,) = config_problems(path)
    assert problem in str(only)
