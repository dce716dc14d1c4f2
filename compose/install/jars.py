"""The jars of ``jars.lock``: fetched by the Ivy inside pyspark, accepted only with the right length and SHA-256.

    group:artifact:version[:classifier[:extension]]  --Ivy-->  a staging folder  --size, SHA-256-->  jars/<sha256[:12]>/<name>.jar

A line with an extension is no jar, such as a server's archive: ``…:bin:tar.gz``. The lock lists each file by name and resolves no
dependencies, so a registry cannot add any. A verified one has a stamp beside it with its length and modification time: a warm start
compares those instead of reading 120 MB, and a file that changed since is read again.
"""

import hashlib
import os
import re
import shutil
import subprocess
import tempfile
import urllib.parse
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from xml.sax.saxutils import quoteattr

from compose.install.cache import SetupError
from compose.install.progress import Progress, Step, sizes

JARS_LOCK = Path(__file__).with_name("jars.lock")
COORDINATES = r"([^:\s]+):([^:\s]+):([^:\s]+)(?::([^:\s]+)(?::([^:\s]+))?)?"

ARRIVING = (".jar", ".jar.part", ".tar.gz", ".tar.gz.part")
"""How the names of files end that Ivy has, whole or in part."""

Fetch = Callable[[Sequence["Jar"], Path, Step], None]
"""Put the jars, as ``Jar.staged`` names them, into a folder; raise SetupError if one cannot be fetched."""


@dataclass(frozen=True)
class Jar:
    """One line of the lock. ``size`` is in bytes; ``extension`` is how the file's name ends."""

    confs: tuple[str, ...]
    group: str
    artifact: str
    version: str
    classifier: str
    size: int
    sha256: str
    extension: str = "jar"

    @property
    def coordinates(self) -> str:
        extension = "" if self.extension == "jar" else self.extension
        return ":".join(filter(None, (self.group, self.artifact, self.version, self.classifier, extension)))

    @property
    def name(self) -> str:
        return "-".join(filter(None, (self.artifact, self.version, self.classifier))) + f".{self.extension}"

    @property
    def staged(self) -> Path:
        return Path(self.group, self.name)

    def path(self, home: Path) -> Path:
        return home / "jars" / self.sha256[:12] / self.name


def read_lock(path: Path = JARS_LOCK) -> tuple[Jar, ...]:
    """The jars of a lock file, in its order (which is their order on a class path)."""
    jars = []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        match = re.fullmatch(rf"(\S+)\s+{COORDINATES}\s+(\d+)\s+([0-9a-f]{{64}})", line.strip())
        if not match:
            raise SetupError(
                f"{path}:{number}: expected 'configurations group:artifact:version[:classifier[:extension]] bytes sha256'"
            )
        confs, group, artifact, version, classifier, extension, size, sha256 = match.groups()
        jars.append(
            Jar(
                tuple(confs.split(",")),
                *(group, artifact, version, classifier or ""),
                size=int(size),
                sha256=sha256,
                extension=extension or "jar",
            )
        )
    return tuple(jars)


def of(confs: Iterable[str], jars: Iterable[Jar]) -> tuple[Jar, ...]:
    """The jars that any of ``confs`` uses."""
    wanted, jars = set(confs), tuple(jars)
    unknown = wanted - {conf for jar in jars for conf in jar.confs}
    if unknown:
        raise SetupError(f"no such jar configuration: {', '.join(sorted(unknown))}; see compose/install/jars.lock")
    return tuple(jar for jar in jars if wanted.intersection(jar.confs))


def in_place(jar: Jar, home: Path) -> bool:
    """True if the jar is present and unchanged since it was verified."""
    path = jar.path(home)
    try:
        return _stamp(path).read_text() == _look(path)
    except OSError:
        return False


def provide(jars: Sequence[Jar], home: Path, fetch: Fetch, progress: Progress) -> None:
    """Fetch and verify the missing jars; a jar in place costs one look-up.

    Jars that arrived before a failure are kept, so a second attempt continues from there.
    """
    missing = [jar for jar in jars if not in_place(jar, home) and not _accept(jar, jar.path(home), home)]
    if not missing:
        return
    (home / "jars").mkdir(parents=True, exist_ok=True)
    total = sum(jar.size for jar in missing)
    with (
        progress.step(f"{len(missing)} jars", total, "bytes") as step,
        tempfile.TemporaryDirectory(prefix=".arriving-", dir=home / "jars") as scratch,
    ):
        fetch(missing, Path(scratch), step)
        for jar in missing:
            arrived = Path(scratch) / jar.staged
            if not arrived.is_file():
                raise SetupError(f"{jar.coordinates} was not delivered; run the same command again")
            if not _accept(jar, arrived, home):
                problem = wrong(jar, arrived)
                shutil.rmtree(ivy_cache(home) / jar.group / jar.artifact, ignore_errors=True)
                raise SetupError(problem)
    shutil.rmtree(ivy_cache(home), ignore_errors=True)


def wrong(jar: Jar, path: Path) -> str:
    """Describe how a file differs from its line in the lock."""
    size = path.stat().st_size
    got = f"{size} bytes" if size != jar.size else f"SHA-256 {sha256(path)}"
    expected = f"{jar.size} bytes" if size != jar.size else f"SHA-256 {jar.sha256}"
    return (
        f"{jar.name} ({jar.coordinates}) is not the file that compose/install/jars.lock names: expected {expected}, got {got}; "
        "it was deleted. Run the same command again; if it repeats, your registry mirror serves another file"
    )


def sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _accept(jar: Jar, candidate: Path, home: Path) -> bool:
    """Give a verified candidate its final name and stamp; False if it is absent or differs from the lock."""
    try:
        if candidate.stat().st_size != jar.size or sha256(candidate) != jar.sha256:
            return False
    except OSError:
        return False
    final = jar.path(home)
    final.parent.mkdir(parents=True, exist_ok=True)
    candidate.replace(final)
    scratch = _stamp(final).with_suffix(f".{os.getpid()}")
    scratch.write_text(_look(final))
    scratch.replace(_stamp(final))
    return True


def _stamp(path: Path) -> Path:
    return path.with_name(".verified")


def _look(path: Path) -> str:
    status = path.stat()
    return f"{status.st_size} {status.st_mtime_ns}"


# --- Ivy -------------------------------------------------------------------------------------------------------------


def ivy_cache(home: Path) -> Path:
    return home / "ivy" / "cache"


SETTINGS = """\
<ivysettings>
  <settings defaultResolver="public"/>
  <property name="ivy.checksums" value=""/>
  <resolvers>
    <ibiblio name="public" m2compatible="true" usepoms="false" useMavenMetadata="false"/>
  </resolvers>
</ivysettings>
"""


@dataclass(frozen=True)
class Ivy:
    """The resolver that pyspark ships (``spark.jars.packages`` uses it too), run with icequake's own list and cache.

    It uses its default public repository, or the user's settings: ``$ICEQUAKE_IVYSETTINGS`` or
    ``~/.ivy2/ivysettings.xml``. It skips POMs and checksum files, which are not used here: 40 jars take seconds
    instead of a minute. Ivy keeps a download as ``*.part`` until it is complete and does not fetch complete ones
    again, so the next attempt continues an interrupted one.
    """

    java: Path
    spark_home: Path
    home: Path
    attempts: int = 3

    def __call__(self, jars: Sequence[Jar], staging: Path, step: Step) -> None:
        work = self.home / "ivy"
        work.mkdir(parents=True, exist_ok=True)
        ivy_file = work / "ivy.xml"
        ivy_file.write_text(ivy_xml(jars))
        pattern = f"{staging}/[organisation]/[artifact]-[revision](-[classifier]).[ext]"
        command = [
            *(self.java, f"-Divy.default.ivy.user.dir={work}", *proxy_options(os.environ)),
            *("-cp", self._ivy_jar(), "org.apache.ivy.Main", *self._settings()),
            *("-ivy", ivy_file, "-cache", ivy_cache(self.home), "-retrieve", pattern),
        ]
        log = work / "ivy.log"
        for _ in range(self.attempts):
            with log.open("w") as output:
                process = subprocess.Popen(list(map(str, command)), stdout=output, stderr=subprocess.STDOUT)
                try:
                    while True:
                        try:
                            process.wait(timeout=0.3)
                            break
                        except subprocess.TimeoutExpired:
                            step.move_to(sum(sizes(ivy_cache(self.home), *ARRIVING)))
                finally:
                    process.kill()
                    process.wait()
            if process.returncode == 0:
                return
        text = log.read_text(errors="replace")
        reason = re.search(r"\((java\.\S+Exception: .*)\)$", text, re.MULTILINE)
        raise SetupError(
            f"could not fetch {_blamed(text, jars)}{f' ({reason[1]})' if reason else ''}; "
            f"the reason is in {log}. Run the same command again to continue"
        )

    def _ivy_jar(self) -> Path:
        for jar in sorted((self.spark_home / "jars").glob("ivy-*.jar")):
            return jar
        raise SetupError(f"no Ivy in {self.spark_home / 'jars'}: reinstall pyspark (icequake setup)")

    def _settings(self) -> list[str]:
        chosen = os.environ.get("ICEQUAKE_IVYSETTINGS")
        if chosen and not Path(chosen).is_file():
            raise SetupError(f"$ICEQUAKE_IVYSETTINGS names {chosen}, which is not a file")
        path = Path(chosen) if chosen else Path("~/.ivy2/ivysettings.xml").expanduser()
        if not path.is_file():
            path = self.home / "ivy" / "ivysettings.xml"
            path.write_text(SETTINGS)
        return ["-settings", str(path)]


def ivy_xml(jars: Iterable[Jar]) -> str:
    """One declarative module: exactly these artifacts, nothing they depend on, no version conflict resolution."""

    def module(jar: Jar) -> tuple[str, str, str]:
        return (jar.group, jar.artifact, jar.version)

    dependencies = []
    for (group, name, revision), variants in groupby(sorted(jars, key=module), module):
        artifacts = "".join(
            f"<artifact name={quoteattr(name)} type={quoteattr(jar.extension)} ext={quoteattr(jar.extension)}"
            + (f" m:classifier={quoteattr(jar.classifier)}/>" if jar.classifier else "/>")
            for jar in variants
        )
        dependencies.append(
            f"    <dependency org={quoteattr(group)} name={quoteattr(name)} rev={quoteattr(revision)}"
            f' transitive="false" conf="default">{artifacts}</dependency>'
        )
    return "\n".join(
        [
            '<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">',
            '  <info organisation="icequake" module="jars"/>',
            '  <configurations><conf name="default"/></configurations>',
            "  <dependencies>",
            *dependencies,
            '    <conflict manager="all"/>',
            "  </dependencies>",
            "</ivy-module>",
            "",
        ]
    )


def proxy_options(environment: "os._Environ[str] | dict[str, str]") -> list[str]:
    """``https_proxy`` as Java system properties, because Java does not read the variable."""
    options = []
    for scheme in ("http", "https"):
        value = environment.get(f"{scheme}_proxy") or environment.get(f"{scheme.upper()}_PROXY")
        proxy = urllib.parse.urlsplit(value if value and "://" in value else f"//{value or ''}")
        if proxy.hostname:
            options += [f"-D{scheme}.proxyHost={proxy.hostname}", f"-D{scheme}.proxyPort={proxy.port or 80}"]
    excluded = environment.get("no_proxy") or environment.get("NO_PROXY")
    if options and excluded:
        hosts = "|".join(f"*{host}" if host.startswith(".") else host for host in re.split(r"[,\s]+", excluded) if host)
        options.append(f"-Dhttp.nonProxyHosts={hosts}")
    return options


def _blamed(text: str, jars: Sequence[Jar]) -> str:
    """The jars that failed according to Ivy's output; all of them if it names none."""
    failed = set(re.findall(r"(?:::|FAILED\s+\]) ([^\s#]+)#([^;]+);([^\s!:]+)(?::| )", text))
    names = [jar.coordinates for jar in jars if (jar.group, jar.artifact, jar.version) in failed]
    names = names or [jar.coordinates for jar in jars]
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
