"""Objects in a bucket: S3 and what speaks its language, Google Cloud Storage, Azure Blob Storage; and in memory."""

import os
from collections.abc import AsyncIterator, Sequence
from datetime import timedelta
from typing import Any, Final

from outlast.clock import Clock, SystemClock
from outlast.errors import BadInput, ExtraMissing, WorkspaceError
from outlast.workspaces.drive.stores.objects import Held

try:
    import obstore
    from obstore.exceptions import AlreadyExistsError, BaseError
    from obstore.store import ObjectStore, from_url
except ImportError as absent:
    raise ExtraMissing(what="A drive in object storage", install="pip install 'outlast[drive]'") from absent

_ENDPOINTS: Final = ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT")
"""Where a service is that speaks the language of S3. Who names one without TLS there means it."""
_TIMEOUT_S: Final = 60
"""Of each request; a pack has a few MB."""
_RETRY_S: Final = 120
_REASON: Final = 300
"""Characters of what the library says."""
_DELETED_AT_ONCE: Final = 500


class CloudObjects:
    """A bucket, or a part of it. Credentials are found as the service's own tools find them."""

    def __init__(self, store: ObjectStore, where: str, clock: Clock | None = None) -> None:
        self._store = store
        self._where = where
        self._clock = clock or SystemClock()

    @property
    def where(self) -> str:
        return self._where

    async def find(self, key: str) -> bytes | None:
        try:
            found = await obstore.get_async(self._store, key)
            return bytes(await found.bytes_async())
        except FileNotFoundError:
            return None
        except (BaseError, OSError) as error:
            raise self._failed(error) from error

    async def create(self, key: str, data: bytes) -> bool:
        try:
            await obstore.put_async(self._store, key, data, mode="create")
        except AlreadyExistsError:
            return False
        except (BaseError, OSError) as error:
            raise self._failed(error) from error
        return True

    async def list(self, prefix: str) -> AsyncIterator[Held]:
        now = self._clock.now()
        pages = obstore.list(  # pyright: ignore[reportUnknownMemberType] - one of its results is of a package that is not here
            self._store, prefix.rstrip("/"), chunk_size=1000, return_arrow=False
        )
        try:
            async for page in pages:
                for one in page:
                    yield Held(one["path"], now - one["last_modified"].timestamp())
        except (BaseError, OSError) as error:
            raise self._failed(error) from error

    async def delete(self, keys: Sequence[str]) -> None:
        for start in range(0, len(keys), _DELETED_AT_ONCE):
            try:
                await obstore.delete_async(self._store, list(keys[start : start + _DELETED_AT_ONCE]))
            except FileNotFoundError:
                for key in keys[start : start + _DELETED_AT_ONCE]:
                    await self._delete_one(key)
            except (BaseError, OSError) as error:
                raise self._failed(error) from error

    async def _delete_one(self, key: str) -> None:
        try:
            await obstore.delete_async(self._store, key)
        except FileNotFoundError:
            return
        except (BaseError, OSError) as error:
            raise self._failed(error) from error

    def _failed(self, error: Exception) -> WorkspaceError:
        reason = str(error).partition("\n")[0][:_REASON]
        return WorkspaceError(
            detail=f"The store of a workspace's files at {self._where} cannot be used: {reason}. Nothing that was "
            "recorded is lost; see to its address and the credentials, and try again."
        )


def open_cloud(url: str, clock: Clock | None = None) -> CloudObjects:
    """The bucket, or the part of one, that a URL names: `s3://bucket/folder`, `gs://…`, `az://…`, `memory:///`.

    Raises:
        BadInput: it names nothing of the kind, or the credentials that are found are none.
    """
    options: dict[str, Any] = {}
    if not url.startswith("memory:"):
        plain = any(os.environ.get(name, "").startswith("http://") for name in _ENDPOINTS)
        options["client_options"] = {"timeout": timedelta(seconds=_TIMEOUT_S), "allow_http": plain}
        options["retry_config"] = {"max_retries": 5, "retry_timeout": timedelta(seconds=_RETRY_S)}
    try:
        store = from_url(url, **options)
    except (BaseError, ValueError, OSError) as error:
        reason = str(error).partition("\n")[0]
        raise BadInput(detail=f"No store of files can be opened at {url}: {reason}.") from error
    return CloudObjects(store, url, clock)
