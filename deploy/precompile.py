"""Compile only the modules that a service imports: `python precompile.py /srv/hansei/chassis /srv/hansei/services …`.

An image is read-only, so Python cannot compile modules at run time. Compiling all packages would need a third more
space, and a service uses half of it. This script imports every module that the code in the folders imports.
"""

import ast
import compileall
import importlib
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path


def find_imported_names(folder: Path) -> Iterator[str]:
    """Yield the absolute names in the imports of a folder's code."""
    for path in folder.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.Import):
                yield from (alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                yield node.module
                yield from (f"{node.module}.{alias.name}" for alias in node.names)


if __name__ == "__main__":
    sys.dont_write_bytecode = False
    for folder in map(Path, sys.argv[1:]):
        compileall.compile_dir(folder, quiet=1)
        for name in sorted(set(find_imported_names(folder))):
            # A name may be that of a class, of a missing extra, or of test code. Another error is a broken package.
            with suppress(ModuleNotFoundError):
                importlib.import_module(name)
