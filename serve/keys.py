"""`Keys`: who may ask. Only digests are kept, and nothing of a key is ever logged."""

from __future__ import annotations

import hashlib
import hmac
import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from readoff.serve.errors import HttpError, StartError

ENVIRONMENT = "READOFF_API_KEYS"
_KIND = "authentication_error"


class Keys:
    """The API keys that a server accepts; with none, everybody may ask."""

    def __init__(self, keys: Iterable[str] = ()) -> None:
        self._digests = [_digest(key.encode()) for key in keys]

    @classmethod
    def load(cls, path: Path | None, environ: Mapping[str, str] = os.environ) -> Keys:
        """From a file (a key a line; blank lines and those that begin with # are skipped), and
        from READOFF_API_KEYS (keys between commas).

        Raises StartError for a file that can't be read or holds no key, for a variable without
        one, and for a key that no client could send.
        """
        found: list[str] = []
        if path is not None:
            found += _read(path)
        if ENVIRONMENT in environ:
            keys = [key.strip() for key in environ[ENVIRONMENT].split(",")]
            if not any(keys):
                raise StartError(
                    f"{ENVIRONMENT} is set and holds no key. Unset it to let everybody ask."
                )
            found += filter(None, keys)
        for number, key in enumerate(found, 1):
            if not key.isascii() or not key.isprintable() or " " in key:
                raise StartError(
                    f"API key {number} of {len(found)} holds a space or a character that no header "
                    "can carry. Use printable ASCII."
                )
        return cls(found)

    def __len__(self) -> int:
        return len(self._digests)

    def check(self, header: bytes | None) -> None:
        """Raise HttpError unless `header` (Authorization, as it came) holds an accepted key: 403
        where there is none, 401 where it is wrong. Takes equally long for every wrong key."""
        if not self._digests:
            return
        scheme, _, key = (header or b"").strip().partition(b" ")
        key = key.strip()
        if scheme.lower() != b"bearer" or not key:
            raise HttpError(
                403, _KIND, 'An API key is needed: send it as "Authorization: Bearer KEY".'
            )
        asked = _digest(key)
        known = False
        for digest in self._digests:  # all of them: the time must not say which was near
            known |= hmac.compare_digest(digest, asked)
        if not known:
            raise HttpError(
                401, _KIND, "This API key isn't accepted.", headers={"www-authenticate": "Bearer"}
            )


def _read(path: Path) -> list[str]:
    try:
        text = path.read_text("utf-8")
    except OSError as error:
        raise StartError(f"The key file {path} can't be read ({error.strerror}).") from error
    except UnicodeDecodeError as error:
        raise StartError(f"The key file {path} is not text.") from error
    lines = [line.strip() for line in text.removeprefix("\ufeff").splitlines()]
    keys = [line for line in lines if line and not line.startswith("#")]
    if not keys:
        raise StartError(f"The key file {path} holds no key. Put one on a line.")
    return keys


def _digest(key: bytes) -> bytes:
    return hashlib.sha256(key).digest()
