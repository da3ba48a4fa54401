"""Pods and endpoint slices as targets, with the labels that Prometheus gives them.

Labels: Prometheus' configuration page, ``kubernetes_sd_config``, roles ``pod`` and ``endpointslice``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from vllm_advisor.sources.discovery.found import Found
from vllm_advisor.sources.engine_facts import EngineFacts
from vllm_advisor.sources.pod_arguments import facts_from_container

__all__ = ["Pod", "endpoint_targets", "read_pod"]

_PREFIX = "__meta_kubernetes_"
_NOT_IN_LABELS = re.compile(r"[^a-zA-Z0-9_]")


@dataclass(frozen=True, slots=True)
class _Container:
    labels: Mapping[str, str]
    ports: tuple[Mapping[str, Any], ...]
    facts: EngineFacts


@dataclass(frozen=True, slots=True)
class Pod:
    """What is kept of a pod.

    Args:
        labels: those of the pod itself.
        containers: its containers that run on, not those that set it up.
        address: its IP, empty before it has one.
    """

    labels: Mapping[str, str]
    address: str
    containers: tuple[_Container, ...] = field(default=())

    def targets(self) -> Iterator[Found]:
        """Yield one target for each declared port, and one without port for a container that has none."""
        if not self.address:
            return
        for container in self.containers:
            for port in container.ports or ({},):
                yield Found(
                    {
                        **self.labels,
                        **container.labels,
                        **_port_labels(port),
                        "__address__": _joined(self.address, port.get("containerPort")),
                    },
                    container.facts,
                )

    def container_at(self, port: int | None) -> _Container | None:
        """Return the container that declares a port; an only container needs no declaration."""
        declaring = (
            container
            for container in self.containers
            if any(one.get("containerPort") == port for one in container.ports)
        )
        alone = self.containers[0] if len(self.containers) == 1 else None
        return next(declaring, alone)


def read_pod(content: Mapping[str, Any]) -> Pod:
    """Read a pod as the API gives it."""
    metadata, spec, status = (content.get(part) or {} for part in ("metadata", "spec", "status"))
    owners: list[dict[str, Any]] = metadata.get("ownerReferences") or []
    owner = next((one for one in owners if one.get("controller")), {})
    conditions = status.get("conditions") or ()
    ready = next((one.get("status", "") for one in conditions if one.get("type") == "Ready"), "unknown")
    labels = {
        "namespace": metadata.get("namespace"),
        "pod_name": metadata.get("name"),
        "pod_ip": status.get("podIP"),
        "pod_ready": ready.lower(),
        "pod_phase": status.get("phase"),
        "pod_node_name": spec.get("nodeName"),
        "pod_host_ip": status.get("hostIP"),
        "pod_uid": metadata.get("uid"),
        "pod_controller_kind": owner.get("kind"),
        "pod_controller_name": owner.get("name"),
    }
    statuses = {one.get("name"): one for one in status.get("containerStatuses") or ()}
    return Pod(
        _named(labels) | _of_metadata("pod", metadata),
        status.get("podIP") or "",
        tuple(_container(one, statuses.get(one.get("name"), {})) for one in spec.get("containers") or ()),
    )


def endpoint_targets(content: Mapping[str, Any], pods: Mapping[str, Pod]) -> Iterator[Found]:
    """Yield a target for each address and port of an endpoint slice.

    Args:
        content: the slice as the API gives it.
        pods: the namespace's pods by name, for the labels and the arguments of those behind the addresses.
    """
    metadata = content.get("metadata") or {}
    service = (metadata.get("labels") or {}).get("kubernetes.io/service-name")
    labels = {
        "namespace": metadata.get("namespace"),
        "service_name": service,
        "endpointslice_name": metadata.get("name"),
        "endpointslice_address_type": content.get("addressType"),
    }
    own = _named(labels) | _of_metadata("endpointslice", metadata)
    ports: list[dict[str, Any]] = content.get("ports") or [{}]
    for port in ports:
        of_port = {
            "endpointslice_port": port.get("port"),
            "endpointslice_port_name": port.get("name"),
            "endpointslice_port_protocol": port.get("protocol"),
            "endpointslice_port_app_protocol": port.get("appProtocol"),
        }
        for endpoint in content.get("endpoints") or ():
            yield from _endpoint(endpoint, own | _named(of_port), port.get("port"), pods)


def _endpoint(
    endpoint: Mapping[str, Any], labels: Mapping[str, str], port: int | None, pods: Mapping[str, Pod]
) -> Iterator[Found]:
    conditions, target = endpoint.get("conditions") or {}, endpoint.get("targetRef") or {}
    known = {
        **{f"endpointslice_endpoint_conditions_{name}": _flag(value) for name, value in conditions.items()},
        "endpointslice_address_target_kind": target.get("kind"),
        "endpointslice_address_target_name": target.get("name"),
        "endpointslice_endpoint_hostname": endpoint.get("hostname"),
        "endpointslice_endpoint_node_name": endpoint.get("nodeName"),
    }
    pod = pods.get(target.get("name", "")) if target.get("kind") == "Pod" else None
    container = pod.container_at(port) if pod else None
    for address in endpoint.get("addresses") or ():
        yield Found(
            {
                **labels,
                **_named(known),
                **(pod.labels if pod else {}),
                **(container.labels if container else {}),
                "__address__": _joined(address, port),
            },
            container.facts if container else EngineFacts(),
        )


def _container(content: Mapping[str, Any], status: Mapping[str, Any]) -> _Container:
    labels = {
        "pod_container_name": content.get("name"),
        "pod_container_image": content.get("image"),
        "pod_container_id": status.get("containerID"),
        "pod_container_init": "false",
    }
    return _Container(_named(labels), tuple(content.get("ports") or ()), facts_from_container(content))


def _port_labels(port: Mapping[str, Any]) -> dict[str, str]:
    labels = {
        "pod_container_port_name": port.get("name"),
        "pod_container_port_number": port.get("containerPort"),
        "pod_container_port_protocol": port.get("protocol"),
    }
    return _named(labels)


def _of_metadata(kind: str, metadata: Mapping[str, Any]) -> dict[str, str]:
    labels: dict[str, str] = {}
    for part, content in (("label", metadata.get("labels")), ("annotation", metadata.get("annotations"))):
        for name, value in (content or {}).items():
            cleaned = _NOT_IN_LABELS.sub("_", name)
            labels[f"{_PREFIX}{kind}_{part}_{cleaned}"] = value
            labels[f"{_PREFIX}{kind}_{part}present_{cleaned}"] = "true"
    return labels


def _named(values: Mapping[str, object]) -> dict[str, str]:
    return {_PREFIX + name: str(value) for name, value in values.items() if value is not None}


def _flag(value: object) -> str | None:
    return None if value is None else str(value).lower()


def _joined(address: str, port: object) -> str:
    host = f"[{address}]" if ":" in address else address
    return f"{host}:{port}" if port else host
