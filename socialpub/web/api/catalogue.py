"""/v1/platforms, /v1/rules, /v1/errors: the tables that the code checks with."""

from __future__ import annotations

from socialpub import platforms
from socialpub.base.error_codes import ERRORS
from socialpub.base.errors import doc_url, rule_url
from socialpub.base.service_rules import SERVICE_RULES, ServiceRule
from socialpub.domain.context.app_context import AppContext
from socialpub.domain.schemas.catalogue import CodeInfo, CodeList, PlatformInfo, PlatformList, RuleInfo, RuleList
from socialpub.platforms.contract import ConnectorAccount, Draft, Platform, Rule
from socialpub.web.http.handler import HandlerResponse, RequestContext
from socialpub.web.http.operation import Operation, SuccessResponse
from socialpub.web.openapi.examples import BASE, PLATFORM

EXAMPLE_PLATFORM: PlatformInfo = {
    "platform": PLATFORM,
    "label": platforms.PLATFORMS[PLATFORM].label,
    "state": "stable",
    "apiVersion": "",
    "sunsetAt": None,
    "text": {"limit": 300, "unit": "graphemes"},
    "media": {
        "images": 4,
        "videos": 1,
        "documents": 0,
        "mixed": False,
        "types": ["image/jpeg", "image/png", "video/mp4"],
    },
    "firstComment": True,
}
LIST_PLATFORMS = Operation(
    "Catalogue",
    "listPlatforms",
    "Platforms and their limits",
    answers={200: SuccessResponse(PlatformList, "The platforms.", {"data": [EXAMPLE_PLATFORM]})},
)


async def list_platforms(call: RequestContext) -> HandlerResponse:
    """GET /v1/platforms."""
    return HandlerResponse(
        PlatformList(data=[platform_body(call.service, row) for row in platforms.PLATFORMS.values()])
    )


def platform_body(service: AppContext, platform: Platform) -> PlatformInfo:
    count, site = platform.count(Draft(""), ConnectorAccount("")), service.sites[platform.name]
    return {
        "platform": platform.name,
        "label": platform.label,
        "state": platform.state,
        "apiVersion": platform.pinned(site),
        "sunsetAt": platform.find_sunset(site),
        "text": {"limit": count.limit, "unit": count.unit},
        "media": {
            "images": platform.media["images"],
            "videos": platform.media["videos"],
            "documents": platform.media.get("documents", 0),
            "mixed": platform.media["mixed"],
            "types": list(platform.media["types"]),
        },
        "firstComment": platform.first_comment,
    }


EXAMPLE_RULE: RuleInfo = {
    "rule": "targets.max",
    "platform": None,
    "stage": "request",
    "severity": "error",
    "limit": None,
    "unit": None,
    "message": "`targets` has more than 25 entries.",
    "remediation": "Split the batch: at most 25 targets each.",
    "source": "socialpub",
    "ruleUrl": f"{BASE}/docs/rules/targets.max",
}
LIST_RULES = Operation(
    "Catalogue",
    "listRules",
    "Every rule",
    answers={200: SuccessResponse(RuleList, "The rules.", {"data": [EXAMPLE_RULE]})},
)


async def list_rules(call: RequestContext) -> HandlerResponse:
    """GET /v1/rules."""
    return HandlerResponse(RuleList(data=rule_bodies(call.service.base_url)))


def rule_bodies(base_url: str) -> list[RuleInfo]:
    """Return every rule of the service and the platforms.

    A rule of both is listed as the platform's.
    """
    own = [row for row in SERVICE_RULES.values() if row.rule not in platforms.CATALOGUE]
    service = [_service_rule(row, base_url) for row in own]
    return service + [_platform_rule(rule, base_url) for rule in platforms.CATALOGUE.values()]


def _service_rule(row: ServiceRule, base_url: str) -> RuleInfo:
    return {
        "rule": row.rule,
        "platform": None,
        "stage": "retired" if row.retired else row.stage,
        "severity": row.severity,
        "limit": None,
        "unit": None,
        "message": row.message,
        "remediation": row.remediation,
        "source": "socialpub",
        "ruleUrl": rule_url(base_url, row.rule),
    }


def _platform_rule(rule: Rule, base_url: str) -> RuleInfo:
    return {
        "rule": rule.id,
        "platform": rule.platform,
        "stage": rule.stage,
        "severity": rule.severity,
        "limit": list(rule.limit) if isinstance(rule.limit, tuple) else rule.limit,
        "unit": rule.unit,
        "message": rule.message,
        "remediation": rule.remediation,
        "source": rule.source,
        "ruleUrl": rule_url(base_url, rule.id),
    }


EXAMPLE_CODE: CodeInfo = {
    "code": "rate_limited",
    "status": 429,
    "message": "Too many requests in the last minute.",
    "remediation": "Wait as long as `Retry-After` says.",
    "docUrl": f"{BASE}/docs/errors/rate_limited",
}
LIST_ERRORS = Operation(
    "Catalogue",
    "listErrors",
    "Every error code",
    answers={200: SuccessResponse(CodeList, "The codes.", {"data": [EXAMPLE_CODE]})},
)


async def list_errors(call: RequestContext) -> HandlerResponse:
    """GET /v1/errors."""
    return HandlerResponse(CodeList(data=error_bodies(call.service.base_url)))


def error_bodies(base_url: str) -> list[CodeInfo]:
    """Return every error code."""
    return [
        {
            "code": row.code,
            "status": row.status,
            "message": row.message,
            "remediation": row.remediation,
            "docUrl": doc_url(base_url, row.code),
        }
        for row in ERRORS.values()
    ]
