"""The real `outlast serve`, over a World of its own."""

import json
import signal
import subprocess
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from tests.acceptance.counter import Counter, opened
from tests.acceptance.terminals import LIMIT_S


@dataclass
class Server:
    """A server that runs."""

    counter: Counter
    process: "subprocess.Popen[str]"
    url: str
    token: str
    api: httpx.Client
    log: Path

    @property
    def address(self) -> tuple[str, int]:
        parts = httpx.URL(self.url)
        return parts.host, parts.port or 0

    def get(self, path: str, **settings: Any) -> Any:
        answer = self.api.get(path, **settings)
        assert answer.status_code == 200, f"{path}: {answer.status_code} {answer.text}"
        return answer.json()

    def post(self, path: str, body: object) -> Any:
        answer = self.api.post(path, json=body)
        assert answer.status_code < 300, f"{path}: {answer.status_code} {answer.text}"
        return answer.json()

    def memory_mb(self) -> float:
        """What it holds of the machine's memory."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS")) / 1024


@contextmanager
def opened_server(*words: str, environ: Mapping[str, str] | None = None) -> Generator[Server]:
    """A server at a port of its own, which ends in order when the block does; its log holds no traceback."""
    with opened() as counter:
        counter.environ |= environ or {}
        log = counter.directory / "serve.log"
        with log.open("w") as errors:  # no pipe that nobody reads: it writes a line for each decision
            process = subprocess.Popen(
                counter.argv("serve", *words, "--port", "0", "--json"),
                env=counter.environ,
                cwd=counter.shop,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
        with process:
            try:
                assert process.stdout is not None
                line = process.stdout.readline()
                assert line, log.read_text()
                said = json.loads(line)
                headers = {"authorization": f"Bearer {said['token']}"}
                url = f"http://{said['address']}"  # `url` is where people reach it, which may be a proxy
                with httpx.Client(base_url=url, headers=headers, timeout=LIMIT_S) as api:
                    yield Server(counter, process, url, said["token"], api, log)
                process.send_signal(signal.SIGTERM)
                assert process.wait(LIMIT_S) == 0
                assert "Traceback" not in log.read_text(), log.read_text()[-4000:]
            finally:
                process.kill()
