"""Find the Java development kits of this machine and pick one that fits.

Spark 4.1 runs on Java 17 and 21 (``docs/index.md`` of Spark); other servers have their own bounds. The ``release``
file, which every JDK since 9 has, identifies a kit, so that no process has to be started.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from compose.install.cache import SetupError

SPARK = (17, 21)


@dataclass(frozen=True)
class Jdk:
    home: Path
    major: int

    @property
    def java(self) -> Path:
        return self.home / "bin" / "java"

    @property
    def javac(self) -> Path:
        return self.home / "bin" / "javac"


def pick(versions: Iterable[int] = SPARK, *, purpose: str = "Spark 4.1") -> Jdk:
    """The first JDK of ``versions``: $JAVA_HOME, then PATH, then the usual places (versions listed earlier are preferred).

    Raises SetupError with the kits found and the command that installs one.
    """
    wanted = tuple(versions)
    found = list(installed())
    for jdk in [
        *(candidate for candidate in found if candidate.home in _chosen_homes()),
        *sorted(found, key=lambda jdk: jdk.major),
    ]:
        if jdk.major in wanted:
            return jdk
    instead = ", ".join(f"{jdk.major} in {jdk.home}" for jdk in found)
    given = os.environ.get("JAVA_HOME")
    absent = given and not any(jdk.home == Path(given).resolve() for jdk in found)
    none = f" (JAVA_HOME={given} has no bin/javac, so it is no JDK)" if absent else ""
    needs = f"{purpose} needs a JDK {' or '.join(map(str, wanted))}"
    raise SetupError(f"{needs}, found {f'only {instead}' if instead else 'none'}{none}; get one: {remedy(wanted[0])}")


def ignored(used: Jdk) -> str | None:
    """That ``$JAVA_HOME`` is not what is used, and why, in a sentence; None: it is, or is not set."""
    given = os.environ.get("JAVA_HOME")
    if not given or Path(given).resolve() == used.home:
        return None
    home = Path(given)
    major = _major(home) if os.access(home / "bin" / "javac", os.X_OK) else None
    why = "has no bin/javac, so it is no JDK" if major is None else f"is a JDK {major}"
    return f"JAVA_HOME={given} {why} and is not used; in its place: JDK {used.major} in {used.home}"


def installed() -> Iterator[Jdk]:
    """Every JDK (a ``javac`` beside the ``java``) in the usual places, those chosen by the user first."""
    seen = set()
    for home in [*_chosen_homes(), *_usual_homes()]:
        if home in seen or not os.access(home / "bin" / "javac", os.X_OK):
            continue
        seen.add(home)
        major = _major(home)
        if major:
            yield Jdk(home, major)


def remedy(major: int = 17) -> str:
    """The command that installs a JDK on this platform."""
    for tool, command in (
        ("apt-get", f"apt-get install -y openjdk-{major}-jdk-headless"),
        ("dnf", f"dnf install -y java-{major}-openjdk-devel"),
        ("apk", f"apk add openjdk{major}-jdk"),
        ("pacman", f"pacman -S jdk{major}-openjdk"),
        ("zypper", f"zypper install -y java-{major}-openjdk-devel"),
        ("brew", f"brew install openjdk@{major}"),
    ):
        if shutil.which(tool):
            sudo = "sudo " if tool != "brew" and os.geteuid() != 0 else ""
            return f"{sudo}{command}   (or, without root: {_without_root(major)})"
    return _without_root(major)


def _without_root(major: int) -> str:
    return f"""pip install install-jdk && python3 -c "import jdk; print(jdk.install('{major}'))" """.strip()


def _chosen_homes() -> list[Path]:
    homes = [Path(os.environ["JAVA_HOME"])] if os.environ.get("JAVA_HOME") else []
    on_path = shutil.which("javac")
    if on_path:
        homes.append(Path(on_path).resolve().parent.parent)
    # On macOS /usr/bin/javac is not Java but a program that looks for it.
    return [home.resolve() for home in homes if home != Path("/usr")]


def _usual_homes() -> Iterator[Path]:
    user = Path("~").expanduser()
    patterns: list[tuple[str | Path, str]] = [
        ("/usr/lib/jvm", "*"),
        ("/usr/java", "*"),
        ("/opt/java", "*"),
        (user / ".jdk", "*"),  # install-jdk
        (user / ".jdk", "*/Contents/Home"),
        (user / ".sdkman/candidates/java", "*"),
        (user / ".jenv/versions", "*"),
    ]
    if sys.platform == "darwin":
        patterns += [
            ("/Library/Java/JavaVirtualMachines", "*/Contents/Home"),
            (user / "Library/Java/JavaVirtualMachines", "*/Contents/Home"),
            ("/opt/homebrew/opt", "openjdk*/libexec/openjdk.jdk/Contents/Home"),
            ("/usr/local/opt", "openjdk*/libexec/openjdk.jdk/Contents/Home"),
        ]
    for folder, pattern in patterns:
        for home in sorted(Path(folder).glob(pattern)):
            yield home.resolve()


def _major(home: Path) -> int | None:
    try:
        text = (home / "release").read_text(errors="replace")
    except OSError:
        try:
            result = subprocess.run([home / "bin" / "java", "-version"], capture_output=True, text=True, timeout=20)
        except (OSError, subprocess.TimeoutExpired):
            return None
        text = result.stderr.replace('version "', 'JAVA_VERSION="')
    version = re.search(r'JAVA_VERSION="(?:1\.)?(\d+)', text)
    return int(version[1]) if version else None
