"""The connections of a sender, by aiohttp: the one module that imports it."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from typing import Final
from urllib.request import getproxies, proxy_bypass

import aiohttp
from yarl import URL

from moneystate.http.message import HttpCall, HttpFailure, HttpReply, HttpTimeout, HttpUnsendable

IDLE_S: Final = 15.0  # an unused connection is closed after it; proxies and firewalls forget one after a minute or more
CLOSE_S: Final = 1.0  # a peer that reads nothing would delay the end of a connection with unsent bytes for ever
NO_URL: Final = "the URL is not valid"
NEVER: Final = aiohttp.ClientTimeout(total=None, connect=None, sock_connect=None, sock_read=None)


class Pool:
    """Up to `most` connections. Call `close` at the end."""

    def __init__(self, most: int, tls: ssl.SSLContext | None) -> None:
        self.running = 0
        self._proxies = getproxies()
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                limit=most, keepalive_timeout=IDLE_S, ssl=True if tls is None else tls,
                resolver=aiohttp.ThreadedResolver(),  # the system's, which knows all names of an installation
            ),
            timeout=NEVER,  # `exchange` limits the whole call
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,  # what nobody asked for is not unpacked: its size is unknown
            headers={"Accept-Encoding": "identity"},
        )  # fmt: skip

    async def exchange(self, call: HttpCall, timeout_s: float) -> HttpReply:
        url = _url(call)
        try:
            async with asyncio.timeout(timeout_s):
                return await self._exchange(call, url)
        except TimeoutError:
            raise HttpTimeout(f"no answer within {timeout_s:.3g} s") from None
        except aiohttp.InvalidURL:
            raise HttpUnsendable(NO_URL) from None
        except ValueError:
            raise HttpFailure("a header cannot be sent") from None
        except (
            aiohttp.ClientResponseError,
            aiohttp.ClientPayloadError,
        ) as e:
            # Their texts are left out, because they quote the reply and the URL
            raise HttpFailure(f"the answer is not valid HTTP ({type(e).__name__})") from None
        except (aiohttp.ClientError, OSError) as e:
            raise HttpFailure(f"{type(e).__name__}: {e}") from None

    async def _exchange(self, call: HttpCall, url: URL) -> HttpReply:
        request = self._session.request(
            call.method, url, headers=call.headers, data=call.body, allow_redirects=False, proxy=self._proxy(url)
        )
        async with request as response:
            body = bytearray()
            async for part in response.content.iter_any():
                body += part
                if len(body) > call.max_reply_bytes:
                    response.close()  # and its connection
                    return HttpReply(response.status, response.headers, bytes(body), is_cut=True)
            return HttpReply(response.status, response.headers, bytes(body))

    def _proxy(self, url: URL) -> str | None:
        """Chooses the proxy by the variables HTTP_PROXY, HTTPS_PROXY, ALL_PROXY and NO_PROXY. `trust_env` of aiohttp
        would read ~/.netrc besides."""
        proxy = self._proxies.get(url.scheme) or self._proxies.get("all")
        if not proxy or proxy_bypass(url.host_port_subcomponent or ""):
            return None
        return proxy if "://" in proxy else f"http://{proxy}"

    async def close(self) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_S):
                await self._session.close()


def _url(call: HttpCall) -> URL:
    try:
        return URL(call.url, encoded=True)
    except ValueError:
        raise HttpUnsendable(NO_URL) from None
