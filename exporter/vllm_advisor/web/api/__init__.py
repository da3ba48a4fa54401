"""The JSON API under ``/api/v1``."""

from vllm_advisor.web.api.routes import api_routes

__all__ = ["api_routes"]
