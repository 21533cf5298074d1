"""A planned request as the JSON body that an endpoint takes."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import Literal

import msgspec

from profiler.collectors.client.plan import Head, Plan, Request
from profiler.collectors.client.prompts import token_ids, words
from profiler.errors import UsageError
from profiler.model.extension import Endpoint

PromptForm = Literal["token ids", "text", "messages"]


def check(plan: Plan, endpoint: Endpoint) -> None:
    """Raises UsageError where the endpoint can't take a prompt of the plan."""
    for request in plan.requests:
        form = _form(plan.head, request)
        if _place(form, endpoint) is None:
            raise UsageError(
                f"request {request.i} of the plan is made of {form}, which {endpoint.path} does not take here. "
                "Choose another --endpoint, or draw prompts with --prompts text"
            )


def body_of(
    head: Head, request: Request, endpoint: Endpoint, model: str | None, ignore_eos: bool, extra: Mapping[str, object]
) -> str:
    """The body. With ``ignore_eos`` the output is as long as planned, as far as the server knows how; ``extra`` is laid
    over everything else."""
    body: dict[str, object] = deepcopy(dict(endpoint.fixed))
    if endpoint.model is not None and model is not None:
        _set(body, endpoint.model, model)
    place = _place(_form(head, request), endpoint)
    assert place is not None
    _set(body, place, _prompt(head, request, place == endpoint.messages))
    _set(body, endpoint.limit, request.out)
    if ignore_eos and endpoint.ignore_eos is not None:
        _set(body, endpoint.ignore_eos, True)
    if ignore_eos and endpoint.least is not None:
        _set(body, endpoint.least, request.out)
    return msgspec.json.encode({**body, **extra}).decode()


def _form(head: Head, request: Request) -> PromptForm:
    if request.messages is not None:
        return "messages"
    return "token ids" if request.ids is not None or (request.parts and head.form == "ids") else "text"


def _place(form: PromptForm, endpoint: Endpoint) -> str | None:
    """Where the endpoint takes such a prompt; text also is a user's message."""
    if form == "text":
        return endpoint.text or endpoint.messages
    return endpoint.ids if form == "token ids" else endpoint.messages


def _prompt(head: Head, request: Request, as_messages: bool) -> object:
    if request.messages is not None or request.ids is not None:
        return request.messages or request.ids
    if request.text is None and head.form == "ids":
        return token_ids(request.parts, head.seed, head.vocabulary)
    text = words(request.parts, head.seed) if request.text is None else request.text
    return [{"role": "user", "content": text}] if as_messages else text


def _set(body: dict[str, object], place: str, value: object) -> None:
    *outer, last = place.split(".")
    for key in outer:
        inner = body.setdefault(key, {})
        assert isinstance(inner, dict)
        body = inner
    body[last] = value
