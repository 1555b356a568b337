"""A server that speaks S3, in this process: moto's."""

import logging
import os
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, cast

import boto3  # pyright: ignore[reportMissingTypeStubs] it brings none
import certifi
from moto.server import ThreadedMotoServer

from outlast.ids import new_id

_ENVIRON = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_REGION": "us-east-1"}


@dataclass
class S3:
    """A server of this process. What one holds, the next at the same port holds too."""

    url: str
    """Of a bucket that was empty."""
    port: int
    _server: ThreadedMotoServer

    def stop(self) -> None:
        """Nobody answers any more."""
        self._server.stop()

    def start(self) -> None:
        """It answers again."""
        self._server = _serve(self.port)


def _serve(port: int) -> ThreadedMotoServer:
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=port, verbose=False)
    server.start()
    return server


@contextmanager
def s3_server() -> Generator[str]:
    """The URL of an empty bucket; the environment says where it is and how to get in."""
    with s3() as server:
        yield server.url


@contextmanager
def s3() -> Generator[S3]:
    """A server with an empty bucket; the environment says where it is and how to get in."""
    served = _serve(0)
    bucket = new_id("bucket")
    host, port = served.get_host_and_port()
    wanted = {**_ENVIRON, "AWS_ENDPOINT_URL": f"http://{host}:{port}"}
    wanted["SSL_CERT_FILE"] = certifi.where()  # the client will have some, though it needs none here
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    server = S3(f"s3://{bucket}/folder", port, served)
    try:
        client = cast("Any", boto3).client(
            "s3", region_name="us-east-1", endpoint_url=wanted["AWS_ENDPOINT_URL"]
        )
        client.create_bucket(Bucket=bucket)
        client.close()
        yield server
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
        server.stop()
