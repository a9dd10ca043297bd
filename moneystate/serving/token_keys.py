"""Public keys that verify tokens: a PEM file, or a JWK set (RFC 7517) with keys by `kid`.

A key fixes the algorithm, whatever a token's header says: RS256 for RSA, ES256 for the curve P-256, EdDSA for Ed25519
and Ed448.
"""

from __future__ import annotations

from codecs import BOM_UTF8
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

import jwt
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519, rsa
from cryptography.hazmat.primitives.serialization import load_pem_public_key

from moneystate.engine.json_object import read_object
from moneystate.errors import ConfigError

FLAG: Final = "--token-key"
MIN_RSA_BITS: Final = 2_048
SUPPORTED: Final = f"RSA of at least {MIN_RSA_BITS} bits, EC on the curve P-256, Ed25519 or Ed448"

PublicKey: TypeAlias = rsa.RSAPublicKey | ec.EllipticCurvePublicKey | ed25519.Ed25519PublicKey | ed448.Ed448PublicKey


@dataclass(frozen=True, slots=True)
class TokenKey:
    key: PublicKey
    algorithm: str


@dataclass(frozen=True, slots=True)
class TokenKeys:
    """Public keys that verify tokens."""

    by_kid: dict[str, TokenKey]  # empty for a PEM file
    only: TokenKey | None  # the key, if there is exactly one

    def find(self, kid: str | None) -> TokenKey | None:
        """The key for tokens with this `kid` in their header; None: there is none. A PEM key has no name."""
        if kid is None or not self.by_kid:
            return self.only
        return self.by_kid.get(kid)


def read_keys(path: str) -> TokenKeys:
    """Raises ConfigError."""
    try:
        content = Path(path).read_bytes().removeprefix(BOM_UTF8)
    except OSError as e:
        raise ConfigError(
            f"{FLAG} {path}: expected a public key as PEM or a JWK set, but {e.strerror}.", "check the path."
        ) from None
    return keys_of_set(f"{FLAG} {path}", content) if content.lstrip().startswith(b"{") else _of_pem(path, content)


def _of_pem(path: str, content: bytes) -> TokenKeys:
    try:
        key = _supported(load_pem_public_key(content))
    except (ValueError, UnsupportedAlgorithm) as e:
        raise ConfigError(
            f"{FLAG} {path}: expected a public key as PEM or a JWK set, but {e}.", "check the file."
        ) from None
    if key is None:
        raise ConfigError(f"{FLAG} {path}: expected {SUPPORTED}, found another kind.", "use a key of a supported kind.")
    return TokenKeys({}, key)


def keys_of_set(where: str, content: bytes) -> TokenKeys:
    """Reads the keys of a JWK set. Skips keys of unsupported kinds, as the RFC requires. Raises ConfigError."""
    try:
        members = [dict(member) for member in read_object(content)["keys"]]
    except (ValueError, KeyError, TypeError) as e:
        raise ConfigError(f"{where}: expected a JWK set, but {type(e).__name__}: {e}.", "check the file.") from None
    if any("d" in member or "k" in member for member in members):
        raise ConfigError(f"{where}: expected public keys, found a private or shared one.", "give the public one.")
    keys = [(member.get("kid"), key) for member in members if (key := _of_member(member)) is not None]
    by_kid = {kid: key for kid, key in keys if isinstance(kid, str)}
    if not keys:
        raise ConfigError(f"{where}: expected keys for signatures ({SUPPORTED}), found none.", "add one.")
    if len(keys) > 1 and len(by_kid) < len(keys):
        raise ConfigError(f"{where}: expected a `kid` of its own for each key, found another.", "give each one.")
    return TokenKeys(by_kid, keys[0][1] if len(keys) == 1 else None)


def _of_member(member: dict[str, Any]) -> TokenKey | None:
    if member.get("use", "sig") != "sig":
        return None
    try:
        key = _supported(jwt.PyJWK(member).key)
    except (jwt.PyJWTError, ValueError, TypeError):
        return None
    return key if key is not None and member.get("alg", key.algorithm) == key.algorithm else None


def _supported(key: Any) -> TokenKey | None:
    if isinstance(key, rsa.RSAPublicKey) and key.key_size >= MIN_RSA_BITS:
        return TokenKey(key, "RS256")
    if isinstance(key, ec.EllipticCurvePublicKey) and isinstance(key.curve, ec.SECP256R1):
        return TokenKey(key, "ES256")
    if isinstance(key, ed25519.Ed25519PublicKey | ed448.Ed448PublicKey):
        return TokenKey(key, "EdDSA")
    return None
