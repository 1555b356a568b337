"""`python -m benchmarks.asking DIRECT GATEWAY TOKEN`: a client that asks a model both ways in turns.

Reads lines `CONVERSATION COUNT` from standard input; for each asks COUNT times either way and prints a JSON list of
[milliseconds to the first token, milliseconds to the end, frames] pairs, direct first. One connection each, kept open.
"""

import http.client
import json
import sys
import time
from urllib.parse import urlsplit

Heard = tuple[float, float, int]


class Client:
    """Asks one base URL over one connection."""

    def __init__(self, base_url: str, token: str) -> None:
        self._token = token
        self._connection = http.client.HTTPConnection(urlsplit(base_url).netloc, timeout=60)

    def ask(self, text: str) -> Heard:
        """Stream one answer to its end."""
        request = {
            "model": "claude-bench",
            "max_tokens": 1024,
            "stream": True,
            "messages": [{"role": "user", "content": text}],
        }
        headers = {
            "content-type": "application/json",
            "x-api-key": self._token,
            "anthropic-version": "2023-06-01",
        }
        began_s, first_s, frames = time.perf_counter(), 0.0, 0
        self._connection.request("POST", "/v1/messages", json.dumps(request), headers)
        response = self._connection.getresponse()
        if response.status != 200:
            raise RuntimeError(f"{response.status}: {response.read()[:500]!r}")
        while line := response.readline():
            frames += line.startswith(b"data:")
            if not first_s and b"text_delta" in line:
                first_s = time.perf_counter()
        return (first_s - began_s) * 1e3, (time.perf_counter() - began_s) * 1e3, frames


def main(direct_url: str, gateway_url: str, token: str) -> None:
    """Answer one line after the other."""
    direct, gateway = Client(direct_url, token), Client(gateway_url, token)
    asked = 0
    for line in sys.stdin:
        conversation, count = line.split()
        pairs: list[tuple[Heard, Heard]] = []
        for _ in range(int(count)):
            asked += 1
            text = f"[script:{conversation}] question {asked}"
            pairs.append((direct.ask(text), gateway.ask(text)))
        print(json.dumps(pairs), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3])
