"""Answers of the query server, page by page, and as JSON."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import typer
from google.protobuf.json_format import MessageToJson
from google.protobuf.message import Message

from moneystate.serving.client import Client

PAGE = 1000


def list_pages(
    client: Client,
    call: str,
    request: Any,
    field: str,
    limit: int,
    json: bool,
    show: Callable[[Any, list[Any]], None],
    line: Callable[[Any], str],
) -> None:
    """Lists page by page up to `limit`, with a progress line if there is more than one page. `line`: an item as
    JSON."""
    items: list[Any] = []
    began = time.monotonic()
    while True:
        request.page_size = min(limit - len(items), PAGE)
        answer = client.call(call, request)
        page = getattr(answer, field)
        if json:
            for item in page:
                typer.echo(line(item))
        items.extend(page)
        request.page_token = answer.next_page_token
        if not answer.next_page_token or len(items) >= limit:
            break
        request.ClearField("at" if "at" in request.DESCRIPTOR.fields_by_name else "to")
        rate = len(items) / max(time.monotonic() - began, 1e-9)
        typer.echo(f"{len(items):,} of at most {limit:,} read, {rate:,.0f}/s", err=True)
    if not json:
        show(answer.header, items)
    if answer.next_page_token:
        typer.echo(f"There are more than the {limit:,} shown. Do: raise --limit.", err=True)


def show_answer(answer: Message, json: bool, show: Callable[[], None]) -> None:
    if json:
        typer.echo(MessageToJson(answer, preserving_proto_field_name=True))
    else:
        show()
