"""Grafana's dashboards, in the classic JSON model that Grafana 10 and later read."""
