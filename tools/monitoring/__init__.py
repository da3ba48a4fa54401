"""Writes what Prometheus and Grafana load: rules, dashboards, and the Kubernetes objects that carry them."""
