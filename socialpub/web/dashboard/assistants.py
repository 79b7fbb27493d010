"""The consent page: a user allows an assistant to get an API key, or refuses (OAuth 2.1).

The browser goes to the assistant only after a click, so that the address cannot be used as an open redirect.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from socialpub.base import key_scopes
from socialpub.base.errors import ApiError
from socialpub.domain.access import actions
from socialpub.domain.identity import oauth_grants
from socialpub.domain.identity.oauth_grants import Consent, OAuthError
from socialpub.domain.schemas import validation
from socialpub.domain.schemas.api_keys import KeyRequest
from socialpub.domain.schemas.oauth import AuthorizationRequest
from socialpub.web.dashboard.parts import key_form
from socialpub.web.dashboard.parts.layout import keep_form, redirect, require_form_error, require_proof, show
from socialpub.web.http import forms, handler
from socialpub.web.http.handler import HandlerResponse, RequestContext
from socialpub.web.http.middleware import SECURITY_HEADERS

SCOPE_FIELD = "scope."  # and its name: a ticked scope
REFUSAL = " with a refusal"  # of the verb in the audit log
_INCOMPLETE = "This request is incomplete or too long. Go back to the program, and connect it again from there."


async def ask(call: RequestContext) -> HandlerResponse:
    """GET /oauth/authorize."""
    given = handler.parse_query(call.request.query_string, AuthorizationRequest)
    return await _respond(call, given)


async def decide(call: RequestContext) -> HandlerResponse:
    """POST /oauth/authorize: the request again, `decision`, and the limits of the key."""
    form = forms.parse(call)
    return await _respond(call, form, form)


async def _respond(
    call: RequestContext, given: Mapping[str, Any], form: dict[str, str] | None = None
) -> HandlerResponse:
    """Check the request, then show it, or carry out the decision about it."""
    try:
        request = validation.parse_object(AuthorizationRequest, given)
        name = await call.service.read(lambda: oauth_grants.check_client(call.service, request))
    except ApiError as error:
        return await _refusal_page(call, error.message if isinstance(error, OAuthError) else _INCOMPLETE)
    try:
        consent = oauth_grants.check_request(call.service, request, name)
    except OAuthError as error:
        back = oauth_grants.build_redirect(call.service, request, error=error.error, error_description=error.message)
        return await _refusal_page(call, error.message, name, back)
    return await (_consent_page(call, request, consent) if form is None else _decide(call, request, consent, form))


async def _refusal_page(call: RequestContext, problem: str, name: str = "", back: str = "") -> HandlerResponse:
    call.request.ctx.error = OAuthError("invalid_request", problem)  # for the access log
    values = {"problem": problem, "name": name, "back": back, "filled": {}}
    return await show(call, "oauth/refused.html", lambda _: values, status=400)


async def _consent_page(call: RequestContext, request: AuthorizationRequest, consent: Consent) -> HandlerResponse:
    page = await show(
        call,
        "oauth/consent.html",
        lambda _: {**key_form.read_accounts(call.scope), "filled": {}},
        consent=consent,
        request=request.model_dump(exclude_none=True),
        scopes=key_scopes.KEY_SCOPES.values(),
        lifetimes=key_form.list_lifetimes(),
    )
    return page._replace(headers={"Content-Security-Policy": _allow_form_to(consent.redirect_uri)})


def _allow_form_to(redirect_uri: str) -> str:
    """Return a policy by which the form's answer may send the browser to the client."""
    parts = urlsplit(redirect_uri)
    origin = f"{parts.scheme}:" if "[" in parts.netloc else f"{parts.scheme}://{parts.netloc}"  # no IPv6 in a policy
    return SECURITY_HEADERS["Content-Security-Policy"].replace("form-action 'self'", f"form-action 'self' {origin}")


async def _decide(
    call: RequestContext, request: AuthorizationRequest, consent: Consent, form: dict[str, str]
) -> HandlerResponse:
    if form.get("decision") == "refuse":
        audit = call.audit_context
        who = call.actor._replace(audit=audit._replace(verb=audit.verb + REFUSAL))
        await actions.perform(who, oauth_grants.refuse, consent)
        return redirect(oauth_grants.build_redirect(call.service, consent, error="access_denied"))
    try:
        key = _parse_key(call, consent, form)
        await require_proof(call, form)
        made = await actions.perform(call.actor, oauth_grants.approve, consent, key)
    except ApiError as error:
        return await _consent_page(keep_form(call, require_form_error(error), form), request, consent)
    return redirect(oauth_grants.build_redirect(call.service, consent, code=str(made["code"])))


def _parse_key(call: RequestContext, consent: Consent, form: dict[str, str]) -> KeyRequest:
    """Return the key that the form describes. Raises ApiError without scopes or expiry."""
    scopes = [name for name in key_scopes.ALL_SCOPES if form.get(SCOPE_FIELD + name)]
    given = key_form.parse_limits(call, form) | {"name": consent.name, "scopes": scopes}
    if form.get("decision") != "approve" or not scopes or given["expiresAt"] is None:
        raise ApiError("validation_failed", "Tick what the program may do, choose when that ends, and choose a button.")
    return validation.parse_object(KeyRequest, {name: value for name, value in given.items() if value})
