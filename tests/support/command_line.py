"""Run the `hansei` command: `python -m tests.support.command_line ARGUMENTS`."""

from hansei.client.cli import main

if __name__ == "__main__":
    main()
