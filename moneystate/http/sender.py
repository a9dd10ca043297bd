"""Sends calls over a bounded pool of connections.

A connection whose call timed out, was cancelled or failed is closed. It never goes back to the pool, so no later call
can get half of another's reply.

Connections can be dead without a sign: a firewall forgot them, or the server hangs in all that it has accepted. Each
would then cost a call its whole time. So after `TIMEOUTS_IN_A_ROW` without a reply between them the whole pool is
replaced, with whatever its library has lost count of. From then on each call opens a connection, until one has a reply.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from typing import Final
from urllib.request import getproxies, proxy_bypass

import aiohttp
from yarl import URL

from moneystate.http.message import HttpCall, HttpFailure, HttpReply, HttpTimeout, HttpUnsendable

TIMEOUTS_IN_A_ROW: Final = 3  # one or two may be due to their calls
IDLE_S: Final = 15.0  # an unused connection is closed after it; proxies and firewalls forget one after a minute or more
CLOSE_S: Final = 1.0  # a peer that reads nothing would delay the end of a connection with unsent bytes for ever
NO_URL: Final = "the URL is not valid"
NEVER: Final = aiohttp.ClientTimeout(total=None, connect=None, sock_connect=None, sock_read=None)


class HttpSender:
    """Sends up to `most` calls at a time, all in one event loop. Call `close` at the end."""

    def __init__(self, most: int, tls: ssl.SSLContext | None = None) -> None:
        """`tls` None: the system's authorities."""
        self.renewals = 0  # how often the pool was replaced
        self._most = most
        self._tls = tls
        self._places = asyncio.Semaphore(most)
        self._pool: _Pool | None = None
        self._timeouts = 0  # in a row

    async def send(self, call: HttpCall, timeout_s: float) -> HttpReply:
        """Makes one call. Its time begins when fewer than `most` calls are running. Raises HttpFailure."""
        async with self._places:
            pool = self._opened()
            pool.running += 1
            try:
                reply = await pool.exchange(call, timeout_s)
            except HttpTimeout:
                self._timed_out(pool)
                raise
            finally:
                pool.running -= 1
                await self._end_if_unused(pool)
            self._timeouts = 0
            return reply

    async def close(self) -> None:
        """Closes all connections. No call may be running."""
        if self._pool is not None:
            await self._pool.close()
            self._pool = None

    def _opened(self) -> _Pool:
        if self._pool is None:
            self._pool = _Pool(self._most, self._tls)
        return self._pool

    def _timed_out(self, pool: _Pool) -> None:
        if pool is not self._pool:
            return  # it has been replaced
        self._timeouts += 1
        if self._timeouts >= TIMEOUTS_IN_A_ROW:
            self._pool, self._timeouts = None, 0
            self.renewals += 1

    async def _end_if_unused(self, pool: _Pool) -> None:
        """A pool that was replaced lives until its last call is over."""
        if pool is not self._pool and not pool.running:
            await pool.close()


class _Pool:
    def __init__(self, most: int, tls: ssl.SSLContext | None) -> None:
        self.running = 0
        self._proxies = getproxies()
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=most, keepalive_timeout=IDLE_S, ssl=True if tls is None else tls),
            timeout=NEVER,  # `exchange` limits the whole call
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,  # what nobody asked for is not unpacked: its size is unknown
            headers={"Accept-Encoding": "identity"},
        )

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
            # without their texts, which quote the reply and the URL
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
        """By the variables HTTP_PROXY, HTTPS_PROXY, ALL_PROXY and NO_PROXY. `trust_env` of aiohttp would read ~/.netrc
        besides."""
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
