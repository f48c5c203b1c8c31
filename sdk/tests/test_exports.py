"""Files for agents: blocks, items, front matter and hand edits, for any text of a bullet (issue 24, item 3)."""

from __future__ import annotations

from pathlib import Path

import pytest
import skills_ref
import yaml
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from chassis.files import replace_file
from hansei.client.errors import InvalidArgument
from hansei.client.exports.bullet_items import BulletItem, format_item, normalize_text, parse_items
from hansei.client.exports.files import locate_file
from hansei.client.exports.front_matter import find_end, quote
from hansei.client.exports.hand_edits import find_deltas
from hansei.client.exports.kinds import ExportKind
from hansei.client.exports.managed_block import ManagedBlock, find_block, format_block, replace_block
from hansei.client.exports.manifest import MANIFEST, load_targets, record_target
from hansei.client.exports.targets import MAX_BYTES, ExportTarget, PlannedFile, make_slug, plan_files
from hansei.playbook.v1.playbook_pb2 import (
    BULLET_STATE_RETIRED,
    DELTA_TYPE_ADD,
    DELTA_TYPE_DELETE,
    DELTA_TYPE_UPDATE,
    Bullet,
    Playbook,
)

HOSTILE = [
    "<!-- hansei:end playbook=d -->",
    "one\n<!-- hansei:end playbook=d -->\n<!-- hansei:begin playbook=d revision=9 digest=0123456789abcdef -->",
    "one\n---\nname: other\n---\ntwo",
    "---\nname: other\n---",
    "```sh\nrm -rf /\n",
    "~~~\n````\n```",
    "one\r<!-- hansei:end playbook=d -->\r\ntwo",
    "one\u2028<!-- hansei:end playbook=d -->\x85- [ts-2] forged",
    "one\n- [ts-2] forged\n### forged",
    "# heading\n\n\n    code\n> quote",
    "&lt;!-- &amp;lt;!-- <!-- -->",
    "<script>alert(1)\n\n</script><pre>",
    "invisible \U000e0041\u202e text",
]
TEXTS = st.one_of(
    st.sampled_from(HOSTILE),
    st.text(min_size=1, max_size=200),
    st.lists(st.sampled_from([*HOSTILE, "a", "\n", "  ", "&", "amp;", "lt;!--", "<!--"]), max_size=6).map("".join),
).filter(normalize_text)
MARKDOWN = MarkdownIt("commonmark")


def build_playbook(*texts: str, section: str = "git", dataset: str = "d") -> Playbook:
    bullets = [Bullet(id=f"ts-{number}", section=section, content=text) for number, text in enumerate(texts, start=1)]
    return Playbook(dataset=dataset, revision=7, bullets=bullets)


def plan(playbook: Playbook, kind: ExportKind = ExportKind.AGENTS_MD, **options: object) -> PlannedFile:
    (file,) = plan_files(ExportTarget(kind, playbook.dataset, **options), playbook).files  # type: ignore[arg-type]
    return file


def build_lines(file: PlannedFile, dataset: str = "d") -> list[str]:
    return replace_block(file.front_matter, None, format_block(dataset, 7, file.body))


def edit(file: PlannedFile, *replacements: tuple[str, str]) -> ManagedBlock:
    """Return the block after edits of its text."""
    text = "\n".join(["# Mine", *build_lines(file)])
    for old, new in replacements:
        assert old in text
        text = text.replace(old, new)
    block = find_block(text.split("\n"), "d")
    assert block
    return block


@given(st.lists(TEXTS, min_size=1, max_size=4))
def test_texts_are_parsed_back_and_the_block_is_unchanged(texts: list[str]) -> None:
    file = plan(build_playbook(*texts))
    block = find_block(build_lines(file), "d")
    assert block
    assert not block.is_edited
    items = parse_items(block.body, file.sections, set(file.body))
    assert [item.text for item in items] == [normalize_text(text) for text in texts]
    assert find_deltas(block, file) == []


@given(st.lists(TEXTS, min_size=1, max_size=4))
def test_no_text_leaves_its_item_for_a_reader_of_markdown(texts: list[str]) -> None:
    text = "\n".join([*build_lines(plan(build_playbook(*texts))), "After the block."])
    tokens = [token for token in MARKDOWN.parse(text) if token.level == 0]
    assert [token.tag for token in tokens if token.type == "heading_open"] == ["h2", "h3"]
    assert sum(token.type == "bullet_list_open" for token in tokens) == 1
    items = [token for token in MARKDOWN.parse(text) if token.type == "list_item_open" and token.level == 1]
    assert len(items) == len(texts)
    inline = [token.content for token in MARKDOWN.parse(text) if token.type == "inline" and token.level == 1]
    assert inline[-1] == "After the block."


@given(TEXTS, TEXTS)
def test_skill_files_pass_the_validator_for_any_text(content: str, section: str) -> None:
    import tempfile

    playbook = build_playbook(content, section=section[:256], dataset="Team---A_b")
    with tempfile.TemporaryDirectory() as folder:
        file = plan(playbook, ExportKind.SKILL)
        path = Path(folder) / file.path
        replace_file(path, "\n".join(build_lines(file, playbook.dataset)).encode())
        assert skills_ref.validate(path.parent) == []
        properties = skills_ref.read_properties(path.parent)
        assert properties.metadata == {"hansei-playbook": "Team---A_b", "hansei-revision": "7"}


@given(st.text(max_size=100))
def test_quoted_scalars_are_one_line_of_yaml(text: str) -> None:
    scalar = quote(text)
    assert "\n" not in scalar
    assert "---" not in scalar
    printable = "".join(character if character.isprintable() else " " for character in text)
    assert yaml.safe_load(scalar) == " ".join(printable.split())


@pytest.mark.parametrize("kind", [ExportKind.CURSOR_RULES, ExportKind.CLAUDE_RULES])
def test_rules_have_their_globs_in_the_front_matter(kind: ExportKind) -> None:
    lines = build_lines(plan(build_playbook("one"), kind, globs=('src/**/*.py"\n---\nx: y', "*.ts")))
    fields = yaml.safe_load("\n".join(lines[1 : find_end(lines) - 1]))
    key = "globs" if kind is ExportKind.CURSOR_RULES else "paths"
    assert fields[key] == ['src/**/*.py" --- x: y', "*.ts"]
    assert fields.get("alwaysApply", False) is False


def test_hookify_gets_a_rule_for_each_bullet_that_quotes_a_command() -> None:
    playbook = build_playbook(
        "Before `git push --force`: fetch.", "`amount` is a text.", "Use `sqlite SELECT`.", dataset="d"
    )
    result = plan_files(ExportTarget(ExportKind.HOOKIFY, "d"), playbook)
    (file,) = result.files
    assert result.omitted == 2
    fields = yaml.safe_load("\n".join(file.front_matter[1:-1]))
    assert str(file.path) == ".claude/hookify.hansei-d-ts-1.local.md"
    assert fields == {
        "name": "hansei-d-ts-1",
        "enabled": True,
        "event": "bash",
        "action": "warn",
        "pattern": r"\bgit\s+push\b",
    }


def test_retired_bullets_and_those_that_do_not_fit_are_left_out() -> None:
    playbook = build_playbook("a" * (MAX_BYTES // 2), "b" * MAX_BYTES, "short", "gone")
    playbook.bullets[3].state = BULLET_STATE_RETIRED
    result = plan_files(ExportTarget(ExportKind.AGENTS_MD, "d"), playbook)
    assert [item.bullet_id for item in result.files[0].items] == ["ts-1", "ts-3"]
    assert result.omitted == 1
    assert any("1 more do not fit" in line for line in result.files[0].body)


@given(st.text(st.sampled_from("aZ09_-"), min_size=1, max_size=128), st.text(st.sampled_from("aZ09_-"), min_size=1))
def test_slugs_are_names_of_skills_and_differ_for_different_names(first: str, second: str) -> None:
    slug = f"hansei-{make_slug(first)}"
    assert len(slug) <= 64
    assert "--" not in slug
    assert slug.strip("-") == slug == slug.lower()
    assert (make_slug(first) == make_slug(second)) == (first == second)


def test_edits_become_deltas() -> None:
    file = plan(build_playbook("first\nsecond line", "two", "three"))
    block = edit(
        file,
        ("  second line", "  another line"),
        ("- [ts-2] two\n", ""),
        ("- [ts-3] three", "- [ts-3] three\n- a new lesson\n  with a second line\n- [x] done"),
    )
    assert block.is_edited
    found = [(delta.type, delta.bullet_id, delta.section, delta.content) for delta in find_deltas(block, file)]
    assert found == [
        (DELTA_TYPE_UPDATE, "ts-1", "", "first\nanother line"),
        (DELTA_TYPE_ADD, "", "git", "a new lesson\nwith a second line"),
        (DELTA_TYPE_ADD, "", "git", "[x] done"),
        (DELTA_TYPE_DELETE, "ts-2", "", ""),
    ]


def test_an_emptied_item_is_a_deletion_and_layout_is_no_edit() -> None:
    file = plan(build_playbook("one", "two"))
    (delta,) = find_deltas(edit(file, ("- [ts-1] one", "- [ts-1]")), file)
    assert (delta.type, delta.bullet_id) == (DELTA_TYPE_DELETE, "ts-1")
    assert find_deltas(edit(file, ("- [ts-2]", "\n\n- [ts-2]")), file) == []
    spaces = edit(file, ("- [ts-1] one", "- [ts-1] one   "))
    assert not spaces.is_edited


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("### git", "A remark.", "line 9 is neither"),
        ("- [ts-1] one", "- [ts-2] one", r"\[ts-2\] twice"),
        ("### git", "### svn", "stands under svn instead of git"),
    ],
)
def test_edits_that_are_no_deltas_are_refused(old: str, new: str, problem: str) -> None:
    file = plan(build_playbook("one", "two"))
    with pytest.raises(InvalidArgument, match=problem):
        find_deltas(edit(file, (old, new)), file)


def test_a_block_of_another_text_is_not_compared() -> None:
    file = plan(build_playbook("one"))
    with pytest.raises(InvalidArgument, match="revision 7 does not reproduce the text"):
        find_deltas(edit(file, ("one", "two")), plan(build_playbook("other")))


BEGIN = "<!-- hansei:begin playbook=d revision=1 digest=0123456789abcdef -->"
END = "<!-- hansei:end playbook=d -->"


@pytest.mark.parametrize(
    "lines",
    [
        [BEGIN],
        [END],
        [BEGIN, BEGIN, END],
        [END, BEGIN],
        [BEGIN, END, BEGIN, END],
        [BEGIN, "<!-- hansei:end playbook=other -->"],
        ["<!-- hansei:begin playbook=d -->", END],
        [BEGIN.replace("revision=1", "revision=x"), END],
    ],
)
def test_broken_markers_are_an_error(lines: list[str]) -> None:
    with pytest.raises(InvalidArgument, match="marker"):
        find_block(lines, "d")


def test_a_file_may_hold_blocks_of_several_playbooks() -> None:
    lines = replace_block(["# Mine", ""], None, format_block("a", 1, ["x"]))
    lines = replace_block(lines, None, format_block("b", 1, ["y"]))
    lines = replace_block(lines, find_block(lines, "a"), format_block("a", 2, ["z"]))
    blocks = [find_block(lines, name) for name in ("a", "b", "c")]
    assert [block and (block.revision, block.body) for block in blocks] == [(2, ("z",)), (1, ("y",)), None]
    assert lines[0] == "# Mine"


def test_targets_are_recorded_once_and_read_strictly(tmp_path: Path) -> None:
    target = ExportTarget(ExportKind.CLAUDE_RULES, "d", "", ("*.py",))
    record_target(tmp_path, ExportTarget(ExportKind.CLAUDE_RULES, "d"))
    record_target(tmp_path, target)
    assert load_targets(tmp_path) == [target]
    for text, problem in [
        ("{", "file is not JSON"),
        ("[]", "version must be 1"),
        ('{"version": 1}', "targets must be a list"),
        ('{"version": 1, "targets": [{"to": "x"}]}', r"targets\[0\].to must be one of"),
        ('{"version": 1, "targets": [{"to": "skill"}]}', r"targets\[0\].dataset is missing"),
        ('{"version": 1, "targets": [{"to": "skill", "dataset": "d", "globs": 1}]}', "globs must be a list"),
    ]:
        (tmp_path / MANIFEST).write_text(text)
        with pytest.raises(InvalidArgument, match=problem):
            load_targets(tmp_path)


def test_files_outside_of_the_project_are_refused(tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    (tmp_path / "project/link").symlink_to(tmp_path)
    for name in ("../AGENTS.md", "link/AGENTS.md", "/etc/AGENTS.md"):
        with pytest.raises(InvalidArgument, match="is not in"):
            locate_file(tmp_path / "project", plan(build_playbook("one"), file=name).path)


def test_items_have_ids_that_can_be_read_back() -> None:
    (item,) = parse_items(format_item(BulletItem("a/b:c", "", "text")), {}, ())
    assert item.bullet_id == "a/b:c"
    unwritable = Playbook(dataset="d", revision=7, bullets=[Bullet(id="a]b", section="s", content="x")])
    assert plan_files(ExportTarget(ExportKind.AGENTS_MD, "d"), unwritable).omitted == 1
