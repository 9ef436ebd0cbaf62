"""The login of the administrator, and the guard against forms that other sites send.

Rules:

- Without ``kwire.http.admin.enable`` these routes don't exist, and HTTP requests can't change
  anything.
- A session's cookie can't be read by scripts or sent by other sites (HttpOnly, SameSite=Strict).
- A change is a POST that has the session's cookie and, in the form, the session's CSRF value. If
  the browser says that another site has sent the request, it is refused before that.
- The answer to a wrong token takes ``WRONG_S``.
"""

import hmac
import logging
from urllib.parse import parse_qsl

import trio
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from kwire.web.page.sessions import SESSION_S, Admin
from kwire.web.page.site import PageError, Site

log = logging.getLogger(__name__)

WRONG_S = 1.0
MAX_FIELDS = 50


async def checked_form(admin: Admin, request: Request) -> dict[str, str]:
    """The fields of a form that this administrator has sent from the page; PageError."""
    fields = await form(request)
    session = admin.session_of(request)
    if session is None:
        raise PageError(403, "log in first: the session has ended, or there was none")
    if not hmac.compare_digest(fields.get("csrf", "").encode(), session.csrf.encode()):
        raise PageError(403, "this form is not of this session: load the page again")
    return fields


async def form(request: Request) -> dict[str, str]:
    """The fields of a form that was sent from this port's own pages; PageError.

    Browsers send the origin as ``null`` under the Referrer-Policy of this port. Then Sec-Fetch-Site
    shows the origin of the form.
    """
    site = request.headers.get("sec-fetch-site", "same-origin")
    origin = request.headers.get("origin", "null")
    own = f"{request.url.scheme}://{request.headers.get('host', '')}"
    if site != "same-origin" or origin not in ("null", own):
        raise PageError(403, "another site has sent this form")
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/x-www-form-urlencoded":
        raise PageError(415, "a form must be application/x-www-form-urlencoded")
    try:
        text = (await request.body()).decode()
        fields = dict(parse_qsl(text, keep_blank_values=True, max_num_fields=MAX_FIELDS))
    except ValueError as error:
        raise PageError(400, "this is no form") from error
    return fields


def routes(site: Site, admin: Admin) -> list[Route]:
    """The routes of the login."""

    async def show(request: Request) -> Response:
        return site.render(request, "login.html", title="Log in", wrong=False)

    async def log_in(request: Request) -> Response:
        fields = await form(request)
        session_id = admin.log_in(fields.get("token", ""))
        host = request.client.host if request.client else "?"
        if session_id is None:
            log.warning("HTTP: a wrong token from %s", host)
            await trio.sleep(WRONG_S)
            return site.render(request, "login.html", 403, title="Log in", wrong=True)
        log.warning("HTTP: an administrator has logged in from %s", host)
        response = RedirectResponse("/?done=login", 303)
        response.set_cookie(
            admin.cookie,
            session_id,
            max_age=SESSION_S,
            path="/",
            secure=request.url.scheme == "https",
            httponly=True,
            samesite="strict",
        )
        return response

    async def log_out(request: Request) -> Response:
        await checked_form(admin, request)
        admin.log_out(request)
        response = RedirectResponse("/?done=logout", 303)
        response.delete_cookie(admin.cookie, path="/")
        return response

    return [
        site.route("/admin/login", show),
        site.route("/admin/login", log_in, ("POST",)),
        site.route("/admin/logout", log_out, ("POST",)),
    ]
