"""`hansei playbook …`: reading, changing and moving playbooks."""

from __future__ import annotations

import typer

from hansei.client.cli import changing, moving, reading

app = typer.Typer(help="Read, compare, restore, move and review.", no_args_is_help=True, rich_markup_mode=None)
app.command()(reading.show)
app.command()(reading.history)
app.command()(changing.diff)
app.command()(changing.restore)
app.command()(changing.revoke)
app.command()(changing.review)
app.command()(moving.export)
app.command("import")(moving.import_)
app.command()(moving.merge)
