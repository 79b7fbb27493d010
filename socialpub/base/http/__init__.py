"""Outbound HTTP, and the only package that knows httpx and httpcore."""

from socialpub.base.http.client import BODY_MAX as BODY_MAX
from socialpub.base.http.client import CALL_SECONDS as CALL_SECONDS
from socialpub.base.http.client import UPLOAD_SECONDS as UPLOAD_SECONDS
from socialpub.base.http.client import USER_AGENT as USER_AGENT
from socialpub.base.http.client import Client as Client
from socialpub.base.http.client import Http as Http
from socialpub.base.http.client import Reply as Reply
from socialpub.base.http.client import Sink as Sink
from socialpub.base.http.client import Unread as Unread
from socialpub.base.http.client import open_http as open_http
from socialpub.base.http.network import Policy as Policy
from socialpub.base.http.network import Resolver as Resolver
from socialpub.base.http.network import resolve as resolve
from socialpub.base.http.ssrf import check_url as check_url
from socialpub.base.http.transport import close_idle as close_idle
