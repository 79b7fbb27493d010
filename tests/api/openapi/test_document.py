"""OpenAPI document: valid, complete, with examples, closed request bodies and types."""

from __future__ import annotations

import json
import typing
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from openapi_spec_validator import OpenAPIV31SpecValidator

from socialpub import platforms
from socialpub.base.error_codes import ERRORS
from socialpub.base.key_scopes import KEY_SCOPES
from socialpub.base.service_rules import SERVICE_RULES
from socialpub.domain.schemas.events import EVENTS
from socialpub.domain.schemas.posts import PostStatus
from socialpub.web.http.handler import Route
from socialpub.web.openapi import document as openapi
from socialpub.web.openapi import events
from socialpub.web.openapi.texts import TAG_DESCRIPTIONS
from socialpub.web.routes import ROUTES
from tests.support.app_server import UNKNOWN_ID, UNKNOWN_MEDIA, AppServer
from tests.support.openapi_document import (
    API_ROUTES,
    DOCUMENT,
    Json,
    close_schema,
    delivery_of,
    documented_errors,
    response_of,
    schema_name,
    walk_schema,
)


def operation(name: str) -> Json:
    method, path = name.split(" ")
    return DOCUMENT["paths"][path][method.lower()]  # type: ignore[no-any-return]


# --- Valid and complete --------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_it_is_valid_openapi_3_1() -> None:
    assert DOCUMENT["openapi"] == "3.1.0"
    assert [error.message for error in OpenAPIV31SpecValidator(DOCUMENT).iter_errors()] == []


def test_every_route_of_the_api_is_in_it_and_nothing_else() -> None:
    documented = {f"{method.upper()} {path}" for path, methods in DOCUMENT["paths"].items() for method in methods}
    assert documented == {schema_name(route) for route in API_ROUTES}
    assert {schema_name(route) for route in ROUTES if route.is_api} <= documented


@pytest.mark.parametrize("route", API_ROUTES, ids=schema_name)
def test_every_operation_has_words_and_an_example_of_each_answer(route: Route) -> None:
    said = response_of(route)
    assert said.summary
    assert said.tag in TAG_DESCRIPTIONS
    assert said.answers
    assert all(success.says and success.example for success in said.answers.values())
    assert bool(said.requests) == (route.body is not None)


def test_operation_ids_are_unique() -> None:
    names = [response_of(route).name for route in API_ROUTES]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("route", API_ROUTES, ids=schema_name)
def test_the_errors_of_a_route_are_rules_of_the_service_or_codes(route: Route) -> None:
    names = response_of(route).errors
    assert [name for name in names if name not in SERVICE_RULES and name not in ERRORS] == []
    assert [name for name in names if name in SERVICE_RULES and SERVICE_RULES[name].retired] == []


def test_post_and_limit_rules_are_documented_where_they_arise() -> None:
    told = {name for route in ROUTES for names in openapi.list_refusals(route).values() for name in names}
    from_the_socket = {
        "http.method",
        "http.timeout",
        "http.host",
        "http.busy",
        "http.deadline",
        "service.stopping",
    }
    later = (
        "metrics.",
        "account.",
        "connect.",
        "pinterest.",
        "webhook.",
        "notification.",
        "profile.delete",
        "profile.slug",
    )
    uploads = {
        "media.type_unsupported", "media.type_mismatch", "media.size_max", "media.pixels_max", "media.unreadable",
        "media.content_type", "media.parse_failed", "media.missing_file", "media.empty_body", "media.single_file",
        "media.in_use", "media.quota",
    }  # fmt: skip
    expected = {
        rule.rule
        for rule in SERVICE_RULES.values()
        if rule.stage == "request" and not rule.retired and not rule.rule.startswith(later)
    }
    assert expected - told - from_the_socket - uploads - {"csrf"} == set()


def test_enumerations_are_named_and_used_by_reference() -> None:
    enums = DOCUMENT["components"]["schemas"]
    assert enums["Platform"] == {"type": "string", "enum": list(platforms.PLATFORMS)}
    assert enums["PostStatus"] == {"type": "string", "enum": list(typing.get_args(PostStatus))}
    assert enums["ErrorCode"]["enum"] == list(ERRORS)
    inline = [part for part in walk_schema(DOCUMENT["paths"]) if part.get("enum") == list(platforms.PLATFORMS)]
    assert inline == []


# --- Requests ----------------------------------------------------------------------------------------------------


def test_request_bodies_are_closed_and_offer_no_null() -> None:
    found = DOCUMENT["components"]["schemas"]
    requests = ["PublishRequest", "Target", "MediaItem", "FirstComment", "PostEditRequest", "BlueskyOptions"]
    for name in requests:
        assert found[name]["additionalProperties"] is False, name
        assert '"null"' not in json.dumps(found[name]), name
        assert [key for key, value in found[name]["properties"].items() if "default" in value] == [], name


def test_options_must_name_their_platform() -> None:
    for name, platform in platforms.PLATFORMS.items():
        schema = DOCUMENT["components"]["schemas"][platform.options.__name__]
        assert schema["properties"]["platform"].items() >= {"const": name, "type": "string"}.items()
        assert "platform" in schema["required"]


def test_only_what_is_always_needed_is_required() -> None:
    publish, check = (DOCUMENT["components"]["schemas"][name] for name in ("PublishRequest", "ValidateRequest"))
    assert (publish["if"], publish["then"]) == ({"not": {"required": ["targets"]}}, {"required": ["plan"]})
    assert "required" not in publish
    assert check["required"] == ["targets"]
    for name in ("DraftContent", "DraftRequest"):
        assert "plan" not in DOCUMENT["components"]["schemas"][name]["properties"]
    assert operation("POST /v1/posts")["requestBody"]["required"] is True
    assert operation("POST /v1/posts/{id}/retry")["requestBody"]["required"] is False
    assert "requestBody" not in operation("DELETE /v1/posts/{id}")


def test_the_schema_says_what_a_target_and_a_media_item_must_name() -> None:
    publish = operation("POST /v1/posts")["requestBody"]["content"]["application/json"]["schema"]
    target, item = {"platform": "bluesky"}, {"kind": "image", "url": "https://x.test/a.png"}
    assert documented_errors(publish, {"targets": [target], "media": [item, "med_" + "0" * 22]}) == []
    assert (
        documented_errors(publish, {"targets": [{"accountId": UNKNOWN_ID}, target | {"accountId": UNKNOWN_ID}]}) == []
    )
    for source in ({"mediaId": UNKNOWN_MEDIA}, {"bytesBase64": "eA=="}):
        assert documented_errors(publish, {"targets": [target], "media": [{"kind": "video"} | source]}) == []
    for targets in ([], [target] * 26, [{"text": "x"}]):
        assert documented_errors(publish, {"targets": targets, "text": "x"}) != []
    two = [item | {"bytesBase64": "eA=="}, item | {"mediaId": UNKNOWN_MEDIA}]
    for wrong in ({"kind": "image"}, *two, two[0] | two[1], "med_1"):
        assert documented_errors(publish, {"targets": [target], "media": [wrong]}) != []


def test_every_part_of_a_request_is_a_type_of_its_own_for_code_generators() -> None:
    """Alternatives beside properties make generators split a type or drop it; inline ones have no name of their own."""
    found = DOCUMENT["components"]["schemas"]
    assert found["PublishRequest"]["properties"]["targets"]["items"] == {"$ref": "#/components/schemas/Target"}
    for name in ("PublishRequest", "Target"):
        media = found[name]["properties"]["media"]["items"]
        assert media == {"$ref": "#/components/schemas/MediaEntry"}
    assert found["Target"]["properties"]["options"]["$ref"] == "#/components/schemas/Options"
    assert {"$ref": "#/components/schemas/MediaItem"} in found["MediaEntry"]["oneOf"]
    assert (
        len(found["Options"]["oneOf"]) == len(found["Options"]["discriminator"]["mapping"]) == len(platforms.PLATFORMS)
    )
    for name in reachable("PublishRequest", "ValidateRequest", "CompleteRequest", "KeyRequest"):
        alternatives = {"anyOf", "oneOf", "allOf"} & set(found[name])
        assert not (alternatives and "properties" in found[name]), name
        for field, value in found[name].get("properties", {}).items():
            inline = [part for part in walk_schema(value) if {"oneOf", "anyOf", "properties"} & set(part)]
            assert inline == [], (name, field)


def reachable(*names: str) -> set[str]:
    """The components that these are made of, themselves included."""
    found: set[str] = set()
    left = list(names)
    while left:
        name = left.pop()
        if name not in found:
            found.add(name)
            parts = walk_schema(DOCUMENT["components"]["schemas"][name])
            left += [part["$ref"].rpartition("/")[2] for part in parts if "$ref" in part]
    return found


def test_lists_in_the_query_may_be_repeated() -> None:
    parameters = {entry["name"]: entry for entry in operation("GET /v1/posts")["parameters"] if "name" in entry}
    assert parameters["platform"]["explode"] is True
    assert parameters["platform"]["style"] == "form"
    assert parameters["platform"]["schema"] == {
        "type": "array",
        "items": {"$ref": "#/components/schemas/Platform"},
        "maxItems": 50,
    }
    assert parameters["limit"]["schema"] == {"type": "integer", "minimum": 1, "maximum": 200, "default": 50}
    assert parameters["after"]["schema"] == {"type": "string", "format": "date-time"}
    assert set(parameters) == {
        "platform", "status", "errorCode", "limit", "q", "after", "before", "cursor", "profileId", "batchId",
        "accountId", "scheduledAfter", "scheduledBefore", "order", "externalId", "externalIdPrefix",
    }  # fmt: skip


@pytest.mark.parametrize("route", [route for route in API_ROUTES if route.is_api], ids=schema_name)
def test_writes_take_an_idempotency_key_and_reads_do_not(route: Route) -> None:
    refs = [entry.get("$ref", "") for entry in operation(schema_name(route)).get("parameters", [])]
    assert ("#/components/parameters/idempotencyKey" in refs) == (route.method != "GET")


def test_who_may_call_is_the_guard_of_the_route() -> None:
    assert operation("POST /v1/posts")["security"] == [{"apiKey": ["posts:write"]}]
    assert operation("GET /v1/posts")["security"] == [{"apiKey": ["posts:read"]}, {"session": []}]
    assert operation("GET /v1/rules")["security"] == []
    schemes = DOCUMENT["components"]["securitySchemes"]
    assert (schemes["apiKey"]["type"], schemes["apiKey"]["scheme"]) == ("http", "bearer")
    assert (schemes["session"]["in"], schemes["session"]["name"]) == ("cookie", "__Host-socialpub_session")


@pytest.mark.parametrize("route", [route for route in ROUTES if route.is_api], ids=schema_name)
def test_every_route_names_the_scope_that_a_key_needs(route: Route) -> None:
    assert route.scope in ("any", *KEY_SCOPES)
    assert route.scope == "any" or route.guard in ("key", "read")
    writes = route.guard == "key" and route.scope in ("posts:read", "accounts:read")
    assert not writes, "a reading scope does not write"
    needed = [] if route.scope == "any" else [route.scope]
    named = [way["apiKey"] for way in operation(schema_name(route))["security"] if "apiKey" in way]
    assert named == ([needed] if route.guard in ("key", "read") else [])


# --- Answers -----------------------------------------------------------------------------------------------------


def test_fields_that_are_always_present_are_required_and_others_not() -> None:
    found = DOCUMENT["components"]["schemas"]
    assert set(found["Post"]["properties"]) - set(found["Post"]["required"]) == {"error"}
    assert set(found["Batch"]["required"]) == {"id", "status", "createdAt", "results"}
    assert set(found["Result"]["required"]) == {"accountId", "platform", "postId", "status"}
    assert set(found["EnvelopeError"]["required"]) == {"code", "message", "docUrl", "requestId"}
    optional = {"attention", "groups", "pinterest", "instagram"}
    assert set(found["Account"]["properties"]) - set(found["Account"]["required"]) == optional


def test_a_nullable_field_says_so_and_no_other_does() -> None:
    post = DOCUMENT["components"]["schemas"]["Post"]["properties"]
    nullable = {name for name, schema in post.items() if '"null"' in json.dumps(schema)}
    names = "externalId scheduledAt nextAttemptAt publishedAt platformUri platformCid url threadOf threadPosition"
    assert nullable == set(names.split())


@pytest.mark.parametrize("route", API_ROUTES, ids=schema_name)
def test_every_answer_has_its_headers_and_every_failure_the_envelope(route: Route) -> None:
    answers = operation(schema_name(route))["responses"]
    assert {int(status) for status in answers if status != "default"} == {
        *response_of(route).answers,
        *openapi.list_refusals(route),
        *([304] if route.has_etag else []),
    }
    if route.has_etag:
        assert "content" not in answers["304"]
        assert "ETag" in answers["200"]["headers"]
        assert "ETag" in answers["304"]["headers"]
    for status, answer in answers.items():
        answer = DOCUMENT["components"]["responses"]["Failure"] if status == "default" else answer
        assert "X-Request-Id" in answer["headers"]
        if status != "default" and route.is_api:
            assert "X-RateLimit-Limit" in answer["headers"]
            assert "RateLimit-Remaining" in answer["headers"]
        if status == "default" or int(status) >= 400:
            schema = answer["content"]["application/json"]["schema"]
            assert schema == {"$ref": "#/components/schemas/ErrorEnvelope"}
        if status in ("429", "503"):
            assert "Retry-After" in answer["headers"]


def test_what_is_changed_by_its_etag_is_read_with_it() -> None:
    paths = {openapi.public_path(route.path) for route in API_ROUTES if route.if_match}
    read = {path: DOCUMENT["paths"][path]["get"] for path in paths if "get" in DOCUMENT["paths"][path]}
    assert set(read) == {"/v1/posts/{id}", "/v1/batches/{id}", "/v1/drafts/{id}"}
    assert [path for path, told in read.items() if "ETag" not in told["responses"]["200"]["headers"]] == []
    writes = [route for route in API_ROUTES if route.method != "GET"]
    of_tagged = [route for route in writes if openapi.public_path(route.path).startswith(tuple(read))]
    assert [schema_name(route) for route in of_tagged if not route.if_match] == []


def test_an_unknown_parameter_is_a_documented_refusal_everywhere() -> None:
    told = {schema_name(route): operation(schema_name(route))["responses"] for route in API_ROUTES if route.is_api}
    assert [name for name, answers in told.items() if "400" not in answers] == []


def test_the_statuses_of_publishing() -> None:
    answers = operation("POST /v1/posts")["responses"]
    failures = {"400", "401", "402", "403", "404", "409", "413", "415", "429", "503", "default"}
    assert set(answers) == {"200", "202"} | failures
    assert "rule `target.account.ambiguous`" in answers["400"]["description"]
    assert "rule `billing.posts.monthly_cap`" in answers["402"]["description"]
    assert "Idempotency-Replayed" in answers["202"]["headers"]


# --- Examples ----------------------------------------------------------------------------------------------------


def examples() -> Iterator[tuple[str, Json, Any]]:
    for path, methods in DOCUMENT["paths"].items():
        for method, entry in methods.items():
            content = entry.get("requestBody", {}).get("content", {}).get("application/json", {})
            for title, example in content.get("examples", {}).items():
                yield f"{method} {path} {title}", content["schema"], example["value"]
            for status, answer in entry["responses"].items():
                shown = answer.get("content", {}).get("application/json", {})
                if "example" in shown:
                    yield f"{method} {path} {status}", shown["schema"], shown["example"]
    for event in DOCUMENT["webhooks"]:
        content = delivery_of(event)["requestBody"]["content"]["application/json"]
        yield event, content["schema"], content["example"]


EXAMPLES = list(examples())


@pytest.mark.parametrize("schema, value", [case[1:] for case in EXAMPLES], ids=[case[0] for case in EXAMPLES])
def test_every_example_fits_its_schema(schema: Json, value: Any) -> None:
    assert documented_errors(schema, value, CLOSED) == []


CLOSED = close_schema(DOCUMENT)


def test_the_publish_examples_are_accepted_by_the_models() -> None:
    tried = [
        (said.body, value) for said in map(response_of, API_ROUTES) if said.body for value in said.requests.values()
    ]
    assert tried
    for model, value in tried:
        model.model_validate_json(json.dumps(value))


def test_every_link_leads_to_an_operation_with_its_id_in_the_example() -> None:
    ids = {entry["operationId"] for methods in DOCUMENT["paths"].values() for entry in methods.values()}
    found = [
        (name, link, answer)
        for methods in DOCUMENT["paths"].values()
        for entry in methods.values()
        for answer in entry["responses"].values()
        for name, link in answer.get("links", {}).items()
    ]
    assert found
    for name, link, answer in found:
        value: Any = answer["content"]["application/json"]["example"]
        for part in link["parameters"]["id"].removeprefix("$response.body#/").split("/"):
            value = value[int(part)] if part.isdigit() else value[part]
        assert name == link["operationId"]
        assert name in ids
        assert isinstance(value, str)


# --- Events ------------------------------------------------------------------------------------------------------


def test_every_event_is_a_webhook_with_its_data_model_and_an_example() -> None:
    assert set(DOCUMENT["webhooks"]) == set(EVENTS) == set(events.EXAMPLES)


def test_a_delivery_names_its_headers() -> None:
    assert header_names(DOCUMENT) == [
        "X-Service-Signature",
        "X-Service-Signature-Previous",
        "X-Service-Event",
        "X-Service-Event-Id",
        "X-Service-Delivery-Id",
        "X-Service-Request-Id",
        "webhook-id",
        "webhook-timestamp",
        "webhook-signature",
    ]


def header_names(document: Json) -> list[str]:
    return [parameter["name"] for parameter in delivery_of("post.published", document)["parameters"]]


def test_the_headers_of_a_delivery_follow_the_setting(make_server: Callable[..., AppServer]) -> None:
    server = make_server(webhooks={"header_prefix": "X-Acme"})
    names = header_names(server.api().get("/openapi.json").json())
    page = server.api().get("/docs/events").text
    assert [name for name in names if not name.startswith("webhook-")] == [
        "X-Acme-Signature",
        "X-Acme-Signature-Previous",
        "X-Acme-Event",
        "X-Acme-Event-Id",
        "X-Acme-Delivery-Id",
        "X-Acme-Request-Id",
    ]
    assert [name for name in names if f"<code>{name}</code>" not in page] == []
    assert "X-Service" not in page


def test_an_event_of_one_type_is_not_another() -> None:
    schema = delivery_of("post.queued")["requestBody"]["content"]["application/json"]["schema"]
    assert documented_errors(schema, events.find_example("post.canceled")) != []
