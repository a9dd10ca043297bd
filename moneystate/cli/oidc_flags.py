"""How browsers log in through an OpenID provider."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from moneystate.cli.option import PATH, Flags, Panel, flag
from moneystate.console.oidc import CALLBACK, OidcClient
from moneystate.errors import ConfigError


@dataclass(frozen=True)
class OidcFlags(Flags):
    """Without an issuer, browsers give their tokens by hand."""

    oidc_issuer: str = flag("", "URL of the OpenID provider that browsers log in through.", Panel.security, "URL")
    oidc_client: str = flag("", "The console's client id at the provider.", Panel.security, "ID")
    oidc_secret: str = flag("", "File with the client's secret.", Panel.security, PATH, shown="a public client")
    oidc_redirect: str = flag("", f"URL of the console's {CALLBACK}, as the provider knows it.", Panel.security, "URL")
    oidc_scopes: str = flag("openid", "Scopes to ask the provider for, with spaces between.", Panel.security, "SCOPES")

    def client(self) -> OidcClient | None:
        """Raises ConfigError."""
        if not self.oidc_issuer:
            if self.oidc_client or self.oidc_secret or self.oidc_redirect:
                raise ConfigError(
                    "--oidc-client, --oidc-secret, --oidc-redirect: expected --oidc-issuer as well, found none.",
                    "name the provider.",
                )
            return None
        secret = _read(self.oidc_secret) if self.oidc_secret else ""
        return OidcClient(self.oidc_issuer, self.oidc_client, secret, self.oidc_redirect, self.oidc_scopes)


def _read(path: str) -> str:
    try:
        secret = Path(path).read_text().strip()
    except (OSError, UnicodeDecodeError) as e:
        why = e.strerror if isinstance(e, OSError) else "it is no text"
        raise ConfigError(f"--oidc-secret {path}: expected a secret, but {why}.", "check the path.") from None
    if not secret:
        raise ConfigError(f"--oidc-secret {path}: expected a secret, found an empty file.", "write it there.")
    return secret
