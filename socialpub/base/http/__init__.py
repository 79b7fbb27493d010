"""Outbound HTTP: the only package that imports httpx and httpcore."""

from httpx import BaseTransport as BaseTransport
from httpx import MockTransport as MockTransport
from httpx import Request as Request

from socialpub.base.http.client import CALL_SECONDS as CALL_SECONDS
from socialpub.base.http.client import UPLOAD_SECONDS as UPLOAD_SECONDS
from socialpub.base.http.client import USER_AGENT as USER_AGENT
from socialpub.base.http.client import HttpClient as HttpClient
from socialpub.base.http.client import WritableFile as WritableFile
from socialpub.base.http.network import UNGUARDED_POLICY as UNGUARDED_POLICY
from socialpub.base.http.network import ConnectionPolicy as ConnectionPolicy
from socialpub.base.http.network import Resolver as Resolver
from socialpub.base.http.network import resolve as resolve
from socialpub.base.http.response import BODY_MAX as BODY_MAX
from socialpub.base.http.response import UnreadReason as UnreadReason
from socialpub.base.http.response import UpstreamResponse as UpstreamResponse
from socialpub.base.http.ssrf import check_url as check_url
from socialpub.base.http.transport import HttpTransport as HttpTransport
from socialpub.base.http.transport import close_idle as close_idle
