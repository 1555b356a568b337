"""The gateway: our HTTP server between a harness and its model, its tools and its hooks.

`open_gateway` serves one in the worker; it implements `outlast.adapter.Gateway`.
"""

from outlast.gateway.app import HttpGateway, every_dialect, open_gateway
from outlast.gateway.limits import Limits
from outlast.gateway.target import Asker, NoCredential, NotOffered, Target, Upstream
from outlast.gateway.tenant_keys import TenantKeys
from outlast.gateway.upstream import ApiKey, Bearer, ByDialect, Login, Open, OpenAIKey, Subscription, Unusable

__all__ = [
    "ApiKey",
    "Asker",
    "Bearer",
    "ByDialect",
    "HttpGateway",
    "Limits",
    "Login",
    "NoCredential",
    "NotOffered",
    "Open",
    "OpenAIKey",
    "Subscription",
    "Target",
    "TenantKeys",
    "Unusable",
    "Upstream",
    "every_dialect",
    "open_gateway",
]
