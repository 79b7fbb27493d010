"""Suggestions for unknown fields: by the meaning of the name, then by its spelling.

The words are the field names of other tools (Ayrshare, Blotato, Buffer, Hootsuite, Mixpost, Post Bridge, Postiz,
Publer, Typefully, Upload-Post, Zernio) and those that language models make up. Following a suggestion must never
publish earlier than intended: `publishNow` is suggested only for its own name in another spelling, and no word that may
mean a time, a draft or a dry run is reported as one to remove.
"""

from __future__ import annotations

import difflib
import re
import types
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel

from socialpub import platforms
from socialpub.domain.schemas.common import EmptyRequest
from socialpub.domain.schemas.notifications import TARGET_MODELS

NEVER_SUGGESTED = "publishNow"  # suggested for no other word: following it would publish too early


@dataclass(frozen=True)
class FieldSynonyms:
    """Words with one meaning: the first of `fields` known at the place, or else `otherwise`.

    `pattern` matches names in no list. `anywhere`: `otherwise` also applies to requests that publish nothing.
    """

    words: frozenset[str]
    fields: tuple[str, ...] = ()
    otherwise: str = ""
    pattern: re.Pattern[str] | None = None
    anywhere: bool = False


def _build_synonyms(
    words: str, fields: str = "", otherwise: str = "", pattern: str = "", anywhere: bool = False
) -> FieldSynonyms:
    found = re.compile(pattern) if pattern else None
    return FieldSynonyms(frozenset(words.split()), tuple(fields.split()), otherwise, found, anywhere)


VALIDATE_ADVICE = "to check without publishing, send the same body to POST /v1/posts/validate, which stores nothing"
SCHEDULE_ADVICE = "to publish later, name the time in `scheduledAt`, at the top of the body"
TIME_ADVICE = f"{SCHEDULE_ADVICE}; {VALIDATE_ADVICE}"

# Of the meanings with a matching word, the first with a field known at the place wins. Words are lowercase, without
# separators.
SYNONYMS = (
    _build_synonyms("type mediatype filetype contenttype mimetype mime format", "kind"),
    _build_synonyms("alt alternativetext accessibilitytext title description caption label", "altText"),
    _build_synonyms("since from start startdate fromdate createdafter", "after"),
    _build_synonyms("until to end enddate todate createdbefore", "before"),
    # When, or whether at all.
    _build_synonyms(
        "now publishnow postnow sendnow sharenow schedulenow immediate immediately instant publishimmediately live",
        otherwise="a batch without `scheduledAt` is published at once, and needs no field for it; "
        f"{SCHEDULE_ADVICE}; {VALIDATE_ADVICE}",
        pattern=r"(?i)now$|immediate",
    ),
    _build_synonyms(
        "draft drafts isdraft asdraft savedraft saveasdraft savetodraft drafttitle draftid dryrun dry isdryrun test"
        " testmode istest preview ispreview simulate simulation sandbox validate validateonly check checkonly"
        " verifyonly nopublish donotpublish dontpublish skippublish unpublished hold",
        otherwise=f"{VALIDATE_ADVICE}; to keep it as a draft, send it to POST /v1/drafts; {SCHEDULE_ADVICE}",
        pattern=r"(?i)draft|dry.?run|preview",
    ),
    _build_synonyms(
        "type mode state status action publishmode postmode sharemode posttype poststatus poststate published publish"
        " ispublished approve approval needsapproval requiresapproval",
        otherwise=TIME_ADVICE,
    ),
    _build_synonyms(
        "queue queued addtoqueue usequeue queueid queuedfromprofile usenextfreeslot nextfreeslot nextslot slot slots"
        " autoschedule schedulingtype top",
        otherwise=f"to take the next free slot of the profile, send `slot: next` at the top of the body; {TIME_ADVICE}",
        pattern=r"(?i)queue|slot",
    ),
    _build_synonyms(
        "timezone tz zone utcoffset timezoneid",
        otherwise="the zone belongs to the time: `scheduledAt`, at the top of the body, as 2026-05-04T15:30:00+02:00",
    ),
    _build_synonyms(
        "scheduledat schedule scheduled at on when"
        " date time datetime day hour timestamp due dueat goliveat liveat embargo embargountil release"
        " releaseat notbefore delay wait runat sendat sendon sendtime eta later future postat poston posttime"
        " postdate publishat publishon publishdate publishtime publishedat publicationdate pubdate",
        "scheduledAt",
        otherwise=TIME_ADVICE,
        pattern=r"(?i:schedul)|(?:At|On|Date|Time|[_-](?:at|on|date|time|datetime))$|^(?:date|time)",
    ),
    # Content.
    _build_synonyms("data base64 bytes file content filedata imagedata binary blob", "bytesBase64"),
    _build_synonyms(
        "src source href link path uri location download fileurl imageurl videourl mediaurl publicurl", "url"
    ),
    _build_synonyms("id mediaid assetid uploadid fileid", "mediaId"),
    _build_synonyms(
        "content message caption body post posttext statustext copy description texts contents messages captions"
        " commentary tweet tweets note value markdown plaintext html story richtext textcontent customcontent",
        "text",
    ),
    _build_synonyms(
        "images image assets asset attachments attachment photos photo pictures picture pics videos video files file"
        " mediaurls mediaurl mediaitems mediaids mediaid imageurls imageurl imageids videourls videourl photourl"
        " photourls gallery attachmenturls fileurls uploads mediafiles mediaassets mediarefs carousel gif gifs",
        "media",
    ),
    # Destination.
    _build_synonyms(
        "id account accounts channel channelid profile integration integrationid integrations socialaccount"
        " socialaccountid socialprofileid pageid connectionid userid target targetid destination handle username",
        "accountId",
    ),
    _build_synonyms(
        "network networks provider service targettype social socialnetwork channeltype type site", "platform"
    ),
    _build_synonyms(
        "platforms platform accounts account accountid accountids channels channel channelid channelids networks"
        " network profileids profiles integrations integration integrationid integrationids socialaccounts"
        " socialaccountids socialprofileids socialprofiles socials providers destinations destination target"
        " recipients to pages pageids versions posts bulk sites where connections connectionids targetplatforms postto"
        " socialnetworks targetaccounts targettype",
        "targets",
    ),
    _build_synonyms(
        "settings config platformspecificdata platformoptions platformsettings platformconfigurations providersettings"
        " accountconfigurations extra params additionaloptions",
        "options",
        otherwise="what only one platform has stands in `targets[].options`, with its `platform`",
    ),
    _build_synonyms("comment comments firstreply reply autoreply firstcommenttext followup", "firstComment"),
    _build_synonyms("profile working_folder workspaceid brand brandid team teamid profilekey", "profileId"),
    _build_synonyms(
        "duplicate duplicates allowduplicate allowduplicates ifduplicate refuseduplicates preventduplicates",
        "onDuplicate",
    ),
    _build_synonyms(
        "externalid externalref externalreference clientid clientref clientreference customid sourceid reference",
        "externalId",
    ),
    _build_synonyms(
        "idempotencykey idempotency idempotencyid idempotent requestkey dedupekey deduplicationid clientrequestid",
        otherwise="send it as the header `Idempotency-Key`",
        pattern=r"(?i)idempot",
        anywhere=True,
    ),
)
OPTION_ADVICE = "it is one of the options of {}: put it in `targets[].options`, beside their `platform`"


def suggest_field(model: type[BaseModel], loc: Sequence[str | int]) -> str:
    """Return advice for the unknown field at pydantic's location `loc`: a clause or a question."""
    name, known = str(loc[-1]), list_fields(model, loc[:-1])
    if not known:
        if issubclass(model, EmptyRequest):
            return "this request takes no fields in its body; nothing was done"
        return "this address takes no query parameters; fields belong in the body of a request that takes one"
    publishes = "targets" in _list_names(model)
    meant = _match_field(name, known, publishes)
    if meant is None and publishes and (owners := _list_platforms_with(name)):
        return OPTION_ADVICE.format(" and ".join(owners))
    return meant or f"remove it. Known here: {', '.join(known)}"


def _match_field(name: str, known: Sequence[str], publishes: bool) -> str | None:
    """Match a name by spelling, meaning, similar word, then similar field, or None."""
    word = _normalize(name)
    fields = {_normalize(field): field for field in known}
    if word in fields:
        return _format_question(fields[word])
    fields.pop(_normalize(NEVER_SUGGESTED), None)
    exact = [meaning for meaning in SYNONYMS if word in meaning.words]
    found = _pick_suggestion(
        exact or [meaning for meaning in SYNONYMS if _is_pattern_match(meaning, name)], known, publishes
    )
    if found is None and (near := difflib.get_close_matches(word, [*fields, *_LONG_WORDS], n=1, cutoff=0.8)):
        alike = [meaning for meaning in SYNONYMS if near[0] in meaning.words]
        found = _format_question(fields[near[0]]) if near[0] in fields else _pick_suggestion(alike, known, publishes)
    if found is None and (near := difflib.get_close_matches(word, fields, n=1, cutoff=0.75)):
        found = _format_question(fields[near[0]])
    return found


def _pick_suggestion(meanings: Sequence[FieldSynonyms], known: Sequence[str], publishes: bool) -> str | None:
    field = next((field for meaning in meanings for field in meaning.fields if field in known), None)
    said = (meaning.otherwise for meaning in meanings if meaning.otherwise and (publishes or meaning.anywhere))
    return _format_question(field) if field else next(said, _list_known(meanings, known))


def _list_known(meanings: Sequence[FieldSynonyms], known: Sequence[str]) -> str | None:
    """List the fields where a word may mean a time or a dry run but nothing is published."""
    return f"known here: {', '.join(known)}" if any(meaning.otherwise for meaning in meanings) else None


def _is_pattern_match(meaning: FieldSynonyms, name: str) -> bool:
    return bool(meaning.pattern and meaning.pattern.search(name))


def _normalize(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def _format_question(field: str) -> str:
    return f"did you mean `{field}`?"


_LONG_WORDS = sorted({word for meaning in SYNONYMS for word in meaning.words if len(word) > 3})


def _list_platforms_with(name: str) -> list[str]:
    return [key for key, platform in platforms.PLATFORMS.items() if name in _list_names(platform.options)]


# --- Values ----------------------------------------------------------------------------------------------------------


def suggest_value(value: str, known: Sequence[str]) -> str | None:
    """Return the one of `known` that a value means, by spelling, platform name or similarity."""
    names = {_normalize(each): each for each in known}
    for key, platform in platforms.PLATFORMS.items():
        if key in known:
            names = {_normalize(alias): key for alias in (platform.label, *platform.aliases)} | names
    word = _normalize(value)
    near = [word] if word in names else difflib.get_close_matches(word, names, n=1, cutoff=0.75)
    return names[near[0]] if near else None


# --- Fields by place ---------------------------------------------------------------------------------------------

UNION_MODELS: Mapping[str | int | None, Mapping[str | int, type[BaseModel]]] = {
    "options": {name: platform.options for name, platform in platforms.PLATFORMS.items()},
    "to": dict(TARGET_MODELS.items()),
}
"""By field: the models possible there, by the tag in pydantic's location."""


def list_fields(model: type[BaseModel], loc: Sequence[str | int]) -> list[str]:
    """List the fields known at pydantic's location `loc`; for a choice, those of its tag."""
    found: type[BaseModel] = model
    for before, part in zip([None, *loc], loc, strict=False):
        found = UNION_MODELS.get(before, {}).get(part, found)
        for field in found.model_fields.values():
            if field.alias == part and (inner := _find_model(field.annotation)):
                found = inner
    return _list_names(found)


def _list_names(model: type[BaseModel]) -> list[str]:
    return [field.alias or name for name, field in model.model_fields.items()]


def _find_model(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and not isinstance(annotation, types.GenericAlias):
        return annotation if issubclass(annotation, BaseModel) else None
    if get_origin(annotation) is Literal:
        return None
    return next((inner for part in get_args(annotation) if (inner := _find_model(part))), None)
