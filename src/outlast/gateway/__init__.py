"""The gateway: our HTTP server between a harness and its model, its tools and its hooks.

`open_gateway` serves one in the worker; it implements `outlast.adapter.Gateway`.
"""

from outlast.gateway.app import HttpGateway, open_gateway
from outlast.gateway.limits import Limits
from outlast.gateway.upstream import (
    ApiKey,
    Bearer,
    ByDialect,
    Login,
    NoCredential,
    Open,
    OpenAIKey,
    Subscription,
    Target,
    Upstream,
)

__all__ = [
    "ApiKey",
    "Bearer",
    "ByDialect",
    "HttpGateway",
    "Limits",
    "Login",
    "NoCredential",
    "Open",
    "OpenAIKey",
    "Subscription",
    "Target",
    "Upstream",
    "open_gateway",
]
