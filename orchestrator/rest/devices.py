"""Devices and tokens by REST: register, look, forget."""

import logging
import time
from collections.abc import Mapping
from typing import Any, TypeVar

from fastapi import FastAPI, Request, Response

from ..errors import MissingError
from ..store.store import Host, KnownToken, Switch
from . import answers, tokens
from .access import Admin, NamePath, NewNamePath, Viewer
from .bodies import HostBody, SwitchBody, TokenBody
from .pages import LIMIT, AfterName, Limit
from .pages import page as paged
from .service import Service
from .tags import IfMatch, check_match, etag_of

log = logging.getLogger(__name__)

Json = dict[str, Any]
Found = TypeVar("Found")


def add(app: FastAPI, service: Service) -> None:
    """Their routes."""
    store = service.store

    @app.put("/v1/switches/{name}", tags=["devices"], **answers.of(answers.Switch))
    def put_switch(
        name: NamePath, body: SwitchBody, caller: Admin, response: Response, match: IfMatch = None
    ) -> Switch:
        """Registers a switch, or says where it is now."""
        with store.writing():
            check_match(match, _tag(store.switches().get(name)), f"switch {name}")
            store.put_switch(name, body.address, body.role, body.server_name)
            store.note(caller.name, "put-switch", f"{name} {body.address}")
        log.info("switch name=%s address=%s event=registered by=%s", name, body.address, caller.name)
        found = store.switches()[name]
        response.headers["ETag"] = etag_of(found)
        return found

    @app.get("/v1/switches", tags=["devices"], **answers.of(answers.Switch, many=True))
    def get_switches(
        caller: Viewer, request: Request, response: Response, limit: Limit = LIMIT, after: AfterName = None
    ) -> list[Switch]:
        """All switches, in pages."""
        return paged(list(store.switches().values()), lambda each: each.name, limit, after, request, response)

    @app.get("/v1/switches/{name}", tags=["devices"], **answers.of(answers.Switch))
    def get_switch(name: NamePath, caller: Viewer, response: Response) -> Switch:
        """One switch."""
        found = _known("switches", store.switches(), name)
        response.headers["ETag"] = etag_of(found)
        return found

    @app.delete("/v1/switches/{name}", status_code=204, tags=["devices"])
    def delete_switch(name: NamePath, caller: Admin, match: IfMatch = None) -> None:
        """Forgets a switch; what it is configured to do stays."""
        with service.runner.idle(), store.writing():
            check_match(match, _tag(store.switches().get(name)), f"switch {name}")
            store.remove_device("switches", name)
            store.note(caller.name, "delete-switch", name)

    @app.put("/v1/hosts/{name}", tags=["devices"], **answers.of(answers.Host))
    def put_host(name: NewNamePath, caller: Admin, body: HostBody | None = None) -> Host:
        """Registers a host."""
        with store.writing():
            if store.put_host(name):
                store.note(caller.name, "put-host", name)
        return store.hosts()[name]

    @app.get("/v1/hosts", tags=["devices"], **answers.of(answers.Host, many=True))
    def get_hosts(
        caller: Viewer, request: Request, response: Response, limit: Limit = LIMIT, after: AfterName = None
    ) -> list[Host]:
        """All hosts, in pages, with the policy generation that each last reported."""
        return paged(list(store.hosts().values()), lambda each: each.name, limit, after, request, response)

    @app.get("/v1/hosts/{name}", tags=["devices"], **answers.of(answers.Host))
    def get_host(name: NamePath, caller: Viewer) -> Host:
        """One host."""
        return _known("hosts", store.hosts(), name)

    @app.delete("/v1/hosts/{name}", status_code=204, tags=["devices"])
    def delete_host(name: NamePath, caller: Admin) -> None:
        """Forgets a host, and revokes its tokens."""
        with service.runner.idle(), store.writing():
            store.remove_device("hosts", name)
            revoked = store.revoke_tokens(name, tokens.Role.HOST)
            store.note(caller.name, "delete-host", f"{name}, {revoked} tokens revoked")
        service.forget_host(name)

    @app.post("/v1/tokens", tags=["devices"], **answers.of(answers.Token, 201))
    def post_token(body: TokenBody, caller: Admin) -> Json:
        """Makes a token. It is shown this once."""
        with store.writing():
            expires_at = None if body.expires_in_s is None else time.time() + body.expires_in_s
            token = tokens.issue(store, body.name, body.role, expires_at)
            store.note(caller.name, "make-token", f"{body.role} {body.name}")
        return {"token": token, "role": body.role, "name": body.name, "expires_at": expires_at}

    @app.get("/v1/tokens", tags=["devices"], **answers.of(answers.KnownToken, many=True))
    def get_tokens(caller: Admin) -> list[KnownToken]:
        """All tokens that are neither revoked nor expired: what they may, never themselves."""
        return store.tokens(time.time())

    @app.delete("/v1/tokens/{name}", tags=["devices"], **answers.of(answers.Revoked))
    def delete_tokens(name: NamePath, caller: Admin) -> Json:
        """Revokes all tokens of a name."""
        with store.writing():
            revoked = store.revoke_tokens(name)
            store.note(caller.name, "revoke-tokens", name)
        return {"revoked": revoked}


def _tag(found: Switch | None) -> str | None:
    return None if found is None else etag_of(found)


def _known(kind: str, found: Mapping[str, Found], name: str) -> Found:
    if name not in found:
        raise MissingError(f"{kind}: no {name!r} is registered")
    return found[name]
