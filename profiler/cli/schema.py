"""``profiler schema``: the JSON Schemas of the documents."""

from __future__ import annotations

import click


@click.command("schema")
@click.argument(
    "document",
    type=click.Choice(["diagnosis", "inspection", "check", "goodput", "recommendation", "whatif"]),
)
def command(document: str) -> None:
    """Print the JSON Schema of a document.

    \b
    Example:
      profiler schema diagnosis > diagnosis.schema.json
    """
    from profiler.reports.json_document import schema

    click.echo(schema(document))
