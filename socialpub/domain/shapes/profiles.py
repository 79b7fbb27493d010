"""Profiles, the parts of an organization."""

from __future__ import annotations

from typing_extensions import TypedDict

from socialpub.domain.shapes.common import DateTime, LongName, Name, Request


class OrganizationRequest(Request):
    """A new organization, made by the operator."""

    name: LongName


class ProfileRequest(Request):
    """The body of POST /v1/profiles and PATCH /v1/profiles/{id}."""

    name: Name
    """Its slug is made of this name and must be unique in the organization."""


class ProfileBody(TypedDict):
    """A part of an organization that owns accounts."""

    id: str
    name: str
    slug: str
    """The name as it can stand in an address; unique in the organization."""
    createdAt: DateTime
    updatedAt: DateTime


class ProfileList(TypedDict):
    """The profiles, oldest first."""

    data: list[ProfileBody]
