"""Cards of publications: one for each batch, with targets, sender and picture."""

from __future__ import annotations

import html
import re

import httpx
import pytest

from socialpub.web.html import time_format
from tests.support.app_server import UNKNOWN_ID, ApiClient
from tests.support.connect_flow import sign_in
from tests.support.dashboard_forms import HTML, follow_notice, send_compose, send_form, target_fields
from tests.support.parsed_pages import ParsedPage
from tests.support.post_list import insert_rows
from tests.support.post_outcomes import failed
from tests.support.request_cast import RequestCast, make_picture

PAGE_BYTES_MAX = 60_000


def cards(browser: ApiClient, path: str = "/posts") -> list[str]:
    """The cards of a page, as HTML."""
    answer = browser.get(path, headers=HTML)
    assert answer.status_code == 200
    return re.findall(
        r'<li class="pub">.*?</div>\n</div>.*?</li>\n(?=<li class="pub">|</ul>|\n)', answer.text, re.DOTALL
    )


def targets(card: str) -> list[str]:
    """What the signs of a card say, in its order."""
    return [html.unescape(found) for found in re.findall(r'data-tip aria-label="([^"]*)"', card)]


def publish_to_two(world: RequestCast, **fields: object) -> list[str]:
    """The ids of the posts of one batch: to Bluesky and to X."""
    second = world.server.connect(world.alice, "twitter")
    body = world.body(targets=[{"accountId": world.alice.bluesky}, {"accountId": second["id"]}], **fields)
    return [row["postId"] for row in world.alice.api.publish(body).json()["results"]]


def test_a_batch_is_one_card_with_the_state_of_each_target(world: RequestCast, browser: ApiClient) -> None:
    first, second = publish_to_two(world, text="For both", scheduledAt=world.soon())
    world.scheduled(text="Alone")
    alone, both = cards(browser)
    assert [found.partition(",")[0] for found in targets(alone)] == ["Bluesky"]
    assert [found.partition(",")[0] for found in targets(both)] == ["Bluesky", "X"]
    assert {found.rpartition(": ")[2] for found in targets(both)} == {"Scheduled"}
    assert {f"/posts/{first}", f"/posts/{second}"} <= set(ParsedPage(both).links)
    send_form(browser, f"/posts/{second}/cancel")
    both = cards(browser)[1]
    assert [found.rpartition(": ")[2] for found in targets(both)] == ["Scheduled", "Canceled"]
    assert "1 Scheduled" in both
    assert "1 Canceled" in both
    (found,) = cards(browser, "/posts?status=canceled")
    assert f'class="text" href="/posts/{second}"' in found  # opens the target that was asked for
    assert len(targets(found)) == 2


def test_the_overview_has_the_same_cards(world: RequestCast, browser: ApiClient) -> None:
    publish_to_two(world, text="For both", scheduledAt=world.soon())
    world.published(text="It is out")
    waiting, out = cards(browser, "/")
    assert ("For both" in waiting, len(targets(waiting))) == (True, 2)
    assert ("It is out" in out, len(targets(out))) == (True, 1)


def test_a_card_names_the_key_or_the_person_who_made_it(world: RequestCast, browser: ApiClient) -> None:
    name = _key_name(world)
    world.scheduled(text="By the key")
    world.server.clock.skip(2)
    assert send_compose(browser, text="By a person", **target_fields(world.alice.bluesky)).status_code == 303
    person, key = cards(browser)
    assert f'by key “<bdi dir="auto">{html.escape(name)}</bdi>”' in key
    assert "by key" not in person
    assert re.search(r'by <bdi dir="auto">[^<]+@[^<]+</bdi>', person)


def _key_name(world: RequestCast) -> str:
    listed = sign_in(world.server, world.alice.organization, name="lister").get("/v1/api-keys").json()["data"]
    return str(next(row["name"] for row in listed if row["id"] == world.alice.key_id))


def test_a_picture_is_shown_while_it_is_stored(world: RequestCast, browser: ApiClient) -> None:
    sent = world.alice.api.post("/v1/media", files={"file": ("a.png", make_picture())}, data={"altText": "A loaf"})
    media = sent.json()
    post = world.scheduled(text="With a picture", media=[{"kind": "image", "mediaId": media["id"]}])
    (card,) = cards(browser)
    (path,) = re.findall(r'<img class="picture" src="([^"]*)"', card)
    assert browser.get(path).headers["Content-Type"] == "image/webp"
    page = browser.get(f"/posts/{post}", headers=HTML).text
    assert path.replace("320", "960") in page
    before, _, after = page.partition('<details class="developer">')
    assert media["id"] in after
    assert f"<code>{media['id']}" not in before


def test_ids_and_commands_of_a_post_are_behind_the_developers_disclosure(
    world: RequestCast, browser: ApiClient
) -> None:
    first, second = publish_to_two(world, text="For both", scheduledAt=world.soon())
    page = browser.get(f"/posts/{first}", headers=HTML).text
    before, _, after = page.partition('<details class="developer">')
    assert f"<code>{first}</code>" in after
    assert "curl" in after
    assert f"<code>{first}" not in before
    assert "curl" not in before
    assert f'<a href="/posts/{second}">' in before  # the other target of the publication


def test_another_organization_and_another_profile_see_no_card(world: RequestCast, browser: ApiClient) -> None:
    publish_to_two(world, text="For both", scheduledAt=world.soon())
    assert cards(sign_in(world.server, world.charlie.organization, name="charlie")) == []
    other = browser.post("/v1/profiles", json={"name": "Second"}).json()["id"]
    browser.post("/profile", data={"csrf_token": browser.headers["X-CSRF-Token"], "profile": other})
    assert cards(browser) == []


def test_a_text_that_is_cut_says_so(world: RequestCast, browser: ApiClient) -> None:
    world.scheduled(text="Bread and butter. " * 16, scheduledAt="2098-03-04T10:20:00.000Z")
    for page, most in (("/posts", 200), ("/calendar/month/2098-03", 60)):
        found = re.search(r">(Bread and butter[^<]*)<", browser.get(page, headers=HTML).text)
        assert found is not None, page
        assert found[1].endswith("…"), page
        assert most - 10 < len(found[1]) <= most, page


def test_a_full_page_of_cards_is_small(world: RequestCast, browser: ApiClient) -> None:
    insert_rows(
        world.server, world.alice, *[{"text": f"{number} " + "Bread and butter. " * 30} for number in range(60)]
    )
    text = browser.get("/posts", headers=HTML).text
    assert text.count('<li class="pub">') == 40
    assert len(text.encode()) < PAGE_BYTES_MAX


# --- Several at once -------------------------------------------------------------------------------------------------


def act(browser: ApiClient, do: str, picked: dict[str, str], zone: str = "Europe/Berlin") -> httpx.Response:
    fields = {f"pick.{batch}": at for batch, at in picked.items()}
    return send_form(browser, "/posts/bulk", do=do, page="/posts?status=queued", in_zone=zone, **fields)


def picks(browser: ApiClient) -> dict[str, str]:
    """What the checkboxes of the list send."""
    return dict(re.findall(r'name="pick\.([^"]*)" value="([^"]*)"', browser.get("/posts", headers=HTML).text))


def test_several_are_moved_by_days_of_the_reader_and_canceled(world: RequestCast, browser: ApiClient) -> None:
    at = "2098-03-29T10:00:00.000Z"  # the night after it, the clocks of Berlin are set forward
    posts = [world.scheduled(text=text, scheduledAt=at) for text in ("One", "Two")]
    moved = act(browser, "later", picks(browser))
    assert moved.headers["Location"] == "/posts?status=queued"
    assert "2 posts moved." in follow_notice(browser, moved)
    read = world.alice.api.get
    assert {read(f"/v1/posts/{post}").json()["scheduledAt"] for post in posts} == {"2098-03-30T09:00:00.000Z"}
    assert act(browser, "cancel", picks(browser)).status_code == 303
    assert {read(f"/v1/posts/{post}").json()["status"] for post in posts} == {"canceled"}
    assert picks(browser) == {}


@pytest.mark.parametrize(
    ("do", "at", "zone", "said"),
    [
        (
            "later",
            "2098-03-29T01:30:00Z",
            "Europe/Berlin",
            "Clocks skip 02:30 on that day: 2 posts moved to Sun 30",
        ),
        ("week", "2098-03-23T01:30:00Z", "Europe/Berlin", "Clocks skip 02:30 on that day: 2 posts moved to Sun 30"),
        ("earlier", "2098-03-31T00:30:00Z", "Europe/Berlin", "Clocks skip 02:30 on that day: 2 posts moved to Sun 30"),
        ("later", "2098-10-03T15:45:00Z", "Australia/Lord_Howe", "Clocks skip 02:15 on that day: 2 posts moved to Sun"),
        ("later", "2098-03-28T01:30:00Z", "Europe/Berlin", ""),
        ("later", "2098-10-25T00:30:00Z", "Europe/Berlin", ""),
    ],
)
def test_a_time_that_the_clocks_skip_is_said_with_the_one_instead(
    world: RequestCast, browser: ApiClient, do: str, at: str, zone: str, said: str
) -> None:
    posts = [world.scheduled(text=text, scheduledAt=at) for text in ("One", "Two")]
    told = follow_notice(browser, act(browser, do, picks(browser), zone))
    moved = {world.alice.api.get(f"/v1/posts/{post}").json()["scheduledAt"] for post in posts}
    assert "2 posts moved." in told
    assert (said in told, "Clocks skip" in told) == (True, bool(said))
    assert not said or f"{time_format.format_instant(moved.pop(), zone)} instead." in told


def test_a_refused_post_is_not_said_to_have_moved(world: RequestCast, browser: ApiClient) -> None:
    for text in ("One", "Two"):
        world.scheduled(text=text, scheduledAt="2098-03-29T01:30:00Z")
    first, second = picks(browser).items()
    page = act(browser, "later", dict([first, (second[0], str(int(second[1]) - 1))])).text
    assert "Clocks skip 02:30 on that day: 1 post moved to Sun 30 Mar 2098, 03:30 CEST instead. 1 was refused" in page


def test_each_publication_that_is_refused_is_named(world: RequestCast, browser: ApiClient) -> None:
    world.scheduled(text="Moves")
    world.scheduled(text="Was moved")
    seen = picks(browser)
    stale = {batch: str(int(at) - 1) if place else at for place, (batch, at) in enumerate(seen.items())}
    page = act(browser, "week", stale)
    assert page.status_code == 200
    assert "1 post moved. 1 was refused" in page.text
    assert ("Moves</a>" in page.text, "in the meantime" in page.text) == (True, True)
    assert act(browser, "retry", seen).status_code == 409
    for do, picked in (("", seen), ("cancel", {}), ("cancel", {f"b{number}": "" for number in range(101)})):
        assert "Choose 1 to 100 posts" in follow_notice(browser, act(browser, do, picked))
    assert act(browser, "cancel", {UNKNOWN_ID: ""}).status_code == 409
    stranger = sign_in(world.server, world.charlie.organization, name="charlie")
    assert act(stranger, "cancel", seen).status_code == 409
    assert len(picks(browser)) == 2


def test_failed_publications_are_retried_together(world: RequestCast, browser: ApiClient) -> None:
    posts = [failed(world), failed(world)]
    assert "2 posts retried." in follow_notice(browser, act(browser, "retry", picks(browser)))
    assert {world.server.wait(post, "published")["status"] for post in posts} == {"published"}


def test_one_failure_among_others_that_wait_is_retried(world: RequestCast, browser: ApiClient) -> None:
    pieces = stopped_thread(world)
    assert "1 post retried." in follow_notice(browser, act(browser, "retry", picks(browser)))
    assert {world.server.wait(post, "published")["status"] for post in pieces} == {"published"}


def test_a_button_of_an_old_page_is_refused_in_plain_words(world: RequestCast, browser: ApiClient) -> None:
    post = world.published()
    for do, words in (("cancel", "not scheduled any more"), ("retry", "has not failed"), ("settle", "is known")):
        told = follow_notice(browser, send_form(browser, f"/posts/{post}/{do}", published="no"))
        assert words in told
        assert "`" not in told


# --- Threads ---------------------------------------------------------------------------------------------------------


def stopped_thread(world: RequestCast) -> list[str]:
    """The posts of a thread whose second piece failed."""
    world.server.lab.lab.faults.add([{"fault": "status:429", "operation": "com.atproto.repo.putRecord", "nth": 2}])
    (result,) = world.post(text="First", thread=[{"text": "Second"}, {"text": "Third"}]).json()["results"]
    pieces = result["thread"]
    assert [piece["status"] for piece in pieces] == ["failed", "failed"]
    world.server.lab.lab.faults.clear()
    return [result["postId"], *(piece["postId"] for piece in pieces)]


def test_a_thread_is_one_target_of_its_card(world: RequestCast, browser: ApiClient) -> None:
    first, second, third = stopped_thread(world)
    (card,) = cards(browser)
    assert f'class="text" href="/posts/{first}"' in card
    (mark,) = targets(card)
    assert mark.endswith(": Failed")
    assert f'<a href="/posts/{second}" data-tip' in card
    assert card.count('class="clip why"') == 1
    tabs = browser.get(f"/posts/{third}", headers=HTML).text
    assert [f"</bdi>, piece {number}" in tabs for number in (1, 2, 3, 4)] == [True, True, True, False]


def test_a_piece_that_waits_leads_to_the_one_that_failed(world: RequestCast, browser: ApiClient) -> None:
    _, second, third = stopped_thread(world)
    page = browser.get(f"/posts/{third}", headers=HTML).text
    assert f'<a href="/posts/{second}">Piece 2 of the thread</a> was not published' in page
    assert f'action="/posts/{third}/retry"' not in page
    assert f'action="/posts/{second}/retry"' in browser.get(f"/posts/{second}", headers=HTML).text
    overview = browser.get("/", headers=HTML).text
    assert "<strong>1 post</strong>" in overview
    assert overview.count('action="/overview/retry"') == 1
    message = world.alice.api.get(f"/v1/posts/{third}").json()["error"]["message"]
    assert message.startswith(f"The piece of the thread before this one, post {second}, is")


def test_the_filters_count_up_to_a_limit(world: RequestCast, browser: ApiClient) -> None:
    insert_rows(world.server, world.alice, *[{"status": "published"} for _ in range(101)])
    world.scheduled(text="Alone")
    found = dict(re.findall(r'<a class="chip" href="([^"]*)".*?<span class="number">([^<]*)<', page_of_posts(browser)))
    assert (found["/posts?status=published"], found["/posts?status=queued&amp;order=scheduledAt"]) == ("99+", "1")


def page_of_posts(browser: ApiClient) -> str:
    return browser.get("/posts", headers=HTML).text
