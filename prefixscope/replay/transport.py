"""The real transport: one pool of connections to the endpoint, TLS verified, no proxy from the environment."""

from __future__ import annotations

import ssl

import httpx

from prefixscope.errors import OptionError

__all__ = ["network_transport"]


def network_transport(ca_file: str | None = None, connections: int = 512) -> httpx.AsyncHTTPTransport:
    """A transport that verifies certificates against the system's authorities, or those of `ca_file` (PEM)."""
    try:
        verify = ssl.create_default_context(cafile=ca_file)
    except (OSError, ssl.SSLError) as error:
        raise OptionError(f"--ca-file {ca_file}: {error}") from error
    limits = httpx.Limits(max_connections=connections, max_keepalive_connections=connections)
    return httpx.AsyncHTTPTransport(verify=verify, limits=limits, trust_env=False)
