"""What the pages of a console show over HTTP: the same as the query servers and the broker say."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Sequence

import grpc
import pytest
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from moneystate.console import topics
from moneystate.records import exact_json
from moneystate.serving.client import Client
from moneystate.state.v1 import state_pb2 as s
from tests.console.world import HOSTILE, START_MS, WITHIN_S, World, path_of, rows_of
from tests.reference.kafka_log import read_log
from tests.waiting import until


def test_the_first_page_has_all_services_with_what_the_broker_and_the_servers_say(world: World) -> None:
    world.shown("/", "empty_text", "malformed")

    def shown() -> dict[str, Sequence[str]]:
        return {row[0]: row for row in rows_of(world.get("/").text) if len(row) > 5}

    assert {"notes", "rollups", "stock"} <= shown().keys()
    with world.client("notes") as client:
        header = client.call("State.List", s.ListRequest(state="note")).header
    until(lambda: int(shown()["notes"][2]) >= header.version.batch, lambda: str(shown()), WITHIN_S)
    by_name = shown()
    columns = next(row for row in rows_of(world.get("/").text) if row[0] == "service")
    notes = dict(zip(columns, by_name["notes"], strict=True))
    assert world.addresses["notes"] in notes["queries"]
    assert "empty_text 1" in notes["dead letters, 1 h"]


def test_a_service_is_drawn_among_its_topics_and_neighbours(world: World) -> None:
    page = world.get("/services/notes")
    assert page.has('href="/topics/notes"', 'href="/topics/notes-taken"', 'href="/topics/notes-dead-letters"')
    assert world.get("/services/stock").has('href="/services/stock-orders"', ">timed stream")


def test_pages_run_no_script_of_others_and_cannot_be_framed(world: World) -> None:
    for path in ("/", "/state", "/queries", "/topics", path_of("state", "notes"), "/nowhere"):
        reply = world.get(path)
        policy = reply.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "script-src 'self'" in policy
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert "<script>" not in reply.text
        assert "style=" not in reply.text


def test_a_page_is_small(world: World) -> None:
    for path in ("/", "/services/notes", "/state/notes?key=plain", "/queries/notes/notes_at?level=HIGH&asked=yes"):
        assert len(world.get(path).text) < 100_000


def test_a_name_that_is_not_the_consoles_is_refused(world: World) -> None:
    assert world.get("/", host="attacker.example:80").status == 421
    assert world.get("/", host=f"localhost:{world.console.rpartition(':')[2]}").status == 200


def test_a_key_has_its_values_as_the_server_has_them(world: World) -> None:
    page = world.get("/state/notes", key="plain")
    with world.client("notes") as client:
        answer = client.call("State.Get", s.GetRequest(name=s.RecordName(key="plain")))
    record = exact_json.loads(answer.records[0].json)
    rows = {row[0]: row[1] for row in rows_of(page.text) if len(row) == 2}
    assert {name: rows[name] for name in ("author", "text", "level", "count")} == {
        name: str(record[name]) for name in ("author", "text", "level", "count")
    }
    assert page.has("/state/notes/parts?key=plain")


def test_a_key_that_is_not_there_is_told(world: World) -> None:
    assert 'role="alert"' in world.get("/state/notes", key="nobody").text
    assert world.get("/state/nothing", key="x").status == 404


def test_states_maps_and_indices_are_listed(world: World) -> None:
    assert world.get("/state/notes/note", prefix="pl").has("plain")
    assert not world.get("/state/notes/note", prefix="pl").has("beat-0")
    assert world.get("/state/notes/parts", key="plain").has("0001")
    index = world.get("/state/notes/by_level", equals="HIGH")
    assert index.has("html", "reversed")
    assert not index.has(">plain<")


def test_a_record_at_an_earlier_version_and_what_differs(world: World) -> None:
    with world.client("notes") as client:
        before = client.call("State.Get", s.GetRequest(name=s.RecordName(state="note", key="plain"))).header.version
        world.note("plain", "second", world.later())
        world.beat(world.later())
        name = s.RecordName(state="note", key="plain")
        until(lambda: "second" in client.call("State.Get", s.GetRequest(name=name)).records[0].json, str, WITHIN_S)
    version = f"{before.epoch}/{before.batch}"
    now = world.get("/state/notes/note/record", key="plain")
    assert ["text", "second"] in rows_of(now.text)
    then = world.get("/state/notes/note/record", key="plain", **{"at-version": version})
    assert ["text", "first"] in rows_of(then.text)
    differing = world.get("/state/notes/note/record", key="plain", since=version)
    assert ["text", "first", "second"] in rows_of(differing.text)
    assert differing.has("Who wrote this", "reminder", "/topics/notes?partition=")


def test_a_query_is_a_form_and_its_result_a_table_json_a_command_and_a_call(world: World) -> None:
    form = world.get("/queries/notes/notes_at")
    assert form.has('<select name="level">', "<option>HIGH</option>", 'name="limit"', "The notes of a level.")
    page = world.get("/queries/notes/notes_at", asked="yes", level="LOW", limit="2", withTags="true")
    with world.client("notes") as client:
        arguments = json.dumps({"level": "LOW", "limit": 2, "withTags": True})
        answer = client.call("State.Call", s.CallRequest(query="notes_at", arguments=arguments))
    ids = [one["noteId"] for one in json.loads(answer.result.json)]
    assert [row[0] for row in rows_of(page.text) if len(row) == 4][1:] == ids
    assert page.has("moneystate ask notes notes_at level=LOW limit=2 withTags=true --address", "client.call(")


def test_arguments_that_cannot_be_read_are_named(world: World) -> None:
    wrong = world.get("/queries/notes/notes_at", asked="yes", level="LOW", limit="many")
    assert wrong.status == 400
    assert "limit: expected whole number, found many." in html.unescape(wrong.text)
    missing = world.get("/queries/notes/count_since", asked="yes", noteId="plain", since="")
    assert missing.status == 400


def test_versions_times_and_values_that_cannot_be_read_are_told(world: World) -> None:
    for given in ({"at-time": "soon"}, {"at-time": "9" * 30}, {"at-version": "x"}, {"at-version": "e/" + "9" * 30}):
        assert world.get("/state/notes", key="plain", **given).status == 400
    assert world.get("/state/notes/by_level", equals="9" * 30).status == 400
    assert world.get("/topics/notes", since="soon").status == 400
    assert world.get("/state/notes", key="plain", **{"at-version": "epoch/-1"}).status == 404


def test_topics_have_their_records_decoded(world: World) -> None:
    assert world.get("/topics").has("notes-taken", "readings", "dead letters of notes")
    assert world.get("/topics/notes", key="plain").has("&#34;text&#34;: &#34;first&#34;")
    avro = world.get("/topics/notes-taken", limit="5")
    assert avro.has("Taken", "&#34;noteId&#34;")
    record = read_log(world.servers, ["notes"])[0][0]
    place = world.get("/topics/notes", partition=record.partition, offset=record.offset, limit="1")
    assert place.has(f"<code>{record.partition}/{record.offset}</code>")
    later = world.get("/topics/notes", since="2100-01-01T00:00:00Z")
    assert later.has("no records")
    assert world.get("/topics/none-of-this-name").status == 503


def test_a_dead_letter_is_beside_its_bytes_and_is_sent_again_corrected(world: World) -> None:
    letters = world.shown("/dead-letters/notes", "empty_text")
    place = next(row[0] for row in rows_of(letters.text) if "empty_text" in row)
    path = f"/dead-letters/notes/{place.replace('/', '-')}"
    page = world.get(path)
    assert page.has("expected a text", "7b 22 6e 6f", "Send to notes")
    token = page.text.split('name="csrf" value="')[1].split('"')[0]
    noted_at = START_MS + world.later() * 60_000
    value = {"noteId": "empty", "author": "Ann", "text": "corrected", "level": "LOW", "notedAt": noted_at}
    assert world.post(path, {"value": json.dumps(value), "csrf": "wrong"}).status == 403
    assert world.post(path, {"value": json.dumps(value), "csrf": token}).status == 303
    world.beat(world.later())
    with world.client("notes") as client:
        name = s.RecordName(state="note", key="empty")
        until(lambda: _text(client, name) == "corrected", str, WITHIN_S)


def test_a_letter_with_bytes_that_are_no_text_is_shown_in_hex(world: World) -> None:
    letters = world.shown("/dead-letters/notes", "malformed")
    place = next(row[0] for row in rows_of(letters.text) if "malformed" in row)
    assert world.get(f"/dead-letters/notes/{place.replace('/', '-')}").has("not UTF-8", "20 ff")
    assert world.get("/dead-letters/notes/0-999999").status == 404
    assert world.get("/dead-letters/notes/what").status == 404


def test_hostile_values_are_text(world: World) -> None:
    for name in HOSTILE:
        for path in (f"/state/notes?key={name}", f"/topics/notes?key={name}"):
            page = world.get(path)
            assert "<script>document" not in page.text
            assert "<img" not in page.text
            assert "\u202e" not in page.text
            assert len(page.text) < 200_000
    assert world.get("/state/notes", key="reversed").has("\u27e8U+202E\u27e9")
    wide = world.get("/state/notes", key="wide")
    assert wide.has("more characters")


def test_the_events_behind_a_version_are_those_of_its_key_and_time(world: World) -> None:
    then = world.later()
    for text, minute in (("first", then), ("second", then), ("third", then + 5), ("late", then - 5)):
        world.note("caused", text, minute)
    world.note("another", "of another key", then + 5)
    world.beat(world.later())
    with world.client("notes") as client:
        until(lambda: _text(client, s.RecordName(state="note", key="caused")) == "third", str, WITHIN_S)
    page = world.get("/state/notes/note/record", key="caused")
    targets = re.findall(r'href="(/state/notes/note/events[^"]*)"', page.text)  # of the newest version first
    shown = [world.get(html.unescape(target)).text for target in reversed(targets)]
    texts = [text for one in shown for text in re.findall(r"&#34;text&#34;: &#34;(\w+)&#34;", one)]
    assert texts == ["first", "second", "late", "third"]
    whole = "".join(shown)
    for record in read_log(world.servers, ["notes"])[0]:
        assert (f"notes/{record.partition}/{record.offset}</code>" in whole) == (record.key == b"caused")
    assert "late: it counts at" in whole
    assert "not all that could be" not in whole


def test_records_that_are_no_text_of_a_page_are_shown_harmless(world: World) -> None:
    topic = "hostile"
    admin = AdminClient({"bootstrap.servers": world.servers})
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result()
    values = {
        "surrogate": b'{"text": "\\ud800"}', "deep": b"[" * 5_000 + b"]" * 5_000, "indented": b"[" * 400 + b"]" * 400,
        "digits": b'{"n": ' + b"9" * 5_000 + b"}", "tags": "a\U000e0041\u200b\u061cb".encode(),
        "framed": b"\0\0\0\0\1" + b"x" * 900_000, "bytes": b"\xff" * 900_000, "quotes": b'"' * 900_000,
    }  # fmt: skip
    for name, value in values.items():
        headers: list[tuple[str, str | bytes | None]] = [("h" * 1_000, b"v" * 5_000)] * 100
        world.producer.produce(topic, value, name, headers=headers if name == "surrogate" else [])
    world.producer.produce(topic, b"long key", "k" * 900_000)
    world.producer.flush(WITHIN_S)
    page = world.get(f"/topics/{topic}", limit="100")
    assert page.status == 200
    assert len(page.text) < 200_000
    assert page.has(">deep<", "\u27e8U+D800\u27e9", "a\u27e8U+E0041\u27e9\u27e8U+200B\u27e9\u27e8U+061C\u27e9b")
    for name in values:
        alone = world.get(f"/topics/{topic}", key=name)
        assert alone.status == 200
        assert len(alone.text) < 300_000


def test_records_that_are_too_large_to_be_read_at_once_are_told(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """In this process, with a smaller limit."""
    monkeypatch.setattr(topics, "MOST_BYTES", 100)
    admin = AdminClient({"bootstrap.servers": world.servers})
    admin.create_topics([NewTopic("many", 1, 1)])["many"].result()
    for _ in range(3 * topics.AT_ONCE):
        world.producer.produce("many", b"value", b"key")
    world.producer.flush(WITHIN_S)
    its = topics.Topics(world.servers, {}, "")
    assert its.page("many", topics.Wanted(key=b"key")).is_short
    nobody = its.page("many", topics.Wanted(key=b"nobody"))
    assert (nobody.is_short, nobody.scanned) == (False, 3 * topics.AT_ONCE)


def test_numbers_that_are_none_are_refused(world: World) -> None:
    assert world.get("/topics/notes", offset="\u00b2").status == 400
    assert world.get(path_of("dead-letters", "notes", "\u00b2-1")).status == 404
    assert world.get("/compare", service="notes", again="9" * 5_000).status == 200


def test_pages_of_other_sites_get_nothing(world: World) -> None:
    own_page = {"Sec-Fetch-Site": "same-origin", "Sec-Fetch-Mode": "cors", "Sec-Fetch-Dest": "empty"}
    link = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
    frame = {**link, "Sec-Fetch-Dest": "iframe"}
    image = {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "image"}
    answers = [world.request("GET", "/", None, headers).status for headers in (own_page, link, frame, image)]
    assert answers == [200, 200, 403, 403]
    assert world.request("POST", "/dead-letters/notes/0-0", b"", link).status == 403
    assert world.get("/").headers["cross-origin-resource-policy"] == "same-origin"


def test_no_answer_leads_to_a_host_that_the_request_names(world: World) -> None:
    reply = world.get("/topics/", host=f"localhost:{world.console.rpartition(':')[2]}")
    assert (reply.status, reply.headers.get("location")) == (404, None)
    assert world.get("/", host="localhost").status == 200
    assert world.get("/", host="[::1]:1").status == 200
    for host in ("[::1", "localhost@attacker.example", "localhost.attacker.example:1", ""):
        assert world.get("/", host=host or " ").status in (400, 421)


def test_lines_that_the_browser_ends_otherwise_are_no_correction(world: World) -> None:
    value = b'\n{"noteId": "lines",\r\n "level": "NONE"'
    world.send("notes", "lines", value)
    world.producer.flush(WITHIN_S)
    until(lambda: _letter_of(world, "lines") is not None, lambda: "no letter", WITHIN_S)
    path = f"/dead-letters/notes/{_letter_of(world, 'lines')}"
    token = world.get(path).text.split('name="csrf" value="')[1].split('"')[0]
    sent = world.post(path, {"value": value.decode().replace("\r\n", "\n").replace("\n", "\r\n"), "csrf": token})
    assert sent.headers["location"] == f"{path}?sent=unchanged"


def test_faces_of_services_ask_their_queries(world: World) -> None:
    assert world.get("/services/rollups").has("/services/rollups/pages/graph")
    graph = world.get("/services/rollups/pages/graph", device="d0", metric="temp", tier="15m")
    assert world.get("/services/notes").has("/topics/notes-state", "/topics/notes-taken", "/topics/notes-commits")
    assert graph.has("data-graph=", "times of Europe/Berlin", "&#34;label&#34;: &#34;mean&#34;")
    assert world.get("/services/rollups/pages/graph", device="nobody", metric="temp").has('role="alert"')
    assert world.get("/services/stock/pages/levels", pool="main").has("The pool has no such skus.")
    assert world.get("/services/stock/pages/nothing").status == 404


def _letter_of(world: World, key: str) -> str | None:
    places = (row[0].replace("/", "-") for row in rows_of(world.get("/dead-letters/notes").text) if len(row) == 5)
    return next((one for one in places if one[0].isdigit() and _is_of(world, one, key)), None)


def _is_of(world: World, place: str, key: str) -> bool:
    return f"<dd><bdi>{key}</bdi></dd>" in world.get(f"/dead-letters/notes/{place}").text


def _text(client: Client, name: s.RecordName) -> str:
    try:
        answer = client.call("State.Get", s.GetRequest(name=name))
    except grpc.RpcError:
        return ""
    return str(json.loads(answer.records[0].json)["text"])
