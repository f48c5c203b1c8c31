"""Git tasks: a commit without an identity, and a push that was overtaken."""

from examples.recorder.agent import Agent
from examples.recorder.task import Script, Task, Verdict
from examples.recorder.workplace import Workplace


def _prepare_repository_without_identity(workplace: Workplace) -> None:
    # useConfigOnly keeps git from guessing an identity from the account and host it runs on.
    workplace.setup("git init -q -b main", "git config user.useConfigOnly true")
    workplace.write("README.md", "# Shop\n")
    workplace.setup(
        "git add README.md",
        "git -c user.name=Mika -c user.email=mika@example.com commit -q -m 'Start the shop'",
    )


def _prepare_changelog(workplace: Workplace) -> None:
    _prepare_repository_without_identity(workplace)
    workplace.write("CHANGELOG.md", "# Changelog\n\n- The shop opens.\n")


def _prepare_version(workplace: Workplace) -> None:
    _prepare_repository_without_identity(workplace)
    workplace.write("VERSION", "1.1.0\n")


def _check_newest_commit(subject: str, workplace: Workplace) -> Verdict:
    log = workplace.run("git log --format='%s (%an)'").output
    expected = f"{subject} (Release Bot)"
    evidence = f"$ git log --format='%s (%an)'\n{log}"
    return Verdict(log.splitlines()[0] == expected, f"newest commit is {expected}", evidence)


COMMIT_CHANGELOG = Task(
    id="git-commit-changelog",
    query="Commit the new CHANGELOG.md with the subject 'Add the changelog'. "
    "Commits here are made by Release Bot <release-bot@example.com>.",
    ground_truth="newest commit on main is 'Add the changelog'",
    prepare=_prepare_changelog,
    check=lambda workplace, _: _check_newest_commit("Add the changelog", workplace),
)

COMMIT_VERSION = Task(
    id="git-commit-version",
    query="Commit the new VERSION file with the subject 'Release 1.1.0'. "
    "Commits here are made by Release Bot <release-bot@example.com>.",
    ground_truth="newest commit on main is 'Release 1.1.0'",
    prepare=_prepare_version,
    check=lambda workplace, _: _check_newest_commit("Release 1.1.0", workplace),
)


def _repeat_failing_commit(agent: Agent) -> str:
    commit = "git commit -m 'Add the changelog'"
    agent.does("First I look at what is there to commit.", "git", command="git status --short")
    agent.does("CHANGELOG.md is untracked. I stage it.", "git", command="git add CHANGELOG.md")
    agent.does("Staged. Now the commit.", "git", fails=True, command=commit)
    agent.does("The commit did not go through. It may be a hiccup, I run it again.", "git", fails=True, command=commit)
    agent.does(
        "Still the same. Perhaps a hook is in the way; I skip hooks.",
        "git",
        fails=True,
        command=f"{commit} --no-verify",
    )
    return agent.gives_up("I could not commit CHANGELOG.md: git commit fails every time, with and without hooks.")


def _set_identity(agent: Agent) -> str:
    commit = "git commit -m 'Add the changelog'"
    agent.does("I stage the new file.", "git", command="git add CHANGELOG.md")
    agent.does("Staged. Now the commit.", "git", fails=True, command=commit)
    agent.does(
        "git has no identity in this repository and may not guess one. I set the e-mail address I was given.",
        "git",
        command="git config user.email release-bot@example.com",
    )
    agent.does("Now the commit should work.", "git", fails=True, command=commit)
    agent.does(
        "The message changed: now the name is missing. An identity is both, user.email and user.name.",
        "git",
        command="git config user.name 'Release Bot'",
    )
    agent.does("Both are set for this repository only. The same commit again.", "git", command=commit)
    return "No user.name or user.email was set; I set both. The newest commit on main is 'Add the changelog'."


def _set_identity_first(agent: Agent) -> str:
    agent.does(
        "Before a commit in an unfamiliar repository I look whether it has an identity.",
        "git",
        command="git config --get-regexp ^user",
    )
    agent.does(
        "Neither user.name nor user.email is set, so a commit would be refused. I set the name,",
        "git",
        command="git config user.name 'Release Bot'",
    )
    agent.does("and the e-mail address.", "git", command="git config user.email release-bot@example.com")
    agent.does("Now I stage the file.", "git", command="git add VERSION")
    agent.does("And commit.", "git", command="git commit -m 'Release 1.1.0'")
    return "I set user.name and user.email first. The newest commit on main is 'Release 1.1.0'."


def _prepare_diverged_repository(workplace: Workplace) -> None:
    workplace.setup("git init -q --bare -b main ../remote.git", "git clone -q ../remote.git .")
    workplace.setup("git symbolic-ref HEAD refs/heads/main")
    workplace.write("settings.ini", "timeout = 3\n")
    workplace.write("NOTES.md", "Notes\n")
    _identify(workplace, "Aki")
    workplace.setup(
        "git remote set-url origin ../remote.git",
        "git add .",
        "git commit -q -m 'Add the settings'",
        "git push -q -u origin main",
        "git clone -q ../remote.git ../colleague",
    )
    _identify(workplace, "Mika", within="colleague")
    (workplace.root / "colleague" / "settings.ini").write_text("timeout = 30\n", encoding="utf-8")
    workplace.setup("git commit -q -am 'Fix the timeout default'", "git push -q", within="colleague")
    workplace.write("PORTS.md", "The port is 8080.\n")
    workplace.setup("git add PORTS.md", "git commit -q -m 'Document the port'")
    workplace.write("NOTES.md", "Notes\n\nNot finished yet.\n")


def _identify(workplace: Workplace, name: str, within: str = "") -> None:
    workplace.setup(f"git config user.name {name}", f"git config user.email {name.lower()}@example.com", within=within)


def _check_both_commits_on_remote(workplace: Workplace, _: str) -> Verdict:
    log = workplace.run("git log --format=%s main", within="remote.git").output
    status = workplace.run("git status --short").output
    passed = log.splitlines()[:2] == ["Document the port", "Fix the timeout default"] and status == " M NOTES.md"
    claim = "origin/main has 'Document the port' on top of 'Fix the timeout default', NOTES.md is changed, uncommitted"
    return Verdict(passed, claim, f"remote.git$ git log --format=%s main\n{log}\n$ git status --short\n{status}")


PUSH = Task(
    id="git-push",
    query="My commit 'Document the port' is ready on main. Push it to origin. Leave NOTES.md as it is, unfinished.",
    ground_truth="origin/main has 'Document the port' on top of 'Fix the timeout default'",
    prepare=_prepare_diverged_repository,
    check=_check_both_commits_on_remote,
)


def _force_push(agent: Agent) -> str:
    agent.does("The commit is there, so I only have to push.", "git", fails=True, command="git push")
    agent.does("Rejected. I name the remote and the branch.", "git", fails=True, command="git push origin main")
    agent.does("origin wants a fast-forward. I force it.", "git", command="git push --force origin main")
    agent.does("That went through. A look at the state.", "git", command="git status --short --branch")
    return "Pushed: main and origin/main are the same now, with 'Document the port' as the newest commit."


def _rebase_before_push(agent: Agent) -> str:
    agent.does("The commit is there, so I only have to push.", "git", fails=True, command="git push")
    agent.does(
        "Somebody pushed before me. Forcing would throw their work away, so I put my commit on top of theirs.",
        "git",
        fails=True,
        command="git pull --rebase",
    )
    agent.does(
        "NOTES.md is changed and must stay so. --autostash sets it aside during the rebase and brings it back.",
        "git",
        command="git pull --rebase --autostash",
    )
    agent.does("Rebased. Now the push is a fast-forward.", "git", command="git push")
    agent.does("I check that nobody's commit is lost.", "git", command="git log --format=%s origin/main")
    agent.does("And that NOTES.md is still changed, uncommitted.", "git", command="git status --short")
    return (
        "I rebased my commit and pushed it: origin/main has 'Document the port' on top of 'Fix the timeout default'. "
        "NOTES.md is as it was."
    )


SCRIPTS = (
    Script("git-commit-identity-repeated", COMMIT_CHANGELOG, _repeat_failing_commit),
    Script("git-commit-identity", COMMIT_CHANGELOG, _set_identity),
    Script("git-commit-identity-again", COMMIT_VERSION, _set_identity_first),
    Script("git-push-forced", PUSH, _force_push),
    Script("git-push-rebased", PUSH, _rebase_before_push),
)
