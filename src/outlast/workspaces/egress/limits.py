"""How long a way out waits and how much it takes."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """Seconds and bytes, for one session; the defaults fit a worker with many."""

    connections: int = 64
    """At a time; one more is told so."""
    head_bytes: int = 64 * 1024
    """Of a request, of an answer, of each line of a chunked body."""
    head_s: float = 15.0
    """For a request to arrive once its connection is made or its first byte is there, and for a handshake."""
    pause_s: float = 60.0
    """Between two requests on a connection."""
    idle_s: float = 900.0
    """Without a byte in either direction."""
    resolve_s: float = 10.0
    connect_s: float = 10.0
    """For each address of a host, and for a handshake with it."""
    reuse_s: float = 15.0
    """For a connection to a host to wait for the next request to it."""
    linger_s: float = 5.0
    """For the rest of a request that was answered before its end."""
    secret_s: float = 10.0
    """For a function to say a secret."""
    secret_kept_s: float = 60.0
    """For which what a function said is used again."""
