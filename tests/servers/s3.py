"""A server that speaks S3, in this process: moto's."""

import logging
import os
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, cast

import boto3  # pyright: ignore[reportMissingTypeStubs] it brings none
import certifi
from moto.server import ThreadedMotoServer

from outlast.ids import new_id

_ENVIRON = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_REGION": "us-east-1"}


@contextmanager
def s3_server() -> Generator[str]:
    """The URL of an empty bucket; the environment says where it is and how to get in."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    bucket = new_id("bucket")  # what one server holds, the next of this process holds too
    host, port = server.get_host_and_port()
    wanted = {**_ENVIRON, "AWS_ENDPOINT_URL": f"http://{host}:{port}"}
    wanted["SSL_CERT_FILE"] = certifi.where()  # the client will have some, though it needs none here
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        client = cast("Any", boto3).client(
            "s3", region_name="us-east-1", endpoint_url=wanted["AWS_ENDPOINT_URL"]
        )
        client.create_bucket(Bucket=bucket)
        client.close()
        yield f"s3://{bucket}/folder"
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
        server.stop()
