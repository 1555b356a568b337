"""What the programs in a sandbox are told of its way out: variables that they read by themselves."""

from collections.abc import Mapping, Sequence
from typing import Final

from outlast.workspaces.egress.hosts import address_of, written
from outlast.workspaces.egress.rules import Network

PROXY_PORT: Final = 3128
"""Of the loopback inside."""
PUBLIC: Final = "/run/egress"
"""Where the directory with the certificates stands inside."""
BUNDLE: Final = "authorities.pem"
_HERE: Final = "localhost,127.0.0.1,::1"
_PROXY: Final = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
_BUNDLES: Final = (
    "SSL_CERT_FILE",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
    "GIT_SSL_CAINFO",
    "NODE_EXTRA_CA_CERTS",
    "PIP_CERT",
    "CARGO_HTTP_CAINFO",
    "AWS_CA_BUNDLE",
    "DENO_CERT",
    "npm_config_cafile",  # without it a npmrc of the system may say another
)


def variables(
    network: Network, port: int = PROXY_PORT, bundle: str = f"{PUBLIC}/{BUNDLE}"
) -> Mapping[str, str]:
    """Of the programs inside.

    Args:
        network: what may be reached.
        port: of the loopback inside, where the proxy is.
        bundle: path inside of the certificates to trust; empty: there are only the usual ones.
    """
    proxy = f"http://127.0.0.1:{port}"
    # curl reads http_proxy in lower case only, others only the capitals.
    found = {name: proxy for upper in _PROXY for name in (upper, upper.lower())}
    found |= {"NO_PROXY": _HERE, "no_proxy": _HERE, "NODE_USE_ENV_PROXY": "1"}
    found |= _of_git(_rewrites(network))
    if bundle:
        found |= dict.fromkeys(_BUNDLES, bundle)
    return found


def _rewrites(network: Network) -> Sequence[tuple[str, str]]:
    """Remotes of SSH, which leads nowhere here, by the way that a credential is for."""
    pairs: list[tuple[str, str]] = []
    for each in dict.fromkeys((one.scheme, one.host, one.port) for one in network.credentials):
        scheme, host, port = each
        if host.startswith("*") or address_of(host) is not None:
            continue
        usual = {"https": 443, "http": 80}[scheme]
        key = f"url.{scheme}://{written(host, port, usual)}/.insteadOf"
        pairs += [(key, f"git@{host}:"), (key, f"ssh://git@{host}/")]
    return pairs


def _of_git(settings: Sequence[tuple[str, str]]) -> dict[str, str]:
    # No helper for credentials, no question for a password: nobody inside has one.
    every = [("credential.helper", ""), ("core.askPass", ""), *settings]
    found = {"GIT_TERMINAL_PROMPT": "0", "GIT_CONFIG_COUNT": str(len(every))}
    for number, (key, value) in enumerate(every):
        found |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
    return found
