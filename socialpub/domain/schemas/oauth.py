"""Requests of the OAuth endpoints (RFC 6749, 7591, 7636, 8707).

Unknown parameters are ignored, as the RFCs require.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import ConfigDict, Field, StringConstraints

from socialpub.domain.schemas.common import NO_NUL, Maybe, Name, RequestModel, absent

REDIRECT_URIS_MAX = 10
_Value = Annotated[str, StringConstraints(min_length=1, max_length=200), NO_NUL]
_Address = Annotated[str, StringConstraints(min_length=1, max_length=500), NO_NUL]
_Names = Annotated[list[_Value], Field(max_length=20)]


class _OAuthRequest(RequestModel):
    model_config = ConfigDict(extra="ignore", alias_generator=None)


class ClientRequest(_OAuthRequest):
    """Body of POST /oauth/register: a client asks for its id."""

    redirect_uris: Annotated[list[_Address], Field(min_length=1, max_length=REDIRECT_URIS_MAX)]
    client_name: Maybe[Name] = absent()
    grant_types: Maybe[_Names] = absent()
    response_types: Maybe[_Names] = absent()


class AuthorizationRequest(_OAuthRequest):
    """Parameters of /oauth/authorize, in its query and again in the form of its page."""

    client_id: _Value
    redirect_uri: _Address
    response_type: Maybe[_Value] = absent()
    code_challenge: Maybe[_Value] = absent()
    code_challenge_method: Maybe[_Value] = absent()
    state: Maybe[Annotated[str, StringConstraints(max_length=2000), NO_NUL]] = absent()
    scope: Maybe[Annotated[str, StringConstraints(max_length=1000), NO_NUL]] = absent()
    resource: Maybe[_Address] = absent()


class TokenRequest(_OAuthRequest):
    """Form of POST /oauth/token: a client exchanges its code."""

    grant_type: _Value
    client_id: _Value
    code: _Value
    redirect_uri: _Address
    code_verifier: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9._~-]{43,128}$")]
    resource: Maybe[_Address] = absent()
