"""Schemas of organizations and their profiles."""

from __future__ import annotations

from typing_extensions import TypedDict

from socialpub.domain.schemas.common import DateTime, LongName, Name, RequestModel


class OrganizationRequest(RequestModel):
    """New organization, created by the operator."""

    name: LongName


class ProfileRequest(RequestModel):
    """Body of POST /v1/profiles and PATCH /v1/profiles/{id}."""

    name: Name
    """The slug is made from it and must be unique in the organization."""


class ProfileBody(TypedDict):
    """Profile: a part of an organization that owns accounts."""

    id: str
    name: str
    slug: str
    """The name in a form for addresses; unique in the organization."""
    createdAt: DateTime
    updatedAt: DateTime


class ProfileList(TypedDict):
    """Profiles, oldest first."""

    data: list[ProfileBody]
