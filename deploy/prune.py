"""Remove files that no service reads from an environment: `python3 prune.py /opt/hansei/lib/python3.11/site-packages`.

These are tests of packages, type stubs, sources and headers of compiled modules, the installer, and debug symbols if
`eu-strip` of elfutils is installed. The `strip` of binutils moves the segments of some libraries, among them the
OpenBLAS of NumPy, which then cannot be loaded.
"""

import shutil
import subprocess
import sys
from pathlib import Path

FOLDERS = {"tests", "include", "__pycache__"}
ENDINGS = {".a", ".c", ".cc", ".cpp", ".h", ".hpp", ".pxd", ".pxi", ".pyi", ".pyx"}
INSTALLERS = ("pip", "setuptools", "pkg_resources", "_distutils_hack")


def prune(site: Path) -> None:
    """Remove tests, stubs, sources, installers and debug symbols from a `site-packages` folder."""
    for name in INSTALLERS:
        for path in (site / name, *site.glob(f"{name}-*.dist-info")):
            shutil.rmtree(path, ignore_errors=True)
    # It imports what was removed, at each start of Python.
    (site / "distutils-precedence.pth").unlink(missing_ok=True)
    for path in sorted(site.rglob("*")):
        if path.is_dir() and path.name in FOLDERS:
            shutil.rmtree(path)
        elif path.is_file() and path.suffix in ENDINGS:
            path.unlink()
    strip = shutil.which("eu-strip")
    for path in site.rglob("*.so*") if strip else ():
        # It fails for files that are no libraries, which stay unchanged.
        subprocess.run([str(strip), str(path)], stderr=subprocess.DEVNULL, check=False)


if __name__ == "__main__":
    prune(Path(sys.argv[1]))
