"""Valid reports as text."""

from __future__ import annotations

from services.validator.domain.rendering import render_advisor, render_organizer
from services.validator.tests.samples import (
    advisor,
    advisor_without_node,
    decomposition,
    grouping,
    kid,
    option,
    organizer,
    relation,
)


def test_an_organizer_report_is_rendered() -> None:  # V-47
    report = organizer(
        "まず整理します。",
        decomposition_proposals=[decomposition("n1", "広い", suggested_children=[kid("甲", "乙"), kid("丙", "丁")])],
        grouping_proposals=[grouping(["n1", "n2"], "近い"), grouping([], "空")],
        relation_proposals=[relation("n1", "n2", "使う")],
    )
    assert (
        render_organizer(report)
        == """まず整理します。

## 分解案
- 企画 (n1): 広い
  - 甲: 乙
  - 丙: 丁

## グループ案
- 企画関連: 近い (n1, n2)
- 企画関連: 空 ()

## 関連案
- n1 → n2 (depends_on): 使う"""
    )
    assert render_organizer(organizer("まず。")) == "まず。"


def test_missing_strings_render_as_empty_and_a_missing_title_as_the_id() -> None:  # V-49
    proposal = decomposition("n1", "広い")
    del proposal["target_title"]
    text = render_organizer(
        organizer("まず。", decomposition_proposals=[proposal], grouping_proposals=[{"reason": "r", "node_ids": []}])
    )
    assert "- n1 (n1): 広い" in text
    assert "- : r ()" in text


def test_an_advisor_report_is_rendered() -> None:  # V-48
    report = advisor(
        [option("A案", description="早い", risks=["甲", "乙"]), option("B案")],
        next_decision="予算",
        summary="二案です。",
    )
    assert (
        render_advisor(report)
        == """対象: 見積の承認 (n1)
現在の状態: NEEDS_DECISION

二案です。

最初に決めること: 予算

## 判断基準
- 費用: 総額
- 納期: 完了日

## A案
早い
- 次の一手: 担当者に確認する
- 必要な情報: 見積の内訳
- 判断の目安: 費用と納期で比べる
- リスク: 甲; 乙

## B案
- 次の一手: 担当者に確認する
- 必要な情報: 見積の内訳
- 判断の目安: 費用と納期で比べる
- リスク: 納期が延びる"""
    )


def test_an_advisor_report_without_criteria_or_options_is_rendered() -> None:  # V-48
    assert (
        render_advisor(advisor_without_node())
        == """対象:  ()
現在の状態:\x20

二つの案を並べました。

最初に決めること: 対象のノードを先に選ぶ"""
    )


def test_fields_without_a_rule_may_hold_anything() -> None:  # V-29, V-77
    render_organizer(organizer("まず", grouping_proposals=[{"reason": "r", "node_ids": [], "group_label": [1]}]))
    render_advisor(advisor([option(5), option({}, risks=["a", None])], criteria=[None, 5, {"name": 1}]))  # type: ignore[arg-type]
