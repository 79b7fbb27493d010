"""What finds a route: compiled in another way than Sanic's, and finding the same."""

from __future__ import annotations

import subprocess
import sys

import sanic.router
from sanic.exceptions import MethodNotAllowed, NotFound

from socialpub.web.app import ROUTES
from socialpub.web.router import Router

VALUES = ("one", "a%20b", "x.y", "11111111-1111-7111-8111-111111111111", "..", "ä")


def _filled(router: sanic.router.Router) -> sanic.router.Router:
    for number, route in enumerate(ROUTES):
        router.add(route.path, [route.method], route.handler, strict_slashes=True, stream=True, name=f"r{number}")
    router.finalize()
    return router


def _found(router: sanic.router.Router, path: str, method: str) -> object:
    try:
        route, handler, given = router.get(path, method, None)
    except (NotFound, MethodNotAllowed) as error:
        return type(error), str(error)
    return route.path, handler, given


def test_every_path_leads_where_sanic_leads_it() -> None:
    own, theirs = _filled(Router()), _filled(sanic.router.Router())
    paths = {"/", "/nowhere", "/v1", "/v1/"}
    for route in ROUTES:
        for value in VALUES:
            filled = "/".join(value if part.startswith("<") else part for part in route.path.split("/"))
            paths |= {filled, f"{filled}/", f"{filled}/more", filled.rpartition("/")[0]}
    asked = [
        (path, method)
        for path in sorted(paths)
        if path[:2] != "//"
        for method in ("GET", "POST", "DELETE", "PATCH", "PUT", "TRACE")
    ]
    assert [_found(own, *each) for each in asked] == [_found(theirs, *each) for each in asked]
    assert len(asked) > 3000


def test_an_application_has_it_without_a_syntax_tree() -> None:
    """In a process of its own: what tests remember of routers is another way still."""
    code = (
        "from socialpub.web.app import ROUTES, _table_of\n"
        "from sanic_routing import router\n"
        "table = _table_of(ROUTES)\n"
        "del router.ast\n"
        "table.finalize()\n"
        "print(table.get('/v1/posts', 'POST', None)[1].__name__)"
    )
    made = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert made.stdout.split() == ["post_api_posts_publish"]
