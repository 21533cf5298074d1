"""A command's ``--help`` in the language in force: paragraphs, options and headings; examples and usage stay."""

from __future__ import annotations

import copy
import inspect

import click

from profiler.reports.language import said, tag

# Click leaves such a paragraph as its lines are.
_AS_IT_IS = "\b"


def spoken(command: click.Command, group: click.Context) -> click.Command:
    """The command of a group with its help in that language; itself in English."""
    if tag() == "en":
        return command
    other = copy.copy(command)
    own = other.get_help_option(click.Context(other, parent=group))
    other.help = _paragraphs(command.help or "")
    other.params = [_option(one) for one in command.params]
    if own is not None:
        own = copy.copy(own)
        own.help = said("Show this message and exit.")
        other._help_option = own
    return other


def _option(parameter: click.Parameter) -> click.Parameter:
    if not isinstance(parameter, click.Option) or not parameter.help:
        return parameter
    other = copy.copy(parameter)
    other.help = said(parameter.help)
    return other


def _paragraphs(text: str) -> str:
    every = inspect.cleandoc(text).split("\n\n")
    return "\n\n".join(one if one.startswith(_AS_IT_IS) else said(" ".join(one.split())) for one in every)
