"""The route of a request: all that serves a version of an API, imported with the first one."""

from collections.abc import Callable
from functools import cache, partial
from importlib import import_module
from typing import Any, NamedTuple, TypeAlias

from kwire.errors import ErrorCode, KafkaError
from kwire.handlers import APIS, OWN_APIS, Api
from kwire.handlers.lib.waiting import begun_at_once
from kwire.protocol.codec import Decoder, Encoder, InPieces, decoder, encoder, in_pieces
from kwire.protocol.frame import RequestHeader, response_header_version
from kwire.protocol.messages import MODULES, OWN_MODULES, message_classes
from kwire.protocol.types import is_flexible

Handler: TypeAlias = Callable[[Any, Any], Any]
SingleHandler: TypeAlias = Callable[[memoryview, int, RequestHeader, Any, Any], bytes | None]
"""(frame, start of the body, header, broker, client) → the response with its size in front. With
None, the handler has to serve the request."""


class Route(NamedTuple):
    """All parts that serve one version of an API."""

    api: Api
    handle: Handler
    decode: Decoder[Any]
    encode: Encoder
    request_is_flexible: bool
    response_header_version: int
    serve_single: SingleHandler | None
    """Serves the smallest requests of the API as values, without making objects of them."""

    in_pieces: Callable[[], InPieces]
    """Makes the codecs of large requests and responses."""

    serve_authorized: Handler
    """``handle``, as far as the client has the rights in the API's ``RIGHTS``."""


def served_api(api_key: int, version: int) -> Api:
    """The API with this key; KafkaError (UNSUPPORTED_VERSION) if kwire lacks it or the version."""
    api = APIS.get(api_key) or OWN_APIS.get(api_key)
    if api is None or not api.min_version <= version <= api.max_version:
        name = api.name if api else f"API key {api_key}"
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"{name} version {version} is not served")
    return api


@cache
def route(api_key: int, version: int) -> Route:
    """The route for a version of an API, whose modules are imported now if they aren't yet.

    Raises KafkaError (UNSUPPORTED_VERSION) if kwire lacks it.
    """
    api = served_api(api_key, version)
    request, response = message_classes(api_key)
    module = import_module(f"kwire.handlers.{MODULES.get(api_key) or OWN_MODULES[api_key]}")
    if not module.RIGHTS:
        raise RuntimeError(f"{api.name} doesn't say which rights it needs")
    return Route(
        api,
        begun_at_once(module.handle),
        decoder(request, version),
        encoder(response, version),
        is_flexible(request, version),
        response_header_version(response, version),
        module.single(version) if hasattr(module, "single") else None,
        partial(in_pieces, request, response, version),
        partial(_serve_authorized, module, api.name),
    )


def _serve_authorized(module: Any, name: str, request: Any, context: Any) -> Any:
    """The response as far as the client has the rights, or an object that gives it later."""
    from kwire.dispatch.authorized import serve_authorized

    return serve_authorized(module.RIGHTS, module.handle, name, request, context)
