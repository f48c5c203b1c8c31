"""The dashboard that reports are made from, and the wishes of the user."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from services.validator.domain.findings import display_text, is_blank

TRAY_ORDER = ("in_progress", "needs_decision", "waiting_external", "cooling", "other_active")


class DashboardError(ValueError):
    """The dashboard is no object with an object `trays` (V-33)."""

    def __init__(self) -> None:
        super().__init__("dashboard is required (object with trays)")


class TargetError(ValueError):
    """There is no node of the wanted id, or no node at all (V-34)."""


@dataclass(frozen=True, slots=True)
class Node:
    """A node as prompts list it; title and status are empty where the dashboard has no text for them."""

    id: str
    title: str
    status: str


@dataclass(frozen=True, slots=True)
class Brief:
    """The inputs of a report (V-32). `dashboard` is raw JSON and may be anything."""

    dashboard: object
    focus_node_id: object = None
    user_intent: str | None = None
    constraints: tuple[str, ...] = ()


def list_nodes(dashboard: object) -> list[Node]:
    """Return the nodes of all trays, each id once, in the order of V-31. Raises DashboardError."""
    trays = dashboard.get("trays") if isinstance(dashboard, dict) else None
    if not isinstance(trays, dict):
        raise DashboardError
    nodes: dict[str, Node] = {}
    for item in _iterate_items(trays):
        node_id = item.get("id")
        if isinstance(node_id, str) and node_id.strip() and node_id.strip() not in nodes:
            nodes[node_id.strip()] = Node(
                node_id.strip(), display_text(item.get("title")), display_text(item.get("status"))
            )
    return list(nodes.values())


def _iterate_items(trays: dict[object, object]) -> Iterator[dict[str, object]]:
    others = sorted(str(name) for name in trays if name not in TRAY_ORDER)
    for name in (*TRAY_ORDER, *others):
        tray = trays.get(name)
        for item in tray if isinstance(tray, list) else ():
            if isinstance(item, dict):
                yield item


def find_focus(brief: Brief, nodes: list[Node], *, needs_node: bool) -> Node | None:
    """Return the node of a report: the one of the brief, else the first if one is needed (V-34, V-35).

    A blank `focus_node_id` counts as not given. Raises TargetError.
    """
    wanted = brief.focus_node_id
    if wanted is not None and not (isinstance(wanted, str) and is_blank(wanted)):
        for node in nodes:
            if node.id == wanted:
                return node
        raise TargetError(f'focusNodeId "{display_text(wanted)}" not found in dashboard')
    if not needs_node:
        return None
    if not nodes:
        raise TargetError("dashboard has no nodes; set focusNodeId or add nodes")
    return nodes[0]
