"""Hold the names and sentences of the code to `docs/lexicon.md`."""

from __future__ import annotations

import ast
import io
import re
import subprocess
import tokenize
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
GENERATED = ("stubs/", "third_party/")

EXCEPTIONS: dict[str, str] = {
    "chassis/errors.py:Aborted": "the name of the gRPC status",
    "chassis/errors.py:Unauthenticated": "the name of the gRPC status",
    "chassis/errors.py:Unimplemented": "the name of the gRPC status",
    "sdk/hansei/client/langchain.py:parent_run_id": "a parameter of LangChain's callbacks",
    "sdk/hansei/client/langchain.py:run_id": "a parameter of LangChain's callbacks",
    "services/planner/domain/events.py:Replanned": "the name of the event in the contract",
    "services/validator/domain/kind_definition.py:Required": "stored report kinds hold the names of their checks",
}
"""Permitted violations, as `path:name`, each with its reason. At most twenty."""


def word_set(words: str) -> frozenset[str]:
    """Return the words of a text."""
    return frozenset(words.split())


PARTICIPLES = word_set("""
    told given written held kept made found cut seen known left taken shown drawn chosen spoken broken begun done
    gone sent spent built bound met won lost said heard meant brought caught thought stood understood grown thrown
    torn worn hidden forgotten driven risen fallen laid paid sold felt led fed
""")
ADJECTIVES = word_set("""
    due own alike near apart alone ready dead alive same whole full empty fresh stale everything anything nothing
    something likely useful able worth fit
""")
PREPOSITIONS = word_set("""
    of at by on over in to from with for within between into under above below after before through without about
    against among since until upon per via beside off out up down again surely ahead aside
""")
PRONOUNS = word_set("""
    it this that these those each one ones all any what who which whom they them he she we us mine ours yours theirs
    its other others both none some such every another everyone nobody somebody
""")
VERBS_IN_ED = {"embed", "feed", "need", "seed", "shed", "speed", "proceed", "exceed", "succeed", "bed"}

FORBIDDEN_WORDS = word_set("""
    ticket tickets deed deeds door doors permit permits patience bury buried tend bill bills told heard unheard
    alike likeness successor room rooms measures surely equipment face faces
""")
"""Words that no identifier contains."""
FORBIDDEN_NAMES = {"each", "one", "asked", "kept", "known", "place", "places", "told", "held", "said", "given"}
"""Names that no variable, parameter or attribute has: they do not describe the value."""

CLAUSE = re.compile(r"(what|whether|who|whom|whose|which|where|how|when|that|why|if|as|until|because)\b", re.IGNORECASE)
CLAUSE_ID = re.compile(r"[A-Z]+-\d+[a-z]?[.:,)]?$")
FORBIDDEN_TEXT = re.compile(
    r"\b(told|unheard|anew|surely|not yours|comes along|goes on|does not say|says what"
    r"|bears?|is heard|was heard|as they were)\b"
)
RUN_NAME = re.compile(
    r"(archived|failed|failing|labelled|learned|passed|passing|recorded|tested|training)_?runs?"
    r"|(parent_)?run_?(calls?|events?|ids?|messages?|records?)"
)
RUN_TEXT = re.compile(
    r"\b(archived|earlier|failed|failing|labelled|learned|passed|passing|recorded|successful|training) runs?\b",
    re.IGNORECASE,
)
"""Names and phrases that call a trajectory a run: a run is an execution of a program, see `docs/lexicon.md`."""
COMMENT_START = re.compile(r"(?:^|\n)(?! *//)[^\n]*\n *// ?([^\n]*)")
"""The first line of each block of comments in a proto."""
CLAUSE_COMMENT = re.compile(r"(What|Whether|Who|Whose|Which|Where|How|Why)\b")
CLAUSE_TEXT = re.compile(r"(What|Whether|Who|Whose|Which) [^?]*$")


def is_bare(name: str) -> bool:
    """Return whether a name is one bare participle, adjective, preposition or pronoun."""
    word = name.strip("_")
    if name.startswith("__") or "_" in word or not word.islower():
        return False
    return word in PARTICIPLES | ADJECTIVES | PREPOSITIONS | PRONOUNS or (
        word.endswith("ed") and word not in VERBS_IN_ED
    )


def is_bare_class(name: str) -> bool:
    """Return whether a class is named by one bare participle, adjective, preposition or pronoun."""
    return len(words_of(name)) == 1 and is_bare(name.strip("_").lower())


def is_clause(docstring: str | None) -> bool:
    """Return whether the first line of a docstring is a clause or a bare clause id instead of a statement."""
    first_line = (docstring or "").strip().partition("\n")[0]
    return bool(CLAUSE.match(first_line) or CLAUSE_ID.fullmatch(first_line))


def is_run_of_agent(name: str) -> bool:
    """Return whether a name calls the trajectory of an agent a run."""
    return RUN_NAME.fullmatch(name.strip("_").lower()) is not None


def words_of(name: str) -> set[str]:
    """Return the words of an identifier in snake case or camel case."""
    return {word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name)}


@cache
def source_files(pattern: str = "*.py") -> list[str]:
    """Return the Python files of the repository that people write, or those that match another pattern."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", pattern],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout.split()  # fmt: skip
    return [file for file in listed if (ROOT / file).exists() and not file.startswith(GENERATED)]


def stored_names(node: ast.AST) -> Iterator[str]:
    """Yield the variables, parameters and attributes that a node introduces."""
    if isinstance(node, ast.arg):
        yield node.arg
    elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        yield node.id
    elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
        yield node.attr


def violations(file: str, source: str) -> Iterator[tuple[str, str]]:
    """Yield each broken rule of one file: the name that breaks it, and a sentence with the line."""
    is_test = "tests/" in file
    module = file.rpartition("/")[2].removesuffix(".py")
    if is_bare(module):
        yield module, f"{file}: the module is named by a bare word: {module}"
    # Few files have such a phrase at all, and tokens take longer than all other rules.
    has_phrase = FORBIDDEN_TEXT.search(source) or RUN_TEXT.search(source)
    for token in tokenize.generate_tokens(io.StringIO(source).readline) if has_phrase else ():
        if token.type == tokenize.COMMENT and (FORBIDDEN_TEXT.search(token.string) or RUN_TEXT.search(token.string)):
            yield (
                token.string,
                f"{file}:{token.start[0]}: the lexicon forbids a phrase of the comment {token.string:.90}",
            )
    docstrings: set[int] = set()
    for node in ast.walk(ast.parse(source)):  # a statement comes before its parts
        where = f"{file}:{getattr(node, 'lineno', 1)}"
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            if not isinstance(node, ast.ClassDef) and is_bare(node.name):
                yield node.name, f"{where}: the function is named by a bare word: {node.name}"
            if isinstance(node, ast.ClassDef) and is_bare_class(node.name):
                yield node.name, f"{where}: the class is named by a bare word: {node.name}"
            is_predicate = isinstance(node, ast.ClassDef) or ast.unparse(node.returns or node) == "bool"
            if not is_test and node.name.endswith("_of") and not is_predicate:
                yield node.name, f"{where}: the function is named by a value and a preposition: {node.name}"
            if words_of(node.name) & FORBIDDEN_WORDS or is_run_of_agent(node.name):
                yield node.name, f"{where}: the lexicon forbids a word of {node.name}"
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            docstrings.add(id(node.value))
            docstring = node.value.value
            if is_clause(docstring):
                yield docstring, f"{where}: the docstring is no statement: {docstring!r:.90}"
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and (phrase := RUN_TEXT.search(node.value)):
            yield phrase[0], f"{where}: the record of an agent is a trajectory: {phrase[0]!r}"
        for name in stored_names(node):
            if name.strip("_") in FORBIDDEN_NAMES or words_of(name) & FORBIDDEN_WORDS or is_run_of_agent(name):
                yield name, f"{where}: the lexicon forbids the name {name}"
        if (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and id(node) not in docstrings
            and not is_test
        ):
            if FORBIDDEN_TEXT.search(node.value) and " " in node.value.strip():
                yield node.value, f"{where}: the lexicon forbids a phrase of {node.value!r:.90}"
            elif CLAUSE_TEXT.match(node.value) and "\n" not in node.value:
                yield node.value, f"{where}: a clause instead of a sentence: {node.value!r:.90}"


JS_TOKENS = re.compile(r"""/\*.*?\*/|//[^\n]*|"[^"\n]*"|`[^`]*`""", re.DOTALL)
JS_FUNCTION = re.compile(
    r"^(?:export )?(?:async )?function\*? (\w+)|^  (?:static |async |get |set |#)*(\w+)\([^\n]*\) \{$", re.MULTILINE
)


def script_violations(file: str, source: str) -> Iterator[str]:
    """Yield each broken rule of one script of the console."""
    code = JS_TOKENS.sub(lambda token: "\n" * token[0].count("\n"), source)
    for function in JS_FUNCTION.finditer(code):
        name = function[1] or function[2]
        if is_bare(name):
            yield f"{file}: the function is named by a bare word: {name}"
    for number, line in enumerate(code.splitlines(), 1):
        for name in re.findall(r"(?<![\w.])[A-Za-z]\w*", line):
            if name in FORBIDDEN_NAMES or words_of(name) & FORBIDDEN_WORDS:
                yield f"{file}:{number}: the lexicon forbids the name {name}"
    for token in JS_TOKENS.findall(source):
        if FORBIDDEN_TEXT.search(token):
            yield f"{file}: the lexicon forbids a phrase of {token!r:.90}"


def test_names_and_sentences_of_the_console_follow_the_lexicon() -> None:
    """The rules for names and phrases also hold for the JavaScript of the console."""
    scripts = sorted((ROOT / "gateway/console/page/js").rglob("*.js"))
    found = [sentence for file in scripts for sentence in script_violations(file.name, file.read_text())]
    assert scripts
    assert not found, "\n".join(found)


@pytest.mark.parametrize("pattern", ["*.md", "*.proto"])
def test_documents_and_protos_follow_the_lexicon(pattern: str) -> None:
    """No page and no comment of the contract has a forbidden phrase; prompts for models are not pages."""
    files = source_files(pattern)
    found = [
        f"{file}: {phrase[0]!r}"
        for file in files
        for rule in (FORBIDDEN_TEXT, RUN_TEXT)
        for phrase in rule.finditer((ROOT / file).read_text(encoding="utf-8"))
    ]
    assert files
    assert not found, "\n".join(found)


def test_comments_of_the_contract_are_no_clauses() -> None:
    """The comment of a field or method begins with a noun or a verb: it is shown alone in the reference and OpenAPI."""
    protos = source_files("protos/hansei/*.proto")
    found = [
        f"{file}: {comment[1]!r}"
        for file in protos
        for comment in COMMENT_START.finditer((ROOT / file).read_text(encoding="utf-8"))
        if CLAUSE_COMMENT.match(comment[1])
    ]
    assert len(protos) > 20
    assert not found, "\n".join(found)


@pytest.mark.parametrize("folder", sorted({"/".join(file.split("/")[:2]) for file in source_files()}))
def test_names_and_sentences_follow_the_lexicon(folder: str) -> None:
    """Names are nouns and verb phrases, docstrings are statements, and no forbidden word appears."""
    found = [
        sentence
        for file in source_files()
        if "/".join(file.split("/")[:2]) == folder
        for name, sentence in violations(file, (ROOT / file).read_text())
        if f"{file}:{name}" not in EXCEPTIONS
    ]
    assert not found, "\n".join(found)


def test_a_class_name_means_one_thing() -> None:
    """No class name is defined in two folders; tests and examples may repeat a name."""
    folders: dict[str, set[str]] = defaultdict(set)
    for file in source_files():
        if "tests/" in file or file.startswith(("examples/", "conftest.py")):
            continue
        for node in ast.walk(ast.parse((ROOT / file).read_text())):
            if isinstance(node, ast.ClassDef):
                folders[node.name].add(file.rpartition("/")[0])
    repeated = {name: sorted(where) for name, where in folders.items() if len(where) > 1}
    assert not repeated, repeated


def test_exceptions_are_few_and_needed() -> None:
    """There are at most twenty exceptions, and each still excepts something."""
    assert len(EXCEPTIONS) <= 20
    files = {exception.partition(":")[0] for exception in EXCEPTIONS} & set(source_files())
    needed = {f"{file}:{name}" for file in files for name, _ in violations(file, (ROOT / file).read_text())}
    assert set(EXCEPTIONS) <= needed


if __name__ == "__main__":
    import sys

    for prefix in sys.argv[1:]:
        for path in source_files():
            if path.startswith(prefix):
                for _, text in violations(path, (ROOT / path).read_text()):
                    print(text)
