"""The store of secret values: what the names in the rows of endpoints stand for.

A value belongs to a name of an owner, so a row reaches the secrets of its own owner only. The store is one of:

    DIR/OWNER/NAME    a folder, mounted or written by the interface: a file for each value. OWNER is percent-encoded
    FILE              one file, encrypted with AES-GCM under the key in a file of its own

An encrypted file is the line `moneystate-secrets-1`, 12 random bytes (the nonce), and the encrypted JSON object
{OWNER: {NAME: VALUE}}; the line is authenticated, too. Each writing replaces the whole file at once.

Any number of processes may read and write. Readers see a change within `LOOK_S`. No error repeats a value.
"""

from __future__ import annotations

import base64
import binascii
import fcntl
import json
import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Protocol
from urllib.parse import quote

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from moneystate.deliver.rows import SECRET_NAME
from moneystate.errors import ConfigError, SetupError

LOOK_S: Final = 1.0  # how old a value may be
KEY_BYTES: Final = 32
MOST_BYTES: Final = 4_096  # of a value
_HEADER: Final = b"moneystate-secrets-1\n"
_NONCE_BYTES: Final = 12
_LONGEST_FOLDER: Final = 255
_VALUE: Final = re.compile(r"[\x20-\x7e]+")  # it goes into headers
_PRIVATE_FILE: Final = 0o600
_PRIVATE_FOLDER: Final = 0o700

_Documents = dict[str, dict[str, str]]


class UnknownSecret(Exception):
    """The owner has no secret of this name, or it has no usable value."""


class InvalidSecret(Exception):
    """A name or value that the store does not take. Its text does not repeat the value."""


class Store(Protocol):
    """All calls raise SetupError for a store that cannot be read or written."""

    def value(self, owner: str, name: str) -> str:
        """Raises UnknownSecret."""

    def names(self, owner: str) -> list[str]:
        """Sorted."""

    def put(self, owner: str, name: str, value: str) -> None:
        """Raises InvalidSecret."""

    def delete(self, owner: str, name: str) -> bool:
        """Whether there was one."""


def open_store(path: str, key_file: str = "", clock: Callable[[], float] = time.monotonic) -> Store:
    """Opens the store at `path`. With `key_file`, it is an encrypted file, which need not exist; else a folder. Raises
    ConfigError."""
    if key_file:
        return SealedFile(Path(path), _read_key(key_file), clock)
    if not Path(path).is_dir():
        raise ConfigError(
            f"--secrets {path}: expected a folder, or a file and --secrets-key.", "make the folder, or add the key."
        )
    return Folder(Path(path), clock)


class Folder:
    """A file for each value. The last line end of a file is not part of its value."""

    def __init__(self, path: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self._path = path
        self._clock = clock
        self._read: dict[tuple[str, str], tuple[float, str | None]] = {}  # when, and the value; None: there is none

    def value(self, owner: str, name: str) -> str:
        now = self._clock()
        when, value = self._read.get((owner, name), (-LOOK_S, None))
        if now - when >= LOOK_S:
            value = self._value(owner, name)
            self._read[owner, name] = now, value
        if value is None:
            raise UnknownSecret(name)
        return value

    def _value(self, owner: str, name: str) -> str | None:
        if refusal_of_name(owner, name):
            return None
        try:
            text = (self._path / _folder_name(owner) / name).read_bytes().decode().removesuffix("\n").removesuffix("\r")
        except (FileNotFoundError, IsADirectoryError, UnicodeDecodeError):
            return None
        except OSError as e:
            raise _unusable(self._path, e) from None
        return None if refusal_of_value(text) else text

    def names(self, owner: str) -> list[str]:
        if refusal_of_name(owner, "any"):
            return []
        try:
            return sorted(p.name for p in (self._path / _folder_name(owner)).iterdir() if SECRET_NAME.fullmatch(p.name))
        except FileNotFoundError:
            return []
        except OSError as e:
            raise _unusable(self._path, e) from None

    def put(self, owner: str, name: str, value: str) -> None:
        _check(owner, name, value)
        folder = self._path / _folder_name(owner)
        try:
            folder.mkdir(mode=_PRIVATE_FOLDER, exist_ok=True)
            _replace(folder / name, value.encode())
        except OSError as e:
            raise _unusable(self._path, e) from None
        self._read.pop((owner, name), None)

    def delete(self, owner: str, name: str) -> bool:
        if refusal_of_name(owner, name):
            return False
        self._read.pop((owner, name), None)
        try:
            (self._path / _folder_name(owner) / name).unlink()
        except FileNotFoundError:
            return False
        except OSError as e:
            raise _unusable(self._path, e) from None
        return True


class SealedFile:
    """All values in one encrypted file. `key`: 32 bytes."""

    def __init__(self, path: Path, key: bytes, clock: Callable[[], float] = time.monotonic) -> None:
        """Raises ConfigError for a file of another key, SetupError for one that cannot be read."""
        self._path = path
        self._cipher = AESGCM(key)
        self._clock = clock
        self._stamp: tuple[int, int, int] | None = None
        self._content: _Documents = {}
        self._looked_s = -LOOK_S
        self._look()

    def value(self, owner: str, name: str) -> str:
        self._look_again()
        value = self._content.get(owner, {}).get(name)
        if value is None:
            raise UnknownSecret(name)
        return value

    def names(self, owner: str) -> list[str]:
        self._look_again()
        return sorted(self._content.get(owner, {}))

    def put(self, owner: str, name: str, value: str) -> None:
        _check(owner, name, value)
        with self._changing() as content:
            content.setdefault(owner, {})[name] = value

    def delete(self, owner: str, name: str) -> bool:
        with self._changing() as content:
            return content.get(owner, {}).pop(name, None) is not None

    @contextmanager
    def _changing(self) -> Iterator[_Documents]:
        """The latest content, which then replaces the file's. Others wait."""
        try:
            with open(self._path.with_name(self._path.name + ".lock"), "a") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)  # closing the file ends it
                self._look()
                content = {owner: dict(values) for owner, values in self._content.items()}
                yield content
                nonce = os.urandom(_NONCE_BYTES)
                text = json.dumps({owner: values for owner, values in content.items() if values}).encode()
                _replace(self._path, _HEADER + nonce + self._cipher.encrypt(nonce, text, _HEADER))
                self._look()
        except OSError as e:
            raise _unusable(self._path, e) from None

    def _look_again(self) -> None:
        if self._clock() - self._looked_s >= LOOK_S:
            self._look()

    def _look(self) -> None:
        """Reads the file if it has changed."""
        self._looked_s = self._clock()
        try:
            stat = self._path.stat()
            stamp = stat.st_mtime_ns, stat.st_ino, stat.st_size
            if stamp == self._stamp:
                return
            sealed = self._path.read_bytes()
        except FileNotFoundError:
            self._stamp, self._content = None, {}
            return
        except OSError as e:
            raise _unusable(self._path, e) from None
        self._content, self._stamp = self._opened(sealed), stamp

    def _opened(self, sealed: bytes) -> _Documents:
        start = len(_HEADER)
        nonce, text = sealed[start : start + _NONCE_BYTES], sealed[start + _NONCE_BYTES :]
        try:
            if not sealed.startswith(_HEADER):
                raise InvalidTag
            content: _Documents = json.loads(self._cipher.decrypt(nonce, text, _HEADER))
        except (InvalidTag, ValueError):
            raise ConfigError(
                f"--secrets {self._path}: expected a file of secrets that this key has encrypted, found another one.",
                "give the key that it was written with; the file is not changed.",
            ) from None
        return content


def refusal_of_name(owner: str, name: str) -> str:
    """Returns why nobody can have a secret of this name. Empty: it may be."""
    if not SECRET_NAME.fullmatch(name):
        return "a secret's name has up to 100 letters, digits and characters of _.-, and begins with a letter or digit"
    if not owner or len(_folder_name(owner)) > _LONGEST_FOLDER:
        return "the owner has no name, or one that is too long"
    return ""


def refusal_of_value(value: str) -> str:
    """Returns why it is no value. Empty: it is."""
    if not _VALUE.fullmatch(value) or len(value) > MOST_BYTES:
        return f"a secret has 1 to {MOST_BYTES:,} printable ASCII characters"
    return ""


def _check(owner: str, name: str, value: str) -> None:
    refused = refusal_of_name(owner, name) or refusal_of_value(value)
    if refused:
        raise InvalidSecret(refused)


def _folder_name(owner: str) -> str:
    """Never a path, and never hidden."""
    name = quote(owner, safe="")
    return "%2E" + name[1:] if name.startswith(".") else name


def _replace(path: Path, content: bytes) -> None:
    """Readers see the old content or the new one. Raises OSError."""
    scratch = path.with_name(f".{path.name}.{os.getpid()}.{os.urandom(4).hex()}")
    descriptor = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _PRIVATE_FILE)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(scratch, path)
    except OSError:
        scratch.unlink(missing_ok=True)
        raise
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _read_key(path: str) -> bytes:
    """Raises ConfigError."""
    try:
        key = base64.b64decode(Path(path).read_bytes().strip(), validate=True)
    except OSError as e:
        raise ConfigError(
            f"--secrets-key {path}: expected a file with a key, but {e.strerror}.", "check the path."
        ) from None
    except (binascii.Error, ValueError):
        key = b""
    if len(key) != KEY_BYTES:
        raise ConfigError(
            f"--secrets-key {path}: expected {KEY_BYTES} bytes in Base64, found something else.",
            "make a key with: openssl rand -base64 32",
        )
    return key


def _unusable(path: Path, e: OSError) -> SetupError:
    return SetupError(
        f"--secrets {path}: expected to read and write secrets, but {e.strerror}.", "check its permissions."
    )
