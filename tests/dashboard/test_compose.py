"""Compose page: checks and publishes as the API does, once, and keeps the input."""

from __future__ import annotations

import functools
import html
import json
import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest

from socialpub.domain.accounts import account_groups
from socialpub.platforms import PLATFORMS
from socialpub.platforms.kit.options import list_fields
from socialpub.store.schema.models import Account, Batch, Media, Post
from socialpub.web.dashboard.parts.compose_form import from_post
from tests.support.app_server import UNKNOWN_ID, UNKNOWN_MEDIA, ApiClient, AppServer, unchanged
from tests.support.composer_form import fields_of
from tests.support.connect_flow import ConnectSession, open_connect_session, sign_in
from tests.support.dashboard_forms import FORM_KEY, HTML, XSS, follow_notice, send_compose, sign_in_at, target_fields
from tests.support.media_uploads import JPEG, stored_files, stored_media
from tests.support.request_cast import RequestCast, make_picture
from tests.support.sign_in import EMAIL, add_user
from tests.support.write_requests import WriteRequest


def add(browser: ApiClient, content: bytes = JPEG, *, accept: dict[str, str] = HTML, **fields: str) -> httpx.Response:
    """The form with a file."""
    given = {"csrf_token": browser.headers["X-CSRF-Token"], "page": "/compose", "key": FORM_KEY}
    file = {"file": ("a.jpg", content, "application/octet-stream")}
    return browser.post("/compose/media", data=given | fields, files=file, headers=accept)


save_group = functools.partial(send_compose, do="", to="/compose/groups")


WRITES = [
    WriteRequest(
        "POST",
        "/compose",
        lambda person, browser: send_compose(browser, accept={}, text="hello", **target_fields(person.bluesky)),
    ),
    WriteRequest("POST", "/compose/media", lambda person, browser: add(browser, accept={})),
    WriteRequest(
        "POST",
        "/compose/groups",
        lambda person, browser: save_group(browser, accept={}, group_name="All", **target_fields(person.bluesky)),
    ),
]


def posts(world: RequestCast) -> list[dict[str, Any]]:
    return world.server.rows(Post)


def problems(answer: httpx.Response) -> list[str]:
    found = re.findall(r'<p class="problem">(.*?)(?: <a href|</p>)', answer.text)
    return [html.unescape(re.sub(r"<.*?>", "", each)) for each in found]


def files_of(answer: httpx.Response) -> list[str]:
    return re.findall(r'name="media\.\d+" value="(\w+)"', answer.text)


def next_year(world: RequestCast) -> int:
    return datetime.fromtimestamp(world.server.clock.now_ms() / 1000, UTC).year + 1


def key_of(answer: httpx.Response) -> str:
    (key,) = re.findall(r'name="key" value="([0-9a-f]{32})"', answer.text)
    return str(key)


# --- Publishing ------------------------------------------------------------------------------------------------------


def test_a_text_goes_out_and_its_page_says_so(world: RequestCast, browser: ApiClient) -> None:
    answer = send_compose(browser, text="Opening hours\r\nfrom Monday", **target_fields(world.alice.bluesky))
    (post,) = posts(world)
    assert (answer.status_code, answer.headers["Location"]) == (303, f"/posts/{post['id']}")
    assert (post["status"], post["text"]) == ("published", "Opening hours\nfrom Monday")
    assert "Post published." in follow_notice(browser, answer)


def test_the_same_form_publishes_once_however_often_it_is_sent(world: RequestCast, browser: ApiClient) -> None:
    sent = [send_compose(browser, text="hello", **target_fields(world.alice.bluesky)) for _ in range(3)]
    assert len({answer.headers["Location"] for answer in sent}) == 1
    assert len(posts(world)) == 1


def test_form_changed_after_sending_is_another_post_only_when_resent(world: RequestCast, browser: ApiClient) -> None:
    send_compose(browser, text="hello", **target_fields(world.alice.bluesky))
    again = send_compose(browser, text="hello again", **target_fields(world.alice.bluesky))
    assert again.status_code == 409
    assert "already sent" in problems(again)[0]
    assert "hello again</textarea>" in again.text
    assert len(posts(world)) == 1
    assert (
        send_compose(browser, text="hello again", key=key_of(again), **target_fields(world.alice.bluesky)).status_code
        == 303
    )
    assert len(posts(world)) == 2


def test_a_refused_form_may_be_corrected_and_sent(world: RequestCast, browser: ApiClient) -> None:
    refused = send_compose(browser, text="x" * 301, **target_fields(world.alice.bluesky))
    assert refused.status_code == 400
    assert key_of(refused) == FORM_KEY
    assert send_compose(browser, text="x" * 300, **target_fields(world.alice.bluesky)).status_code == 303


def test_what_is_different_on_an_account_goes_to_it_alone(world: RequestCast, browser: ApiClient) -> None:
    alice = world.alice
    second = world.server.connect(alice, "twitter")["id"]
    third = world.server.connect(alice, "tiktok")["id"]
    fields = {
        f"{alice.bluesky}.text": "Of its own",
        f"{alice.bluesky}.comment": "First!",
        f"{alice.bluesky}.option.langs": "en, de",
        f"{second}.option.quoteTweetId": " 123 ",
        f"{third}.option.privacy": "self_only",
        f"{third}.option.disableDuet": "true",
        f"{third}.option.title": "A title",
    }
    answer = send_compose(browser, text="Everywhere", **target_fields(alice.bluesky, second, third), **fields)
    assert answer.status_code == 400  # TikTok wants media
    media = stored_media(alice.api)["id"]
    answer = send_compose(
        browser, text="Everywhere", **target_fields(alice.bluesky, second, third), **fields, **{"media.1": media}
    )
    (batch,) = world.server.rows(Batch)
    assert answer.headers["Location"] == f"/posts?batchId={batch['id']}"
    rows = {row["platform"]: row for row in posts(world)}
    assert {name: row["text"] for name, row in rows.items()} == {
        "bluesky": "Of its own",
        "twitter": "Everywhere",
        "tiktok": "Everywhere",
    }
    assert {name: json.loads(row["options"]) for name, row in rows.items()} == {
        "bluesky": {"langs": ["en", "de"]},
        "twitter": {"quoteTweetId": "123"},
        "tiktok": {"privacy": "self_only", "disableDuet": True, "title": "A title"},
    }
    assert rows["bluesky"]["first_comment"] == "First!"
    assert {row["account"] for row in rows.values()} == {alice.bluesky, second, third}


OBJECTS = ("userTags",)  # lists of objects have no field


def test_a_copy_says_which_option_the_form_does_not_have() -> None:
    post = {"platform": "instagram", "accountId": "a", "text": "hello", "firstComment": None, "mediaRefs": []}
    options = {"story": True, "thumbOffset": 1500, "userTags": [{"username": "ann", "x": 0.5, "y": 0.5}]}
    form, problems = from_post(post, options)
    assert (form["a.option.story"], form["a.option.thumbOffset"]) == ("true", "1500")
    assert [message.message for message in problems["a"]] == ["Only the API takes `userTags`, so it is not copied."]


@pytest.mark.parametrize("name", [name for name in PLATFORMS if name != "tiktok"])  # it is off: see below
def test_every_option_of_every_platform_has_its_field(world: RequestCast, browser: ApiClient, name: str) -> None:
    account = world.alice.bluesky if name == "bluesky" else world.server.connect(world.alice, name)["id"]
    text = send_compose(browser, "", customize=account, **target_fields(account)).text
    fields = list_fields(PLATFORMS[name].options)
    aliases = [each.alias for each in PLATFORMS[name].options.model_fields.values()]
    assert [each.name for each in fields] == [each for each in aliases if each not in ("platform", *OBJECTS)]
    for each in fields:
        assert f'name="{account}.option.{each.name}"' in text
        assert f">{html.escape(each.label)}</label>" in text
    frequent, _, rare = text.partition("<summary>More options")
    for each in fields:
        part = frequent if each.name in PLATFORMS[name].frequent_options else rare
        assert f'name="{account}.option.{each.name}"' in part


def test_rare_options_are_folded_unless_they_are_used(world: RequestCast, browser: ApiClient) -> None:
    account, fold = world.alice.bluesky, "<summary>More options"
    chosen = target_fields(account)
    for option, is_open in ((), False), (("langs", "en"), False), (("quoteUri", "at://x"), True):
        given = {f"{account}.option.{option[0]}": option[1]} if option else {}
        text = send_compose(browser, "", customize=account, **chosen, **given).text
        assert text.partition(fold)[0].rstrip().endswith("<details open>") is is_open


def test_an_account_has_fields_when_asked_for_and_what_is_written_stays(world: RequestCast, browser: ApiClient) -> None:
    first, second = world.alice.bluesky, world.bob.bluesky
    chosen = {"text": "x"} | target_fields(first)
    assert ".option." not in send_compose(browser, "check", **chosen).text
    shown = fields_of(send_compose(browser, "", customize=first, **chosen))
    assert {f"{first}.text", f"{first}.option.langs"} <= shown.keys()
    assert not any(name.startswith(second) for name in shown)
    own = {name: value for name, value in shown.items() if name.startswith(first)}
    assert own.items() <= fields_of(send_compose(browser, "live", **chosen, **own)).items()
    written = {f"{second}.text": "Of its own", f"{second}.option.quoteUri": "at://x"}
    kept = fields_of(send_compose(browser, "", **chosen, **written))
    assert written.items() <= kept.items()
    assert f"to.{second}" not in kept


def test_fields_that_came_meanwhile_and_are_empty_make_no_other_post(world: RequestCast, browser: ApiClient) -> None:
    account, sent = world.alice.bluesky, list[str]()
    for empty in ({}, {f"{account}.text": "", f"{account}.option.langs": ""}):
        answer = send_compose(browser, text="x", **target_fields(account), **empty)
        sent.append(answer.headers["Location"])
    assert sent[0] == sent[1]
    assert len(posts(world)) == 1


def test_the_page_stays_small_with_many_accounts(make_server: Callable[..., AppServer]) -> None:
    """With 25 accounts of all platforms, a text of 250 characters, what is wrong with it, and its previews."""
    server = make_server(platforms={"tiktok": {"enabled": True}})
    alice, sizes = server.person("Alice"), list[int]()
    browser = sign_in(server, alice.organization)
    ids = [server.connect(alice, name, f"{name} {number}")["id"] for number in range(4) for name in PLATFORMS][-25:]
    for chosen in (0, 5, 25):
        answer = send_compose(browser, "live", text="x" * 250, **target_fields(*ids[:chosen]))
        assert answer.text.count("checked aria-describedby") == chosen
        assert answer.text.count('class="panel preview"') == min(chosen, len(PLATFORMS))  # one for each platform
        sizes.append(len(answer.content))
    assert max(sizes) < 60_000, sizes


def test_a_refused_post_keeps_its_preview(world: RequestCast, browser: ApiClient) -> None:
    refused = send_compose(browser, text="x" * 301, **target_fields(world.alice.bluesky))
    assert (refused.status_code, refused.text.count('class="panel preview"')) == (400, 1)
    assert "Nothing was published." in refused.text


def test_a_default_of_the_account_stands_beside_its_option(world: RequestCast, browser: ApiClient) -> None:
    account = world.server.connect(world.alice, "pinterest", defaultBoardId="42", defaultBoardName="Recipes")["id"]
    shown = send_compose(browser, "", customize=account, **target_fields(account))
    assert 'Empty: <bdi dir="auto">Recipes, 42</bdi>.' in shown.text


@pytest.mark.parametrize(("board", "shown"), [("42", "Recipes, 42"), ("43", "43")])
def test_the_default_board_of_a_post_is_named(world: RequestCast, browser: ApiClient, board: str, shown: str) -> None:
    account = world.server.connect(world.alice, "pinterest", defaultBoardId="42", defaultBoardName="Recipes")["id"]
    media = {"media.1": stored_media(world.alice.api, make_picture("JPEG", (400, 600)))["id"]}
    chosen = {f"{account}.option.boardId": board}
    preview = send_compose(browser, "live", text="A pin", **target_fields(account), **media, **chosen)
    assert f">{shown}</dd>" in preview.text
    sent = send_compose(browser, text="A pin", **target_fields(account), **media, **chosen)
    assert sent.status_code == 303, sent.text
    (post,) = world.server.rows(Post)
    assert f">{shown}</dd>" in browser.get(f"/posts/{post['id']}").text


@pytest.fixture
def pins(
    make_server: Callable[..., AppServer], lab: Any, monkeypatch: pytest.MonkeyPatch
) -> tuple[ConnectSession, str]:
    """An account of Pinterest that was connected, with three boards; its id."""
    office = open_connect_session(make_server, lab, monkeypatch, "pinterest")
    office.login_exists(boards=["Recipes", XSS, "Plans"])
    assert office.connect().status_code == 201
    return office, str(office.rows()[0]["id"])


@pytest.mark.slow
def test_a_board_is_chosen_from_those_that_the_platform_lists(pins: tuple[ConnectSession, str]) -> None:
    office, account = pins
    name = f"{account}.option.boardId"
    answer = send_compose(office.browser, "", boards=account, text="Keep this", **target_fields(account))
    field = answer.text.partition(f'id="{name}-field"')[2].partition("</div>")[0]
    listed = re.findall(r'<option value="(\d+)"[^>]*>(.*?)</option>', field)
    assert [html.unescape(words) for _, words in listed] == ["Recipes", XSS, "Plans"]
    assert "Keep this</textarea>" in answer.text
    assert XSS not in answer.text
    media = {"media.1": stored_media(office.alice.api, make_picture("JPEG", (400, 600)))["id"]}
    sent = send_compose(office.browser, text="A pin", **target_fields(account), **media, **{name: listed[2][0]})
    assert sent.status_code == 303
    (post,) = office.server.rows(Post)
    assert json.loads(post["options"]) == {"boardId": listed[2][0]}


def test_boards_that_are_not_told_leave_the_form_as_it_is(pins: tuple[ConnectSession, str]) -> None:
    office, account = pins
    office.server.lab.lab.faults.add([{"fault": "status:503", "operation": "boards.list"}])
    with office.browser.expecting_failure():
        answer = send_compose(office.browser, "", boards=account, text="Keep this", **target_fields(account))
    office.server.lab.lab.faults.clear()
    assert answer.status_code == 503
    assert len(problems(answer)) == 1
    assert "Keep this</textarea>" in answer.text


def test_boards_are_listed_of_ones_own_accounts_that_have_some(world: RequestCast, browser: ApiClient) -> None:
    for account, status in ((world.alice.bluesky, 400), (world.charlie.bluesky, 404), (UNKNOWN_ID, 404), (XSS, 404)):
        answer = send_compose(browser, "", boards=account, text="Keep this")
        assert answer.status_code == status
        assert len(problems(answer)) == 1
        assert "Keep this</textarea>" in answer.text


# --- When ------------------------------------------------------------------------------------------------------------


def test_a_time_is_one_on_the_clocks_that_the_form_was_shown_with(world: RequestCast, browser: ApiClient) -> None:
    year = next_year(world)
    then = {"when": "later", "day": f"{year}-07-01", "clock": "09:30", "in_zone": "Europe/Berlin"}
    answer = send_compose(browser, text="later", **target_fields(world.alice.bluesky), **then)
    post = answer.headers["Location"].removeprefix("/posts/")
    assert world.alice.api.get(f"/v1/posts/{post}").json()["scheduledAt"] == f"{year}-07-01T07:30:00.000Z"
    assert "Post scheduled." in follow_notice(browser, answer)


@pytest.mark.parametrize(
    ("then", "says"),
    [
        ({"day": "2020-01-01", "clock": "10:00"}, "This time is in the past"),
        ({"day": "2206-01-01", "clock": "10:00"}, "Check the year."),
        ({"day": "", "clock": "10:00"}, "Choose a day and a time."),
        ({"day": "2027-02-30", "clock": "10:00"}, "Choose a day and a time."),
        ({"day": "2027-02-03", "clock": "25:99"}, "Choose a day and a time."),
    ],
)
@pytest.mark.parametrize("do", ["send", "check"])
def test_a_time_that_cannot_be_is_told_beside_it(
    world: RequestCast, browser: ApiClient, then: dict[str, str], says: str, do: str
) -> None:
    answer = send_compose(
        browser, do, text="later", when="later", in_zone="UTC", **target_fields(world.alice.bluesky), **then
    )
    assert answer.status_code == 400
    assert says in answer.text.partition('id="when-wrong"')[2].partition("</div>")[0]
    assert "later</textarea>" in answer.text
    assert posts(world) == []


def test_a_first_comment_and_a_reply_go_out_now_only(world: RequestCast, browser: ApiClient) -> None:
    then = {"when": "later", "day": f"{next_year(world)}-07-01", "clock": "09:30", "in_zone": "UTC"}
    comment = send_compose(
        browser, text="x", **target_fields(world.alice.bluesky), **then, **{f"{world.alice.bluesky}.comment": "y"}
    )
    assert problems(comment) == ["A post with a first comment cannot be scheduled. Publish it now."]
    reply = {f"{world.alice.bluesky}.option.{name}": "at://x" for name in ("replyToUri", "replyToCid")}
    assert problems(send_compose(browser, text="x", **target_fields(world.alice.bluesky), **then, **reply)) == [
        "A reply cannot be scheduled. Publish it now."
    ]


def test_a_day_of_the_calendar_is_in_the_form(browser: ApiClient) -> None:
    text = browser.get("/compose?day=2027-07-01", headers=HTML).text
    assert 'value="2027-07-01"' in text
    assert 'value="later" checked' in text


def test_a_post_is_written_anew_with_all_that_it_said(world: RequestCast, browser: ApiClient) -> None:
    media, account = stored_media(world.alice.api, altText="A door")["id"], world.alice.bluesky
    own = {f"{account}.option.langs": "en, de", f"{account}.comment": "First!", f"alt.{media}": "A red door"}
    send_compose(browser, text="<Once>", **target_fields(account), **own, **{"media.1": media})
    (post,) = posts(world)
    assert f'href="/compose?from={post["id"]}"' in browser.get(f"/posts/{post['id']}", headers=HTML).text
    page = browser.get(f"/compose?from={post['id']}", headers=HTML)
    assert files_of(page) == [media]
    for there in ("&lt;Once&gt;</textarea>", 'value="en, de"', "First!</textarea>", "A red door</textarea>"):
        assert there in page.text
    again = send_compose(
        browser, text="<Once>", key=key_of(page), **target_fields(account), **own, **{"media.1": media}
    )
    assert again.status_code == 303
    first, second = posts(world)
    names = ("account", "text", "options", "media", "first_comment")
    assert [first[name] for name in names] == [second[name] for name in names]


@pytest.mark.parametrize("name", PLATFORMS)
def test_every_option_comes_back_as_it_was_sent(name: str) -> None:
    for each in list_fields(PLATFORMS[name].options):
        values = [value for value, _ in each.choices] or ["a", "b, c"]
        assert [each.text_of(each.value_of(value)) for value in values] == values


def test_a_copy_keeps_a_url_and_another_organizations_post_is_absent(world: RequestCast, browser: ApiClient) -> None:
    media = [{"kind": "image", "url": "https://192.0.32.10/a.jpg", "altText": "A door"}]
    post = world.scheduled(media=media)
    page = browser.get(f"/compose?from={post}", headers=HTML)
    name = "image:https://192.0.32.10/a.jpg"
    assert f'name="media.1" value="{name}"' in page.text
    account = world.alice.bluesky
    sent = {"text": "again", "media.1": name, f"alt.{name}": "A door", "when": "later", "in_zone": "UTC"}
    sent |= {"day": f"{next_year(world)}-07-01", "clock": "09:30"}
    assert send_compose(browser, **target_fields(account), **sent).status_code == 303
    assert json.loads(posts(world)[-1]["media"]) == media
    other = sign_in(world.server, world.charlie.organization, name="charlie")
    assert other.get(f"/compose?from={post}", headers=HTML).status_code == 404
    assert browser.get("/compose?from=nonsense", headers=HTML).status_code == 404


def test_a_copy_of_any_piece_is_the_whole_thread(world: RequestCast, browser: ApiClient) -> None:
    one, two = (stored_media(world.alice.api, JPEG + bytes(number))["id"] for number in (1, 2))
    files = [{"kind": "image", "mediaId": each} for each in (one, two)]
    thread = [{"text": "Second", "media": files[1:]}, {"text": "Third"}]
    first = world.scheduled(text="First", media=files[:1], thread=thread)
    assert len(posts(world)) == 3
    for post in (first, *(row["id"] for row in posts(world) if row["thread_of"])):
        page = browser.get(f"/compose?from={post}", headers=HTML)
        assert files_of(page) == [one, two]
        form = fields_of(page)
        assert [form[name] for name in ("text", "piece.1", "piece.2")] == ["First", "Second", "Third"]
        assert form[f"in.{two}"] == "1"


def test_a_thread_that_the_form_cannot_show_is_copied_in_part(world: RequestCast, browser: ApiClient) -> None:
    media = [{"kind": "image", "mediaId": stored_media(world.alice.api)["id"]}]
    post = world.scheduled(text="First", media=media, thread=[{"text": "Second", "media": media}])
    page = browser.get(f"/compose?from={post}", headers=HTML).text
    assert "only its first post is copied" in page
    assert "Second</textarea>" not in page


# --- Checking --------------------------------------------------------------------------------------------------------


def test_the_check_says_what_the_api_says_and_writes_nothing(world: RequestCast, browser: ApiClient) -> None:
    second = world.server.connect(world.alice, "twitter")["id"]
    before = world.server.stock()
    answer = send_compose(browser, "check", text="x" * 290, **target_fields(world.alice.bluesky, second))
    by_api = world.alice.api.post(
        "/v1/posts/validate",
        json={"targets": [{"accountId": each} for each in (world.alice.bluesky, second)], "text": "x" * 290},
    ).json()
    assert answer.status_code == 200
    (wrong,) = by_api["results"][1]["errors"]
    assert problems(answer) == [f"X: {wrong['message']}", f"{wrong['message']} {wrong['remediation']}"]
    place = answer.text.partition(f'id="said-{second[-12:]}"')[2].partition("</div>")[0]
    assert f"/docs/rules/{wrong['rule']}" in place
    assert "1 of 2 accounts would reject this post" in answer.text
    assert "290 of 300 characters" in answer.text
    assert 'class="count over">290 of 280 weighted characters' in answer.text
    assert world.server.stock() == before


def test_a_warning_of_the_check_stands_at_its_account(world: RequestCast, browser: ApiClient) -> None:
    world.published(text="Again and again")
    answer = send_compose(browser, "check", text="Again and again", **target_fields(world.alice.bluesky))
    assert (
        'class="warning"' in answer.text.partition(f'id="said-{world.alice.bluesky[-12:]}"')[2].partition("</div>")[0]
    )
    assert "Ready to publish to the account. See the warnings" in answer.text


def test_the_deep_check_looks_into_the_files(world: RequestCast, browser: ApiClient) -> None:
    account = world.server.connect(world.alice, "instagram")["id"]
    media = stored_media(world.alice.api, make_picture("PNG"))["id"]
    answer = send_compose(browser, "check", text="x", **target_fields(account), **{"media.1": media})
    assert any("JPEG" in each for each in problems(answer)), problems(answer)


def test_what_refuses_stands_at_its_account_when_it_is_sent_too(world: RequestCast, browser: ApiClient) -> None:
    answer = send_compose(browser, text="x" * 301, **target_fields(world.alice.bluesky))
    assert "300 characters" in answer.text.partition(f'id="said-{world.alice.bluesky[-12:]}"')[2].partition("</div>")[0]
    assert "Nothing was published." in answer.text
    assert posts(world) == []


def test_counting_is_no_check(world: RequestCast, browser: ApiClient) -> None:
    answer = send_compose(browser, "count", text="x" * 301, **target_fields(world.alice.bluesky))
    assert "301 of 300 characters" in answer.text
    assert problems(answer) == []


def test_what_is_written_is_checked_without_reading_files(world: RequestCast, browser: ApiClient) -> None:
    alice, form = world.alice, {"text": "x" * 301}
    second, third = (world.server.connect(alice, name)["id"] for name in ("twitter", "instagram"))
    form |= {f"{second}.text": "y" * 281, "piece.1": "z" * 301, f"{third}.alone": "yes", f"{alice.bluesky}.comment": ""}
    media = stored_media(alice.api, make_picture("PNG"))["id"]
    form |= {"media.1": media, "when": "later", "day": "2020-01-01", "clock": "10:00", "in_zone": "UTC"}
    targets = target_fields(alice.bluesky, second, third)
    late = send_compose(browser, "live", **form, **targets)
    assert (late.status_code, problems(late)) == (
        200,
        ["This time is in the past. Choose a later one, or publish now."],
    )
    before = world.server.stock()
    answer = send_compose(browser, "live", **form | {"when": "now"}, **targets)

    def place(id: str) -> str:
        return answer.text.partition(f' id="{id}"')[2].partition("</div>")[0]

    assert "Bluesky: A Bluesky post can have at most 300" in place("text-wrong")
    assert "X: " not in place("text-wrong")
    assert "at most 280 characters" in place(f"{second}.text-wrong")
    assert "2 problems. " in place("piece.1-wrong")  # on Bluesky and on X
    assert "JPEG" in place(f"said-{third[-12:]}")  # from the stored facts of the file
    assert "3 of 3 accounts would reject this post" in place("verdict")
    assert re.findall(r'<details class="findings"[^>]* open', answer.text) == []
    assert world.server.stock() == before
    good = send_compose(browser, "live", text="A door", **target_fields(alice.bluesky))
    assert ("No problems found so far." in good.text, 'class="panel preview"' in good.text) == (True, True)
    for blank in (target_fields(alice.bluesky), {"text": "No account"}):
        assert problems(send_compose(browser, "live", **blank)) == []


# --- Threads ---------------------------------------------------------------------------------------------------------


def thread_of(page: httpx.Response) -> list[str]:
    """The texts of the form's posts, and the post of each of its files."""
    fields = fields_of(page)
    return [fields["text"], *(value for name, value in fields.items() if name.startswith("piece."))]


def test_the_posts_of_a_thread_are_added_moved_and_removed_by_buttons(world: RequestCast, browser: ApiClient) -> None:
    file = stored_media(world.alice.api)["id"]
    form = {"text": "One", "piece.1": "Two", "piece.2": "Three", "media.1": file, f"in.{file}": "2"}
    assert thread_of(send_compose(browser, "piece", **form)) == ["One", "Two", "Three", ""]
    assert thread_of(send_compose(browser, "piece", text="One")) == ["One", ""]
    moved = send_compose(browser, "", **form, **{"piece-earlier": "2"})
    assert (thread_of(moved), fields_of(moved)[f"in.{file}"]) == (["One", "Three", "Two"], "1")
    first = send_compose(browser, "", **form, **{"piece-earlier": "1"})
    assert (thread_of(first), fields_of(first)[f"in.{file}"]) == (["Two", "One", "Three"], "2")
    other = send_compose(browser, "", **form, **{"piece-remove": "1"})
    assert (thread_of(other), fields_of(other)[f"in.{file}"]) == (["One", "Three"], "1")
    own = send_compose(browser, "", **form, **{"piece-remove": "2"})
    assert (thread_of(own), files_of(own)) == (["One", "Two"], [])
    full = {f"piece.{number}": "x" for number in range(1, 25)}
    assert thread_of(send_compose(browser, "piece", text="x", **full)) == ["x"] * 25


def test_a_thread_goes_out_and_elsewhere_its_first_post_alone(world: RequestCast, browser: ApiClient) -> None:
    alice, file = world.alice, stored_media(world.alice.api, make_picture("JPEG"))["id"]
    facebook = world.server.connect(alice, "facebook")["id"]
    form = {"text": "One", "piece.1": "Two", "piece.2": "Three", "media.1": file, f"in.{file}": "2"}
    form |= target_fields(alice.bluesky, facebook)
    refused = send_compose(browser, "check", **form)
    said = refused.text.partition(f'id="said-{facebook[-12:]}"')[2].partition("</div>")[0]
    assert "There are no threads on Facebook.</bdi> Choose “Only the first post of the thread”" in said
    form[f"{facebook}.alone"] = "yes"
    shown = send_compose(browser, "check", **form)
    assert "Ready to publish to all 2 accounts." in shown.text
    assert [f"piece {number} of the thread" in shown.text for number in (2, 3, 4)] == [True, True, False]
    assert "Bluesky: " in shown.text.partition('id="piece.2-count"')[2][:300]
    assert "5 of 300 characters" in shown.text.partition('id="piece.2-count"')[2][:300]
    asked = html.unescape(send_compose(browser, "request", **form).text)
    assert '"thread":[{"text":"Two"},{"text":"Three","media":["' in re.sub(r"\s", "", asked)
    assert send_compose(browser, **form).status_code == 303
    rows = sorted((row["account"] == facebook, row["position"], row["text"], row["media"]) for row in posts(world))
    assert [(row[2], file in row[3]) for row in rows] == [
        ("One", False),
        ("Two", False),
        ("Three", True),
        ("One", False),
    ]


@pytest.mark.parametrize("do", ["send", "check"])
def test_a_problem_of_a_piece_stands_at_the_piece_and_at_the_account(
    world: RequestCast, browser: ApiClient, do: str
) -> None:
    form = {"text": "One", "piece.1": "Two", "piece.2": "x" * 301, **target_fields(world.alice.bluesky)}
    answer = send_compose(browser, do, **form)
    assert "Bluesky: " in answer.text.partition('id="piece.2-wrong"')[2].partition("</div>")[0]
    assert "problem" not in answer.text.partition('id="piece.1-wrong"')[2].partition("</div>")[0]
    place = answer.text.partition(f'id="said-{world.alice.bluesky[-12:]}"')[2].partition("</div>")[0]
    assert "Post 3: " in place
    assert 'class="count over">301 of 300' in answer.text
    assert posts(world) == []


# --- Media -----------------------------------------------------------------------------------------------------------


def test_file_is_uploaded_with_the_text_and_published_with_its_alt_text(world: RequestCast, browser: ApiClient) -> None:
    answer = add(browser, text="With a picture", **{"new-alt": "A door"}, **target_fields(world.alice.bluesky))
    assert answer.status_code == 200
    (media,) = files_of(answer)
    assert "With a picture</textarea>" in answer.text
    assert f'id="to-{world.alice.bluesky[-12:]}" name="to.{world.alice.bluesky}" value="yes" checked' in answer.text
    assert "A door</textarea>" in answer.text
    fields = {"media.1": media, f"alt.{media}": "A red door"}
    assert (
        send_compose(browser, text="With a picture", **target_fields(world.alice.bluesky), **fields).status_code == 303
    )
    (post,) = posts(world)
    assert json.loads(post["media"]) == [{"kind": "image", "mediaId": media, "altText": "A red door"}]


@pytest.mark.slow
def test_the_preview_marks_what_is_cropped_of_a_picture(world: RequestCast, browser: ApiClient) -> None:
    """Instagram gives all items of a carousel the shape of the first; Threads shows each as it is."""
    sizes = ((400, 500), (800, 500), (804, 1004))
    media = [stored_media(world.alice.api, make_picture("JPEG", size))["id"] for size in sizes]
    accounts = [world.server.connect(world.alice, name)["id"] for name in ("instagram", "threads")]
    files = {f"media.{number}": each for number, each in enumerate(media)}
    page = send_compose(browser, "check", text="x", **target_fields(*accounts), **files).text
    first, second = page.split('<li class="panel preview">')[1:]
    assert first.count("Instagram crops this to the shape of the first file.") == first.count("<path") == 1
    assert '<svg viewBox="0 0 800 500" aria-hidden="true"><path d="M0 0H800V500H0ZM200 0V500H600V0Z"/>' in first
    assert "crops this" not in second
    assert "<path" not in second


def test_the_same_file_in_the_same_form_is_kept_once(world: RequestCast, browser: ApiClient) -> None:
    first, second = add(browser, **{"new-alt": "A door"}), add(browser, **{"new-alt": "A door"})
    assert files_of(first) == files_of(second)
    assert len(world.server.rows(Media)) == 1


@pytest.mark.parametrize("content", [b"", b"no picture at all"])
def test_a_file_that_is_refused_takes_nothing_with_it(world: RequestCast, browser: ApiClient, content: bytes) -> None:
    answer = add(
        browser, content, text="Still here", when="later", day="2027-07-01", **target_fields(world.alice.bluesky)
    )
    assert answer.status_code == 400
    assert len(problems(answer)) == 1
    for there in ("Still here</textarea>", 'value="2027-07-01"', 'name="when" value="later" checked'):
        assert there in answer.text
    assert world.server.rows(Media) == []
    assert stored_files(world.server) == []


@pytest.mark.slow
def test_files_are_chosen_from_the_library_reordered_and_taken_out(world: RequestCast, browser: ApiClient) -> None:
    first, second = (stored_media(world.alice.api, JPEG + bytes([n]), altText=f"File {n}")["id"] for n in (1, 2))
    text = browser.get("/compose", headers=HTML).text
    assert re.findall(r'name="pick\.(\w+)"', text) == [second, first]
    added = send_compose(browser, "add", **{f"pick.{first}": "yes", f"pick.{second}": "yes"})
    assert files_of(added) == [first, second]
    assert "pick." not in added.text
    fields = {"media.1": first, "media.2": second, f"alt.{second}": "Of its own"}
    moved = send_compose(browser, "", **fields, earlier=second)
    assert files_of(moved) == [second, first]
    assert "Of its own</textarea>" in moved.text
    assert files_of(send_compose(browser, "", **fields, remove=first)) == [second]
    send_compose(browser, text="picked", **target_fields(world.alice.bluesky), **{f"pick.{first}": "yes"})
    assert json.loads(posts(world)[0]["media"]) == [{"kind": "image", "mediaId": first}]


def test_a_file_is_left_out_on_an_account_of_its_own(world: RequestCast, browser: ApiClient) -> None:
    files = [stored_media(world.alice.api, JPEG + bytes([n]))["id"] for n in (1, 2)]
    first, second = world.alice.bluesky, world.bob.bluesky
    both = {"media.1": files[0], "media.2": files[1]}
    shown = send_compose(browser, "count", customize=first, **both, **target_fields(first)).text
    assert shown.count(f'name="{first}.without.') == 2
    assert f'name="{second}.without.' not in shown  # it is not chosen
    left = {f"{first}.without.{files[0]}": "yes", f"{second}.without.{files[0]}": "yes"}
    left |= {f"{second}.without.{files[1]}": "yes"}
    assert (
        f'name="{first}.without.{files[0]}" value="yes" checked'
        in send_compose(browser, "", **both, **left, **target_fields(first)).text
    )
    assert send_compose(browser, text="x", **both, **left, **target_fields(first, second)).status_code == 303
    sent = {row["account"]: [ref["mediaId"] for ref in json.loads(row["media"])] for row in posts(world)}
    assert sent == {first: files[1:], second: []}


# --- Who may be published to -----------------------------------------------------------------------------------------


def test_an_account_that_cannot_publish_is_named_with_its_reason(world: RequestCast, browser: ApiClient) -> None:
    account = world.alice.bluesky
    world.server.service.write(
        lambda tx: Account.update(status="revoked").where(Account.id == account).execute()
    ).result()
    text = browser.get("/compose", headers=HTML).text
    assert f'name="to.{account}"' not in text
    assert "Reconnect this account to publish to it." in text
    assert 'href="/connect/bluesky?profile=' in text
    off = world.server.connect(world.alice, "tiktok")["id"]
    text = browser.get("/compose", headers=HTML).text
    assert f'name="to.{off}"' not in text
    assert "TikTok is not enabled on this server." in text


def test_the_accounts_are_those_of_the_profile_that_one_is_in(world: RequestCast, browser: ApiClient) -> None:
    accounts = [world.alice.bluesky, world.bob.bluesky]  # two profiles of one organization
    text = browser.get("/compose", headers=HTML).text
    assert all(f"to.{account}" in text for account in accounts)
    browser.post("/profile", data={"csrf_token": browser.headers["X-CSRF-Token"], "profile": world.bob.profile})
    text = browser.get("/compose", headers=HTML).text
    assert f"to.{world.alice.bluesky}" not in text
    assert f'name="to.{world.bob.bluesky}" value="yes" checked' in text  # the only one
    assert add(browser).status_code == 200
    assert world.server.rows(Media)[-1]["profile"] == world.bob.profile


def test_a_group_of_accounts_is_kept_chosen_and_deleted(world: RequestCast, browser: ApiClient) -> None:
    first, second = world.alice.bluesky, world.bob.bluesky
    made = save_group(browser, text="Morning", group_name=" Team <b> ", **target_fields(second))
    assert made.status_code == 200
    assert fields_of(made)["text"] == "Morning"  # nothing that is written is lost
    assert 'name="group" value="Team &lt;b&gt;"' in made.text
    chosen = send_compose(browser, do="", text="Morning", group="Team <b>", **target_fields(first))
    assert fields_of(chosen)["text"] == "Morning"
    assert set(target_fields(first, second)) & fields_of(chosen).keys() == set(target_fields(second))
    read = {account["id"]: account.get("groups") for account in world.alice.api.get("/v1/accounts").json()["data"]}
    assert read == {first: None, second: ["Team <b>"]}
    assert world.bob.api.get(f"/v1/accounts/{second}").json()["groups"] == ["Team <b>"]
    ended = save_group(browser, ended_group="Team <b>", **target_fields(second))
    assert 'name="group"' not in ended.text
    assert set(target_fields(first, second)) & fields_of(ended).keys() == set(target_fields(second))


@pytest.mark.parametrize("name, chosen, words", [
    ("", 1, "A group needs a name of 1 to 40 characters."),
    ("x" * 41, 1, "A group needs a name of 1 to 40 characters."),
    ("Nobody", 0, "Choose the accounts of the group first."),
    ("One more", 1, "Up to 20 groups can be saved, of up to 100 accounts."),
])  # fmt: skip
def test_a_group_that_cannot_be_kept_is_told(
    world: RequestCast, browser: ApiClient, name: str, chosen: int, words: str
) -> None:
    accounts = target_fields(*[world.alice.bluesky][:chosen])
    for number in range(account_groups.GROUPS_MAX if name == "One more" else 0):
        assert save_group(browser, group_name=f"Group {number}", **accounts).status_code == 200
    with unchanged(world.server):
        refused = save_group(browser, group_name=name, **accounts)
    assert (refused.status_code, problems(refused)) == (400, [words])


def test_without_an_account_it_says_what_to_do(world: RequestCast) -> None:
    empty = sign_in(world.server, world.server.person("Nobody").organization, name="nobody")
    assert "No accounts are connected yet" in empty.get("/compose", headers=HTML).text


def test_a_member_composes(world: RequestCast) -> None:
    member = sign_in(world.server, world.alice.organization, role="member", name="mona")
    assert 'href="/compose"' in member.get("/posts", headers=HTML).text
    assert send_compose(member, text="hello", **target_fields(world.alice.bluesky)).status_code == 303


# --- A session that ends in the middle -------------------------------------------------------------------------------


def test_what_was_written_comes_back_after_signing_in_again(world: RequestCast) -> None:
    add_user(world.server, world.alice, EMAIL, "owner")
    browser, text = world.server.api(), "“Ünïcode” " * 700
    page = browser.post(
        "/compose", data={"page": "/compose", "do": "send", "text": text, **target_fields(world.alice.bluesky)}
    )
    assert "Your session has ended" in page.text
    sent = sign_in_at(page, browser)
    assert sent.headers["Location"] == "/compose?kept=1"
    back = browser.get("/compose?kept=1", headers=HTML)
    assert f"{text}</textarea>" in back.text
    assert f'name="to.{world.alice.bluesky}" value="yes" checked' in back.text
    assert "so the form was not sent" in back.text
    assert posts(world) == []


@pytest.mark.parametrize("size", [1000, 1_000_000])
def test_an_upload_after_the_session_ended_brings_its_words_back(world: RequestCast, size: int) -> None:
    add_user(world.server, world.alice, EMAIL, "owner")
    browser = world.server.api()
    given = {"page": "/compose", "text": "“Ünïcode”", **target_fields(world.alice.bluesky)}
    given |= {f"field.{n}": "x" for n in range(200)}
    page = browser.post("/compose/media", data=given, files={"file": ("a.jpg", b"x" * size)}, headers=HTML)
    assert "Your session has ended" in page.text
    assert sign_in_at(page, browser).headers["Location"] == "/compose?kept=1"
    back = browser.get("/compose?kept=1", headers=HTML).text
    assert "“Ünïcode”</textarea>" in back
    assert f'name="to.{world.alice.bluesky}" value="yes" checked' in back
    assert stored_files(world.server) == []


def test_the_file_of_the_form_comes_after_all_its_other_fields(world: RequestCast, browser: ApiClient) -> None:
    """Without a session, the fields after a large file are not read."""
    page = browser.get("/compose", headers=HTML).text
    form = page.partition('<form class="form compose"')[2].partition("</form>")[0]
    names = re.findall(r'<(?:input|textarea|select)[^>]* name="([^"]*)"', form)
    assert (names[-1], names.count("file"), f"to.{world.alice.bluesky}" in names) == ("file", 1, True)


@pytest.mark.parametrize(("path", "to"), [("/media", "/media"), ("/import", "/import/check")])
def test_a_form_of_files_alone_leads_back_to_its_page(world: RequestCast, path: str, to: str) -> None:
    add_user(world.server, world.alice, EMAIL, "owner")
    browser = sign_in(world.server, world.alice.organization)
    form = re.search(f'<form[^>]*action="{to}".*?</form>', browser.get(path, headers=HTML).text, re.DOTALL)
    assert form
    given = dict(re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', form[0]))
    stranger, file = world.server.api(), {"file": ("a.csv", b"x" * 1_000_000)}
    sent = stranger.post(to, data=given, files=file, headers=HTML)
    assert (sent.status_code, sent.headers["Location"]) == (303, f"/login?next={path}")
    back = sign_in_at(stranger.get(sent.headers["Location"], headers=HTML), stranger)
    assert back.headers["Location"] == path


@pytest.mark.parametrize("content_type", ["", "text/plain", "multipart/form-data", "multipart/form-data; boundary=x"])
def test_an_odd_upload_without_a_session_is_refused(world: RequestCast, content_type: str) -> None:
    for body in (b"", b"--x", b"--x\r\nContent-Disposition: form-data\r\n\r\n\xff\r\n--x--", b"--x\r\n\r\n\r\n--x\xff"):
        for path in ("/compose/media", "/media", "/import/check"):
            answer = world.server.api().post(path, content=body, headers=HTML | {"Content-Type": content_type})
            assert answer.status_code in (303, 400, 415), (path, body, answer.text)


# --- Hostile forms ---------------------------------------------------------------------------------------------------


def hostile(world: RequestCast) -> list[dict[str, str]]:
    mine, theirs = world.alice.bluesky, world.charlie.bluesky
    foreign = stored_media(world.charlie.api)["id"]
    return [
        {},
        target_fields(mine),
        {"text": "x"},
        {"text": "x", **target_fields(*(f"{n:08x}-0000-7000-8000-000000000000" for n in range(26)))},
        {"text": "x", **target_fields(UNKNOWN_ID)},
        {"text": "x", **target_fields(theirs)},
        {"text": "x", **target_fields(mine, theirs)},
        {"text": "x", **target_fields("", "not-an-id", XSS)},
        {"text": "x", **target_fields(mine), "media.1": foreign},
        {"text": "x", **target_fields(mine), "media.1": UNKNOWN_MEDIA},
        {"text": "x", **target_fields(mine), "media.1": XSS, "media.999": "\0"},
        {"text": "x", **target_fields(mine), **{f"media.{n}": f"med_{n:022}" for n in range(200)}},
        {"text": "a\0b", **target_fields(mine)},
        {"text": "x", **target_fields(mine), f"{mine}.option.langs": "\0,,,", f"{mine}.option.replyToUri": "x"},
        {"text": "x", **target_fields(mine), f"{mine}.option.replyToUri": "x" * 5000, f"{mine}.option.replyToCid": "y"},
        {"text": "x", **target_fields(mine), f"{mine}.comment": "\0"},
        {
            "text": "x",
            **target_fields(mine),
            "when": "later",
            "day": "\uffff",
            "clock": XSS,
            "in_zone": "../../etc/passwd",
        },
        {"text": "x" * 100_001, **target_fields(mine)},
        {"text": "x", "to.": "yes", "pick.": "yes", "alt.": "yes", "media.": "x", ".text": "y"},
        {"text": "x", **target_fields(mine), **{f"piece.{n}": "x" for n in range(1, 100)}},
        {"text": "x", **target_fields(mine), "piece.1": "a\0b", "piece.0": XSS, "piece.01": XSS, "piece-earlier": XSS},
        {"text": "x", **target_fields(mine), "piece.7": "x", "media.1": UNKNOWN_MEDIA, f"in.{UNKNOWN_MEDIA}": "7"},
    ]


@pytest.mark.slow
@pytest.mark.parametrize("do", ["send", "check", "count", "live", ""])
def test_a_hostile_form_is_answered_in_words_and_writes_nothing(
    world: RequestCast, browser: ApiClient, do: str
) -> None:
    given_all, before = hostile(world), world.server.stock()
    for given in given_all:
        answer = send_compose(browser, do, **given)
        assert answer.status_code in ((400, 404) if do in ("send", "check") else (200,)), (given, answer.text)
        assert answer.headers["Content-Type"].startswith("text/html")
        assert "<h1>New post</h1>" in answer.text
        assert XSS not in answer.text
        assert world.server.stock() == before


def test_wrong_options_are_told_beside_their_fields(world: RequestCast, browser: ApiClient) -> None:
    account = world.server.connect(world.alice, "facebook")["id"]
    given = {f"{account}.option.link": "no address", "text": "x", **target_fields(world.alice.bluesky, account)}
    answer = send_compose(browser, **given)
    place = answer.text.partition(f'id="{account}.option.link-wrong"')[2].partition("</div>")[0]
    assert "an absolute URL" in place
    assert 'value="no address"' in answer.text


def test_text_stays_text_wherever_it_comes_from(world: RequestCast, browser: ApiClient) -> None:
    stored_media(world.alice.api, altText=XSS)
    account = world.server.connect(world.alice, "pinterest", defaultBoardId=XSS, defaultBoardName=XSS)["id"]
    world.server.service.write(
        lambda tx: Account.update(display_name=XSS).where(Account.id == account).execute()
    ).result()
    own = {
        f"{account}.{name}": XSS for name in ("text", "comment", *(f"option.{each}" for each in ("title", "boardId")))
    }
    added = add(
        browser,
        **{"new-alt": XSS, "text": XSS, "day": XSS, "clock": XSS, "in_zone": XSS},
        **own,
        **target_fields(account),
    )
    for answer in (added, send_compose(browser, "check", text=XSS, **own, **target_fields(account))):
        assert answer.text.count("<script") == 3  # our own
        assert XSS not in answer.text
        assert "&lt;script&gt;" in answer.text


def test_more_fields_than_the_form_has_are_refused(world: RequestCast, browser: ApiClient) -> None:
    answer = send_compose(browser, **{f"f{number}": "" for number in range(2501)})
    assert answer.status_code == 400
    assert browser.post("/compose", content=b"x" * 600_000, headers=HTML).status_code == 413


def test_forged_forms_do_nothing(world: RequestCast, browser: ApiClient) -> None:
    before = world.server.stock()
    given = {"csrf_token": "wrong", "key": FORM_KEY, "do": "send", "text": "x", **target_fields(world.alice.bluesky)}
    assert browser.post("/compose", data=given, headers=HTML).status_code == 403
    file = {"file": ("a.jpg", JPEG, "image/png")}
    assert browser.post("/compose/media", data=given, files=file, headers=HTML).status_code == 403
    cross = HTML | {"Sec-Fetch-Site": "cross-site"}
    good = given | {"csrf_token": browser.headers["X-CSRF-Token"]}
    assert browser.post("/compose/media", data=good, files=file, headers=cross).status_code == 403
    assert world.server.stock() == before


def test_nobody_else_sees_or_uses_what_is_ours(world: RequestCast, browser: ApiClient) -> None:
    other = sign_in(world.server, world.charlie.organization, name="charlie")
    stored_media(world.alice.api, altText="Our secret plans")
    text = other.get("/compose", headers=HTML).text
    assert world.alice.bluesky not in text
    assert "Our secret plans" not in text
