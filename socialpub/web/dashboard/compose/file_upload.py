"""Upload of a file with the form of the composer."""

from __future__ import annotations

import hashlib
import json

from socialpub.base.errors import ApiError, rule_error
from socialpub.domain.access import idempotency
from socialpub.domain.identity import dashboard_session
from socialpub.domain.media import library
from socialpub.domain.schemas import validation
from socialpub.domain.schemas.media import MediaFields
from socialpub.web.dashboard.compose.form_data import FIELDS_MAX, Form
from socialpub.web.dashboard.compose.form_findings import NO_FINDINGS, FormFindings
from socialpub.web.dashboard.compose.form_page import render
from socialpub.web.dashboard.parts import compose_form
from socialpub.web.dashboard.parts.compose_form import FieldMessage
from socialpub.web.dashboard.parts.upload_forms import receive_upload
from socialpub.web.http import forms
from socialpub.web.http.handler import HandlerResponse, RequestContext
from socialpub.web.http.multipart import PageUploadForm


async def receive(call: RequestContext) -> PageUploadForm:
    """Read the form with its file."""
    return await receive_upload(call, PageUploadForm, FIELDS_MAX)


async def upload(call: RequestContext) -> HandlerResponse:
    """POST /compose/media: store a file and show the form with it."""
    sent: PageUploadForm = call.received
    given = dict(sent.fields)
    if sent.error is not None:
        raise sent.error
    try:
        forms.check_csrf(call, given, call.scope.csrf)
        findings, added = await _save_file(call, sent, given)
    finally:
        if sent.arriving is not None:
            sent.arriving.close()
    return await render(call, given | added, findings)


async def _save_file(call: RequestContext, sent: PageUploadForm, given: Form) -> tuple[FormFindings, Form]:
    """Store the file and return the form with it. Repeating the request stores it once."""
    alt = compose_form.read_field(given, "new-alt")
    try:
        if sent.refused is not None or sent.arriving is None:
            raise sent.refused or rule_error("media.missing_file")
        fields = await _fields(call, alt)
        fingerprint = json.dumps([given.get("key", ""), sent.arriving.sha256, alt]).encode()
        name = hashlib.sha256(fingerprint).hexdigest()
        call.key = idempotency.parse_key(call.scope, "POST", call.request.path, name, name)
        body = json.loads((await library.upload(call.actor, sent.arriving, fields)).body)
    except ApiError as error:
        return _file_findings(error), {}
    ids = [*compose_form.list_media(given), body["id"]]
    return NO_FINDINGS, {"new-alt": ""} | {f"media.{number}": each for number, each in enumerate(ids, 1)}


async def _fields(call: RequestContext, alt: str) -> MediaFields:
    session = await call.service.read(lambda: dashboard_session.load(call.scope))
    profile = session.profile["id"] if session and session.profile else None
    given = ({"profileId": profile} if profile else {}) | ({"altText": alt} if alt else {})
    return validation.parse_object(MediaFields, given)


def _file_findings(error: ApiError) -> FormFindings:
    if error.code == "unauthenticated":
        raise error
    empty = error.rule in ("media.missing_file", "media.empty_body")
    said = FieldMessage("Choose a file first.") if empty else FieldMessage(error.message, error.remediation or "")
    return FormFindings({"file": [said]}, status=error.status)
