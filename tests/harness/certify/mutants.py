"""Catalogs that break one requirement each: a server's real mistakes, or those that would hide one."""

from __future__ import annotations

import copy
import threading
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable
from typing import TypeVar

from harness.certify.kit import CLIENTS
from harness.certify.requirements import requirements
from tests.support.restcatalog import Catalog, Halt, Json, Refused, Reply, conflict, key_of

Key = tuple[str, str]
M = TypeVar("M", bound=type[Catalog])

MUTANTS: dict[str, tuple[tuple[str, ...], type[Catalog]]] = {}
"""Name → what it breaks, and the catalog. The first requirement of a group is meant; those of the group behind it may break by that."""


def breaks(*requirements: str) -> Callable[[M], M]:
    """Register a mutant."""

    def register(mutant: M) -> M:
        MUTANTS[mutant.__name__] = (requirements, mutant)
        return mutant

    return register


def asserts(body: Json, kind: str) -> bool:
    return any(r["type"] == kind for r in body["requirements"])


def firsts(body: Json) -> bool:
    return any(r.get("snapshot-id", 0) is None for r in body["requirements"])


def appends(body: Json) -> bool:
    return any(u["action"] == "add-snapshot" for u in body["updates"])


# --- one winner and nothing lost --------------------------------------------------------------------------------------


class Merging(Catalog):
    """It checks, lets others in, and applies to what is there then: rivals on one base are all made."""

    def merges(self, body: Json) -> bool:
        return True

    def commit(self, key: Key, body: Json) -> Reply:
        self.changed(key, body)
        if self.merges(body) and self.gap():
            now = copy.deepcopy(self.table(key))
            for update in body["updates"]:
                if update["action"] == "add-snapshot":
                    update["snapshot"]["sequence-number"] = now["last-sequence-number"] + 1
                self.update(now, update)
            self.put(key, now)
            return self.result(key)
        return super().commit(key, body)


@breaks("one-winner-per-base", "acknowledged-is-kept", "two-instances")
class MakesAllRivals(Merging):
    """Main is built on the last of them, so the others are acknowledged and not kept."""

    def merges(self, body: Json) -> bool:
        return appends(body) and not firsts(body)


@breaks("acknowledged-is-kept", "one-winner-per-base")
class AcknowledgesAndForgets(Catalog):
    """Each seventh append of a table is answered and not kept."""

    def commit(self, key: Key, body: Json) -> Reply:
        before = copy.deepcopy(self.tables.get(key)), self.where.get(key)
        reply = super().commit(key, body)
        if appends(body) and len(self.tables[key]["snapshots"]) % 7 == 0:
            self.tables[key], self.where[key] = before  # type: ignore[assignment]
        return reply


@breaks("refused-is-not-applied")
class AppliesWhatItRefuses(Catalog):
    """Of an append whose base is gone the snapshot stays in the table."""

    def changed(self, key: Key, body: Json) -> Json:
        try:
            return super().changed(key, body)
        except Refused:
            if appends(body) and self.gap():
                self.tables[key]["snapshots"].append(body["updates"][0]["snapshot"])
            raise


@breaks("no-requirement-no-loss", "drop-ends-commits", "rename-keeps-commits")
class LastWriterWins(Catalog):
    """A commit without requirements replaces what came since it began: other commits, and a DROP or a rename, too."""

    def commit(self, key: Key, body: Json) -> Reply:
        metadata = self.changed(key, body)
        if not body["requirements"]:
            self.gap()
        self.put(key, metadata)
        return self.result(key)


@breaks("fresh-after-409", "two-instances")
class StaleAfterConflict(Catalog):
    """After a conflict on a young table a cache answers the next load."""

    def __init__(self) -> None:
        super().__init__()
        self.old: dict[Key, Reply] = {}
        self.stale: set[Key] = set()

    def commit(self, key: Key, body: Json) -> Reply:
        before = self.result(key) if key in self.tables else None
        try:
            reply = super().commit(key, body)
        except Refused:
            if key in self.old and len(self.tables[key]["snapshots"]) <= 3:
                self.stale.add(key)
            raise
        if before is not None:
            self.old[key] = before
        return reply

    def load(self, key: Key, headers: dict[str, str]) -> Reply:
        if key in self.stale:
            self.stale.remove(key)
            return self.old[key]
        return super().load(key, headers)


@breaks("checked-at-the-swap")
class ChecksBeforeTheSwap(Catalog):
    """It makes the new metadata of what it has checked, and replaces whatever is there by then."""

    def checked(self, key: Key, body: Json, metadata: Json) -> Json:
        return metadata


@breaks("checked-at-the-swap")
class ComparesSnapshotsAtTheSwap(Catalog):
    """Of what changed meanwhile it looks at the branches alone."""

    def checked(self, key: Key, body: Json, metadata: Json) -> Json:
        asked = [r for r in body["requirements"] if r["type"] == "assert-ref-snapshot-id"]
        return self.changed(key, {**body, "requirements": asked})


@breaks("loser-deletes-its-own")
class LosersTakeTheFile(Catalog):
    """Its clean-up of a refused append removes the file of the version that won."""

    def commit(self, key: Key, body: Json) -> Reply:
        try:
            return super().commit(key, body)
        except Refused:
            if appends(body):
                self.files.pop(self.where.get(key, ""), None)
            raise


@breaks("two-instances")
class KeepsTablesInMemory(Catalog):
    """Each server has read the tables when it started, and answers from its memory."""

    def twin(self) -> Catalog:
        other = copy.copy(self)
        other.tables, other.where = copy.deepcopy(self.tables), dict(self.where)
        return other


@breaks("two-instances")
class ReadsAtItsStart(Catalog):
    """Another server takes commits, and shows what was there when it started."""

    def twin(self) -> Catalog:
        other = copy.copy(self)
        old = copy.deepcopy(self.tables)
        other.load = lambda key, headers: Reply(200, {"metadata": old[key]})  # type: ignore[method-assign]
        return other


# --- statuses ---------------------------------------------------------------------------------------------------------


class OtherStatus(Catalog, ABC):
    """Answers an error by another status."""

    status = 500
    type = "InternalServerError"

    @abstractmethod
    def strikes(self, e: Refused) -> bool:
        """What the mutant does instead."""

    def error(self, e: Refused) -> Reply:
        return super().error(Refused(self.status, self.type, str(e)) if self.strikes(e) else e)


@breaks("conflict-is-409")
class ConflictIs400(OtherStatus):
    status = 400

    def strikes(self, e: Refused) -> bool:
        return "assert-current-schema-id" in str(e)


@breaks("conflict-is-409")
class ConflictIs500(OtherStatus):
    def strikes(self, e: Refused) -> bool:
        return "assert-create" in str(e)


@breaks("raced-conflict-is-409")
class RacedConflictIs500(OtherStatus):
    def strikes(self, e: Refused) -> bool:
        return e.status == 409 and "assert-ref" in str(e) and self.gap()


@breaks("raced-conflict-is-409")
class RacedConflictIs503(RacedConflictIs500):
    status = 503


@breaks("stale-sequence-is-409")
class StaleSequenceIs400(OtherStatus):
    status = 400

    def strikes(self, e: Refused) -> bool:
        return "sequence number" in str(e)


@breaks("stale-sequence-is-409")
class TakesStaleSequences(Catalog):
    def add_snapshot(self, m: Json, snapshot: Json) -> None:
        m["snapshots"] = [*m["snapshots"], snapshot]
        m["last-sequence-number"] = max(m["last-sequence-number"], snapshot["sequence-number"])


@breaks("bad-is-400-and-void")
class IgnoresUnknownUpdates(Catalog):
    def update(self, m: Json, u: Json) -> None:
        if u["action"] != "make-coffee":
            super().update(m, u)


@breaks("bad-is-400-and-void")
class IgnoresUnknownRequirements(Catalog):
    def require(self, m: Json, r: Json, exists: bool) -> None:
        if r["type"] != "assert-weather":
            super().require(m, r, exists)


@breaks("bad-is-400-and-void")
class MalformedIs500(OtherStatus):
    def strikes(self, e: Refused) -> bool:
        return "no JSON" in str(e)


@breaks("missing-is-404")
class MissingIs500(OtherStatus):
    def strikes(self, e: Refused) -> bool:
        return e.kind == "NoSuchNamespaceException"


@breaks("missing-is-404")
class MissingHasNoType(OtherStatus):
    status, type = 404, "NotFoundException"

    def strikes(self, e: Refused) -> bool:
        return e.kind == "NoSuchTableException"


@breaks("missing-is-404")
class ListsWhatIsMissing(Catalog):
    """The tables of a namespace that is not there: none."""

    def listed(self, space: str, kept: dict[Key, Json], query: dict[str, str]) -> Reply:
        return super().listed(space, kept, query) if space in self.namespaces else Reply(200, {"identifiers": []})


@breaks("error-body")
class ConflictSaysNothing(Catalog):
    def error(self, e: Refused) -> Reply:
        return Reply(409) if e.status == 409 else super().error(e)


@breaks("error-body")
class ErrorIn200(Catalog):
    def error(self, e: Refused) -> Reply:
        found = super().error(e)
        return Reply(200, found.body) if e.kind == "NamespaceNotEmptyException" else found


@breaks("declared-is-served")
class DeclaresMore(Catalog):
    def config(self) -> Json:
        found = super().config()
        return {
            **found,
            "endpoints": [*found["endpoints"], "POST /v1/{prefix}/views/rename"],
        }


class UnknownIs(Catalog):
    """Answers otherwise where it cannot know what came of a commit."""

    reply = Reply(409, {"error": {"message": "", "type": "CommitFailedException", "code": 409}})

    def unknown(self, key: Key) -> Reply:
        return self.reply


@breaks("unknown-is-5xx")
class UnknownIs409(UnknownIs):
    pass


@breaks("unknown-is-5xx", "retryable-not-applied")
class UnknownIs503(UnknownIs):
    """A client waits and sends the same request again, as if nothing had been done."""

    reply = Reply(503, None, {"Retry-After": "1"})


@breaks("unknown-is-5xx")
class UnknownIsPlain503(UnknownIs):
    reply = Reply(503)


@breaks("unknown-deletes-nothing")
class UnknownDeletes(Catalog):
    """Whatever error the database's commit ends with, its clean-up removes the metadata file."""

    def unknown(self, key: Key) -> Reply:
        del self.files[self.where[key]]
        return super().unknown(key)


@breaks("retryable-not-applied")
class BusyAfterwards(Catalog):
    """It makes a commit, and then finds that it is too busy to answer."""

    def commit(self, key: Key, body: Json) -> Reply:
        reply = super().commit(key, body)
        return Reply(503, None, {"Retry-After": "1"}) if not body["requirements"] and self.gap() else reply


@breaks("retryable-not-applied", "unknown-is-5xx")
class UnknownIs429(UnknownIs):
    reply = Reply(429)


@breaks("auth-before-apply")
class DeniesAfterwards(Catalog):
    def denied(self, method: str, path: str, query: dict[str, str], headers: dict[str, str], data: bytes) -> Reply:
        self.answered(method, path, query, headers, data)
        return super().denied(method, path, query, headers, data)


@breaks("auth-before-apply")
class KnowsNobody(Catalog):
    def denied(self, method: str, path: str, query: dict[str, str], headers: dict[str, str], data: bytes) -> Reply:
        raise Refused(403, "ForbiddenException", "the token is not valid")


# --- requirements -----------------------------------------------------------------------------------------------------


@breaks("each-assert")
class IgnoresSortOrders(Catalog):
    def require(self, m: Json, r: Json, exists: bool) -> None:
        if r["type"] != "assert-default-sort-order-id":
            super().require(m, r, exists)


@breaks("each-assert")
class RefusesTrueSpecs(Catalog):
    def require(self, m: Json, r: Json, exists: bool) -> None:
        if r["type"] == "assert-default-spec-id":
            raise conflict("the spec is never right")
        super().require(m, r, exists)


@breaks("null-ref")
class NullMeansAny(Catalog):
    """A null snapshot of a branch or tag that is there is not looked at."""

    def require(self, m: Json, r: Json, exists: bool) -> None:
        if r["type"] != "assert-ref-snapshot-id" or r["snapshot-id"] is not None or r["ref"] == "main":
            super().require(m, r, exists)


@breaks("first-commit-race")
class FirstCommitsMerge(Merging):
    def merges(self, body: Json) -> bool:
        return firsts(body)


@breaks("first-commit-race")
class FirstCommitsReplace(Catalog):
    """Of first commits at one moment one is made, and one that comes later replaces it, as on Nessie 0.99.0."""

    def __init__(self) -> None:
        super().__init__()
        self.came: Counter[Key] = Counter()

    def commit(self, key: Key, body: Json) -> Reply:
        self.came[key] += firsts(body) and appends(body)
        if self.came[key] > CLIENTS:  # as many come at one moment
            body["requirements"] = []
            body["updates"][0]["snapshot"]["sequence-number"] = self.table(key)["last-sequence-number"] + 1
        return super().commit(key, body)


@breaks("uuid-after-recreate")
class KnowsTablesByName(Catalog):
    """The identity of a table that was dropped is also that of the next one of its name."""

    def __init__(self) -> None:
        super().__init__()
        self.former: dict[str, str] = {}
        self.was: dict[Key, str] = {}

    def put(self, key: Key, metadata: Json) -> None:
        if key in self.was:
            self.former[metadata["table-uuid"]] = self.was.pop(key)
        super().put(key, metadata)

    def drop(self, key: Key, purge: bool) -> Reply:
        self.was[key] = self.table(key)["table-uuid"]
        return super().drop(key, purge)

    def require(self, m: Json, r: Json, exists: bool) -> None:
        if r["type"] != "assert-table-uuid" or self.former.get(m["table-uuid"]) != r["uuid"]:
            super().require(m, r, exists)


@breaks("field-id-once")
class AddsColumnsAtOnce(Merging):
    def merges(self, body: Json) -> bool:
        return asserts(body, "assert-last-assigned-field-id")


# --- creation and transactions ----------------------------------------------------------------------------------------


@breaks("create-once")
class CreatesTablesTwice(Catalog):
    def create_table(self, space: str, body: Json) -> Reply:
        key = (space, body["name"])
        self.free(key)
        if not body.get("stage-create"):
            self.gap()
            self.put(key, self.new_table(space, body))
            return self.result(key)
        return super().create_table(space, body)


@breaks("create-once")
class CreatesNamespacesWith500(OtherStatus):
    def strikes(self, e: Refused) -> bool:
        return e.kind == "AlreadyExistsException" and self.gap()


@breaks("staged-once")
class StagedIsVisible(Catalog):
    def create_table(self, space: str, body: Json) -> Reply:
        reply = super().create_table(space, body)
        if body.get("stage-create") and (space, body["name"]) not in self.tables:
            self.put((space, body["name"]), copy.deepcopy(reply.body["metadata"]))  # type: ignore[index]
        return reply


@breaks("staged-once")
class CreatesOver(Catalog):
    """A first commit replaces a table that is there."""

    def changed(self, key: Key, body: Json) -> Json:
        if asserts(body, "assert-create") and any(u["action"] == "assign-uuid" for u in body["updates"]):
            self.tables.pop(key, None)
            self.where.pop(key, None)
        return super().changed(key, body)


@breaks("txn-one-table")
class TransactsIntoNothing(Catalog):
    """A transaction whose table changed meanwhile is acknowledged and not made, as Iceberg's own test server does."""

    def transact(self, changes: list[Json]) -> Reply:
        places = {key_of(c["identifier"]): self.where.get(key_of(c["identifier"])) for c in changes}
        if len(changes) == 1:
            self.changed(key_of(changes[0]["identifier"]), changes[0])
            self.gap()
        if any(self.where.get(k) != p for k, p in places.items()):
            return Reply(204)
        return super().transact(changes)


@breaks("txn-all-or-none")
class TransactsByHalves(Catalog):
    def transact(self, changes: list[Json]) -> Reply:
        if len({key_of(c["identifier"]) for c in changes}) < len(changes):
            return super().transact(changes)
        for change in changes:
            key = key_of(change["identifier"])
            self.put(key, self.changed(key, change))
        return Reply(204)


@breaks("txn-all-or-none")
class SwapsOneAfterTheOther(Catalog):
    """It checks all changes of a transaction, and then checks and makes each: the first stays if a rival has the second table."""

    def transact(self, changes: list[Json]) -> Reply:
        self.transacted(changes)
        if self.halts:
            self.halted(self.halts.pop(0))
            for change in changes:
                self.put(key_of(change["identifier"]), self.changed(key_of(change["identifier"]), change))
            return Reply(204)
        return super().transact(changes)


@breaks("txn-all-or-none")
class SkipsTheTableThatMoved(Catalog):
    """Of a transaction it leaves out what a rival has changed since it looked, and acknowledges it."""

    def transact(self, changes: list[Json]) -> Reply:
        before = self.transacted(changes)
        seen = {key: self.where.get(key) for key in before}
        if self.halts:
            self.halted(self.halts.pop(0))
        for key, metadata in before.items():
            if self.where.get(key) == seen[key]:
                self.put(key, metadata)
        return Reply(204)


@breaks("txn-not-fractured")
class TransactsOneAfterTheOther(Catalog):
    """All tables of a transaction are changed, and others see the first one before the second."""

    def transact(self, changes: list[Json]) -> Reply:
        made = {key_of(c["identifier"]): self.changed(key_of(c["identifier"]), c) for c in changes}
        if len(made) < len(changes):
            return super().transact(changes)
        for key, metadata in made.items():
            self.put(key, metadata)
            self.gap()
        return Reply(204)


@breaks("txn-read-only-member")
class ForgetsReadMembers(Catalog):
    def transact(self, changes: list[Json]) -> Reply:
        return super().transact([c for c in changes if c["updates"]])


@breaks("txn-same-table-twice")
class TransactsTheFirst(Catalog):
    def transact(self, changes: list[Json]) -> Reply:
        return super().transact(list({key_of(c["identifier"]): c for c in reversed(changes)}.values())[::-1])


@breaks("txn-same-table-twice")
class TransactsTheLast(Catalog):
    def transact(self, changes: list[Json]) -> Reply:
        return super().transact(list({key_of(c["identifier"]): c for c in changes}.values()))


# --- sent twice or late or lost ---------------------------------------------------------------------------------------


class Resent(Catalog, ABC):
    """Does something else with an append that it has made already."""

    @abstractmethod
    def again(self, key: Key, made: int) -> Reply | None:
        """What the mutant does instead."""

    def commit(self, key: Key, body: Json) -> Reply:
        if appends(body) and key in self.tables:
            made = body["updates"][0]["snapshot"]["snapshot-id"]
            if any(s["snapshot-id"] == made for s in self.tables[key]["snapshots"]):
                reply = self.again(key, made)
                if reply is not None:
                    return reply
        return super().commit(key, body)


@breaks("duplicate-commit")
class AppliesDuplicates(Resent):
    def again(self, key: Key, made: int) -> Reply | None:
        if self.tables[key]["current-snapshot-id"] != made:
            return None
        now = copy.deepcopy(self.tables[key])
        now["snapshots"].append({**now["snapshots"][-1], "snapshot-id": made + 1})
        self.put(key, now)
        return self.result(key)


@breaks("duplicate-commit")
class DeletesAtDuplicates(Resent):
    """The clean-up of a refused duplicate takes what the first one made."""

    def again(self, key: Key, made: int) -> Reply | None:
        if self.tables[key]["current-snapshot-id"] == made:
            self.tables[key]["snapshots"] = [s for s in self.tables[key]["snapshots"] if s["snapshot-id"] != made]
        return None


@breaks("resend-after-rival")
class SetsBack(Resent):
    def again(self, key: Key, made: int) -> Reply | None:
        if self.tables[key]["current-snapshot-id"] == made:
            return None
        now = copy.deepcopy(self.tables[key])
        self.set_ref(now, "main", "branch", made)
        self.put(key, now)
        return self.result(key)


@breaks("resent-drop")
class DropsAgain(Catalog):
    """A DROP that comes again with its key drops what is there now, and says what it said."""

    def with_key(self, key: str | None, asked: object, act: Callable[[], Reply]) -> Reply:
        if key in self.keys and isinstance(asked, tuple) and asked[0] == "DELETE" and self.keys[key][0] == asked:
            try:
                act()
            except Refused:
                pass
        return super().with_key(key, asked, act)


@breaks("key-replays", "key-in-flight", "key-survives")
class ForgetsKeysOfCommits(Catalog):
    def with_key(self, key: str | None, asked: object, act: Callable[[], Reply]) -> Reply:
        commits = isinstance(asked, tuple) and asked[0] == "POST" and key not in self.keys
        found = super().with_key(key, asked, act)
        if commits and key is not None and found.status == 200 and b"assert-ref" in asked[2]:  # type: ignore[index]
            del self.keys[key]
        return found


@breaks("key-of-another-operation")
class KnowsTheKeyOnly(Catalog):
    def with_key(self, key: str | None, asked: object, act: Callable[[], Reply]) -> Reply:
        return self.keys[key][1] if key in self.keys else super().with_key(key, asked, act)


@breaks("key-forgets-5xx")
class KeepsErrors(Catalog):
    """As Iceberg's CatalogHandlers do: whatever came of it is answered again."""

    def keeps(self, reply: Reply) -> bool:
        return True


@breaks("key-in-flight")
class UnderWayIs409(Catalog):
    def repeated(self, key: str) -> None:
        raise Refused(409, "RequestInProgress", key)


@breaks("key-in-flight")
class UnderWayIsNew(Catalog):
    """A key is known when its request is answered."""

    def repeated(self, key: str) -> None:
        self.under_way.discard(key)


@breaks("key-survives")
class ForgetsKeysAtItsStart(Catalog):
    def start(self) -> None:
        self.keys = {}


@breaks("key-survives")
class KeepsKeysToItself(Catalog):
    def twin(self) -> Catalog:
        other = copy.copy(self)
        other.keys = {}
        return other


@breaks("late-request")
class LoadsWhenARequestBegins(Catalog):
    """It checks and changes the tables as they were when the head of the request came."""

    def __init__(self) -> None:
        super().__init__()
        self.begun: dict[int, dict[Key, Json]] = {}

    def begins(self, method: str) -> None:
        with self.changed_here:
            self.begun[threading.get_ident()] = copy.deepcopy(self.tables)

    def changed(self, key: Key, body: Json) -> Json:
        now, self.tables = self.tables, {**self.tables, **self.begun[threading.get_ident()]}
        try:
            return super().changed(key, body)
        finally:
            self.tables = now


# --- reads ------------------------------------------------------------------------------------------------------------


@breaks("read-your-commit")
class ReadsReplicas(Catalog):
    """While others are served, a load comes from a replica that is one version behind."""

    def __init__(self) -> None:
        super().__init__()
        self.behind: dict[Key, Reply] = {}

    def put(self, key: Key, metadata: Json) -> None:
        if key in self.tables:
            self.behind[key] = self.result(key)
        super().put(key, metadata)

    def load(self, key: Key, headers: dict[str, str]) -> Reply:
        return self.behind[key] if self.gap() and key in self.behind else super().load(key, headers)


@breaks("answer-equals-load")
class AnswersTheOldPlace(Catalog):
    def commit(self, key: Key, body: Json) -> Reply:
        place = self.where.get(key, "none")
        reply = super().commit(key, body)
        reply.body["metadata-location"] = place  # type: ignore[index]
        return reply


@breaks("answer-equals-load")
class RepeatsPlaces(Catalog):
    def put(self, key: Key, metadata: Json) -> None:
        super().put(key, metadata)
        self.where[key] = f"{metadata['location']}/metadata/v{len(metadata['metadata-log']) % 2}.json"


class OtherTag(Catalog, ABC):
    """Its ETags are of something else than of the version."""

    @abstractmethod
    def tag(self, key: Key) -> str:
        """What the mutant does instead."""

    def result(self, key: Key) -> Reply:
        found = super().result(key)
        found.headers["ETag"] = self.tag(key)
        return found


@breaks("etag-fresh")
class TagsTables(OtherTag):
    def tag(self, key: Key) -> str:
        return str(self.tables[key]["table-uuid"])


@breaks("etag-fresh")
class TagsCounts(OtherTag):
    def tag(self, key: Key) -> str:
        return f"{key} {len(self.tables[key]['metadata-log'])}"


@breaks("pages-complete")
class CountsTokens(Catalog):
    """Its tokens are offsets: what is dropped before one moves the next page."""

    def page_of(self, names: list[str], token: str, size: int) -> tuple[list[str], str | None]:
        start = int(token or 0)
        return names[start : start + size], str(start + size) if start + size < len(names) else None


@breaks("pages-complete")
class TurnsPagesForever(Catalog):
    def page_of(self, names: list[str], token: str, size: int) -> tuple[list[str], str | None]:
        found, left = super().page_of(names, token, size)
        return found, left or token


@breaks("pages-complete")
class ListsLastTwice(Catalog):
    def page_of(self, names: list[str], token: str, size: int) -> tuple[list[str], str | None]:
        left = [n for n in names if n >= token]
        return left[:size], left[size - 1] if len(left) > size else None


# --- namespaces and tables and views ----------------------------------------------------------------------------------


@breaks("namespace-drop-or-create")
class DropsUnderTables(Catalog):
    def drop_namespace(self, space: str) -> Reply:
        self.there(space)
        empty = not any(s == space for s, _ in [*self.tables, *self.views])
        self.gap()
        if not empty:
            raise Refused(409, "NamespaceNotEmptyException", space)
        del self.namespaces[space]
        return Reply(204)

    def create_table(self, space: str, body: Json) -> Reply:
        self.free((space, body["name"]))
        self.gap()
        self.put((space, body["name"]), self.new_table(space, body))
        return self.result((space, body["name"]))


@breaks("namespace-props-merge")
class ReplacesProperties(Catalog):
    def update_properties(self, space: str, body: Json) -> Reply:
        before = dict(self.there(space))
        self.gap()
        self.namespaces[space] = {**before, **body.get("updates", {})}
        return Reply(200, {"updated": list(body["updates"]), "removed": [], "missing": []})


@breaks("rename-keeps-commits")
class RenamesAnOldCopy(Catalog):
    def rename(self, old: Key, new: Key) -> Reply:
        copied = copy.deepcopy(self.table(old))
        self.free(new)
        self.gap()
        self.free(new)
        self.tables.pop(old)
        self.where.pop(old)
        self.put(new, copied)
        return Reply(204)


@breaks("rename-keeps-commits")
class RenamesOver(Catalog):
    def free(self, key: Key) -> None:
        if not key[1].startswith("c"):
            super().free(key)


@breaks("register-spares-source")
class RefusedRegistersDelete(Catalog):
    def register(self, space: str, name: str, place: str, overwrite: bool) -> Reply:
        try:
            return super().register(space, name, place, overwrite)
        except Refused:
            if (space, name) in self.tables:
                self.drop((space, name), True)
            raise


@breaks("purge-only-if-asked")
class AlwaysPurges(Catalog):
    def drop(self, key: Key, purge: bool) -> Reply:
        return super().drop(key, True)


@breaks("views-no-loss")
class KeepsTheLastVersion(Catalog):
    def replace_view(self, key: Key, body: Json) -> Reply:
        reply = super().replace_view(key, body)
        self.views[key]["versions"] = self.views[key]["versions"][-1:]
        return reply


@breaks("views-no-loss")
class NamesAreShared(Catalog):
    def create_table(self, space: str, body: Json) -> Reply:
        views, self.views = self.views, {}
        try:
            return super().create_table(space, body)
        finally:
            self.views = views


# --- metadata kept ----------------------------------------------------------------------------------------------------


@breaks("schema-and-data")
class AppendsUndoColumns(Catalog):
    def add_snapshot(self, m: Json, snapshot: Json) -> None:
        super().add_snapshot(m, snapshot)
        m["current-schema-id"] = snapshot["schema-id"]


@breaks("schema-and-data")
class ColumnsUndoAppends(Catalog):
    def update(self, m: Json, u: Json) -> None:
        super().update(m, u)
        if u["action"] == "set-current-schema" and len(m["snapshots"]) > 1:
            m["current-snapshot-id"] = m["snapshots"][0]["snapshot-id"]


@breaks("expiry-spares-refs")
class ExpiryTakesTags(Catalog):
    def remove_snapshots(self, m: Json, ids: list[int]) -> None:
        m["refs"] = {n: r for n, r in m["refs"].items() if n == "main" or r["snapshot-id"] not in ids}
        super().remove_snapshots(m, ids)


@breaks("expiry-spares-refs")
class ExpiryEmpties(Catalog):
    def remove_snapshots(self, m: Json, ids: list[int]) -> None:
        main = m["refs"].get("main", {})
        if main.get("snapshot-id") in ids:
            del m["refs"]["main"]
            m["current-snapshot-id"] = -1
        super().remove_snapshots(m, ids)


@breaks("logs-kept")
class KeepsNoHistory(Catalog):
    def put(self, key: Key, metadata: Json) -> None:
        super().put(key, metadata)
        self.tables[key]["metadata-log"] = []


@breaks("logs-kept")
class LogsTheLastSnapshot(Catalog):
    def set_ref(self, m: Json, ref: str, kind: str, snapshot: int) -> None:
        super().set_ref(m, ref, kind, snapshot)
        m["snapshot-log"] = m["snapshot-log"][-1:]


# --- life of the server -------------------------------------------------------------------------------------------------------------


@breaks("overload")
class TooManyIs500(Catalog):
    def commit(self, key: Key, body: Json) -> Reply:
        if self.gap():
            raise Refused(500, "InternalServerError", "too many")
        return super().commit(key, body)


class LivesInMemory(Catalog, ABC):
    """What it keeps when it is killed is not what it had made."""

    def halted(self, halt: Halt) -> None:
        self.last = next(reversed(self.where))
        super().halted(halt)

    @abstractmethod
    def start(self) -> None:
        """What the mutant starts with."""


@breaks("kill-after-apply")
class ForgetsTheUnanswered(LivesInMemory):
    """It starts with the version before the one that it had not answered yet."""

    def start(self) -> None:
        place = self.tables[self.last]["metadata-log"][-1]["metadata-file"]
        self.where[self.last], self.tables[self.last] = place, copy.deepcopy(self.files[place])


@breaks("kill-after-apply")
class StartsWithoutTheFile(LivesInMemory):
    """The metadata file was not written yet."""

    def start(self) -> None:
        del self.files[self.where[self.last]]


@breaks("kill-after-apply")
class TakesTheResent(Catalog):
    """After a start it takes what it is sent first for what it had not answered."""

    fresh = False

    def start(self) -> None:
        self.fresh = True

    def commit(self, key: Key, body: Json) -> Reply:
        if self.fresh and appends(body):
            self.fresh = False
            body = copy.deepcopy({**body, "requirements": []})
            body["updates"][0]["snapshot"]["sequence-number"] = self.tables[key]["last-sequence-number"] + 1
        return super().commit(key, body)


@breaks("credentials")
class CredentialsForever(Catalog):
    def credentials(self, key: Key) -> Reply:
        return Reply(200, {"storage-credentials": [{"prefix": "s3://reference", "config": {"s3.session-token": "t"}}]})


@breaks("credentials")
class CredentialsForWhatIsGone(Catalog):
    def credentials(self, key: Key) -> Reply:
        config = {"s3.session-token": "t", "s3.session-token-expires-at-ms": "1"}
        return Reply(200, {"storage-credentials": [{"prefix": "s3://reference", "config": config}]})


@breaks("plans")
class PlansTheCurrent(Catalog):
    """Whatever snapshot is asked for, it plans the current one."""

    def plan(self, key: Key, snapshot: int) -> Reply:
        return super().plan(key, self.table(key)["current-snapshot-id"])


@breaks("plans")
class PlansNothing(Catalog):
    """Of a snapshot that is gone the plan is made, and empty."""

    def plan(self, key: Key, snapshot: int) -> Reply:
        try:
            return super().plan(key, snapshot)
        except Refused:
            return self.planned("")

    def planned(self, plan: str) -> Reply:
        return Reply(200, {"status": "completed", "file-scan-tasks": []}) if not plan else super().planned(plan)


@breaks("plans")
class KnowsEveryPlan(Catalog):
    def planned(self, plan: str) -> Reply:
        return Reply(200, {"status": "completed", "file-scan-tasks": []})


def document() -> str:
    """The table of docs/certify.md: ``python -m tests.harness.certify.mutants`` prints it."""
    breakers: dict[str, list[str]] = {}
    for mutant, (broken, _) in sorted(MUTANTS.items()):
        for requirement in broken:
            breakers.setdefault(requirement, []).append(f"`{mutant}`")
    lines = ["| requirement | the catalogs that break it |", "|---|---|"]
    return (
        "\n".join([*lines, *(f"| `{r.id}` | {', '.join(breakers.get(r.id, ['none']))} |" for r in requirements())])
        + "\n"
    )


if __name__ == "__main__":
    print(document(), end="")
