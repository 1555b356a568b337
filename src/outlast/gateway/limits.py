"""How long the gateway waits and how much it takes."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """Seconds and bytes; the defaults fit a worker on the machine of its harnesses."""

    request_bytes: int = 64 * 1024 * 1024
    answer_bytes: int = 64 * 1024 * 1024
    stranger_bytes: int = 64 * 1024
    """Of a hook call whose token opens nothing."""
    stranger_s: float = 10.0
    """For a connection to show a token that opens a door; then it is closed."""
    strangers: int = 256
    """Connections that have not shown one yet, at a time."""
    requests: int = 64
    """Requests of one attempt under way at a time."""
    body_s: float = 60.0
    """For a harness to send the body of a request."""
    send_s: float = 120.0
    """For a harness to take what it is sent."""
    hello_s: float = 5.0
    """For the hello of an attempt, once its first model request is there."""
    hook_s: float = 60.0
    """For the answer to a hook; then the tool does not run."""
    connect_s: float = 10.0
    silence_s: float = 600.0
    """Without a byte from the provider: as long as the clients of providers wait, for one asked again is paid again."""
    total_s: float = 3600.0
    """For one model call."""
    again_s: tuple[float, ...] = (0.5, 1.0, 2.0)
    """Pauses before a provider is asked again whose failure may pass, where one that reached the harness would end the
    attempt: it waits meanwhile. When they are used up, or the provider asks for a longer one, the attempt does end."""
    calm_s: float = 5.0
    """Between frames that keep a waiting harness calm."""
    progress_s: float = 10.0
    """Between signs of life from a tool that runs."""
    close_s: float = 2.0
