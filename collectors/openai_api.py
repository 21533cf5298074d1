"""The two streaming endpoints that servers copy from OpenAI; an engine's file says what it spells differently.

``max_tokens`` is deprecated for chat at OpenAI, and taken by every engine. Reasoning comes as ``reasoning_content`` or,
newer, ``reasoning``; it is output like any other.
"""

from __future__ import annotations

from profiler.model.extension import Endpoint


def endpoints(
    ignore_eos: str | None = None, least: str | None = None, *, running: bool = False
) -> tuple[Endpoint, Endpoint]:
    """Completions and chat. ``running``: the server adds the counts so far to every event where it is asked to."""
    options = {"include_usage": True, **({"continuous_usage_stats": True} if running else {})}
    fixed = {"temperature": 0, "stream": True, "stream_options": options}
    completions = Endpoint(
        name="completions",
        path="/v1/completions",
        text="prompt",
        ids="prompt",
        model="model",
        limit="max_tokens",
        least=least,
        ignore_eos=ignore_eos,
        fixed=fixed,
        output=("choices.0.text",),
        input_tokens="usage.prompt_tokens",
        output_tokens="usage.completion_tokens",
        cached_tokens="usage.prompt_tokens_details.cached_tokens",
        part="choices.0",
        finish="choices.0.finish_reason",
        running=running,
    )
    delta = "choices.0.delta"
    chat = Endpoint(
        name="chat",
        path="/v1/chat/completions",
        messages="messages",
        model="model",
        limit="max_tokens",
        least=least,
        ignore_eos=ignore_eos,
        fixed=fixed,
        output=(f"{delta}.content", f"{delta}.reasoning_content", f"{delta}.reasoning", f"{delta}.tool_calls"),
        input_tokens="usage.prompt_tokens",
        output_tokens="usage.completion_tokens",
        cached_tokens="usage.prompt_tokens_details.cached_tokens",
        part="choices.0",
        finish="choices.0.finish_reason",
        running=running,
    )
    return completions, chat
