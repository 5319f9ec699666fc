"""What git knows: which revisions a ref has, which refs are releases, which ref has a revision that is missing."""

import os
import re
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from schema.errors import SchemaError, UsageError
from schema.lineage.graph import Graph
from schema.lineage.layout import Layout
from schema.lineage.source import Revision, UnreadableError, parse


class GitError(SchemaError):
    """git is missing, or refused."""


@dataclass(frozen=True)
class Snapshot:
    """The history as one ref has it."""

    ref: str
    graph: Graph
    contents: dict[str, bytes] = field(repr=False)
    """Bytes of each revision's file, by revision id."""


@dataclass(frozen=True)
class Repository:
    """The git repository around a project."""

    root: Path
    layout: Layout

    @classmethod
    def around(cls, layout: Layout) -> "Repository | None":
        """The repository that holds the project's versions folder; None outside of git, or without git."""
        try:
            inside = next((folder for folder in layout.version_locations if folder.is_dir()), layout.script_location)
            answer = _git(inside, "rev-parse", "--show-toplevel")
        except GitError:
            return None
        repository = cls(Path(os.fsdecode(answer).rstrip("\n")), layout)
        return repository if repository.locations else None

    @cached_property
    def locations(self) -> list[str]:
        """The version folders as git names them; those outside of the repository are left out."""
        root = Path(os.path.realpath(self.root))
        folders = [Path(os.path.realpath(folder)) for folder in self.layout.version_locations]
        return [folder.relative_to(root).as_posix() for folder in folders if folder.is_relative_to(root)]

    def tags(self) -> list[str]:
        """Every tag, oldest first."""
        kinds = "%(objecttype) %(*objecttype)"
        lines = self._lines("for-each-ref", "--sort=creatordate", f"--format={kinds} %(refname:short)", "refs/tags")
        # A tag may name a blob or a tree, which is no release.
        return [line.rpartition(" ")[2] for line in lines if "commit" in line.split(" ")[:2]]

    def branches(self) -> list[str]:
        """Every local and remote branch."""
        names = self._lines("for-each-ref", "--format=%(refname:short)", "refs/heads", "refs/remotes")
        return [name for name in names if not name.endswith("/HEAD")]

    def commits(self) -> list[str]:
        """Commits of the current branch's own line that touched the revision files, newest first.

        What a merged branch was like before its merge is left out: databases come from the line it was merged into.
        """
        try:
            head = self.commit("HEAD")
        except UsageError:
            return []
        return self._lines("log", "--first-parent", "--format=%h", head, "--", *self.locations)

    def commits_since(self, born: Iterable[Path], touching: Iterable[Path]) -> list[str]:
        """Commits of the current branch's own line that changed a file of `touching` after those of `born` were there.

        Newest first; the one that brought the last of `born` comes at the end. Nothing when `born` is not committed.
        """
        line = ("log", "--first-parent", "--format=%h")
        starts = [self._lines(*line, "HEAD", "--", str(path))[-1:] for path in born]
        first = {commit for found in starts for commit in found}
        if not first or [] in starts:
            return []
        start = self._lines("rev-list", "--abbrev-commit", "--topo-order", "--no-walk=sorted", *first)[0]
        return [*self._lines(*line, f"{start}..HEAD", "--", *map(str, touching)), start]

    def default_branch(self) -> str | None:
        """The branch that others merge into: the remote's HEAD, or a main or master."""
        known = set(self.branches())
        remote = self._lines("for-each-ref", "--format=%(symref:short)", "refs/remotes/*/HEAD")
        return next(
            (name for name in (*remote, "origin/main", "origin/master", "main", "master") if name in known), None
        )

    def snapshot(self, ref: str) -> Snapshot:
        """The history at a ref.

        Raises:
            UsageError: there is no such ref.
        """
        commit = self.commit(ref)
        listing = _git(self.root, "ls-tree", "-r", "-z", "--full-tree", commit, "--", *self.locations)
        entries = []
        for record in listing.split(b"\0"):
            head, _, name = record.partition(b"\t")
            path = os.fsdecode(name)
            if head and head.split()[1] == b"blob" and self._is_revision(path):
                entries.append((path, head.split()[2].decode()))
        self._read_blobs(sha for _, sha in entries)
        graph = Graph(
            tuple(read for entry in entries if isinstance(read := self._parsed(*entry), Revision)),
            tuple(read for entry in entries if isinstance(read := self._parsed(*entry), UnreadableError)),
        )
        contents = {self.root / path: self._blobs[sha] for path, sha in entries}
        return Snapshot(ref, graph, {revision.id: contents[revision.path] for revision in graph.files})

    @cached_property
    def _blobs(self) -> dict[str, bytes]:
        """Contents read so far; most files are the same in every release."""
        return {}

    @cached_property
    def _revisions(self) -> dict[tuple[str, str], Revision | UnreadableError]:
        return {}

    def _parsed(self, path: str, sha: str) -> Revision | UnreadableError:
        if (path, sha) not in self._revisions:
            try:
                self._revisions[path, sha] = parse(self._blobs[sha], self.root / path)
            except UnreadableError as error:
                self._revisions[path, sha] = error
        return self._revisions[path, sha]

    def commit(self, ref: str) -> str:
        """The commit that a ref names.

        Raises:
            UsageError: there is none.
        """
        try:
            return self._lines("rev-parse", "--verify", "--quiet", "--end-of-options", f"{ref}^{{commit}}")[0]
        except GitError as error:
            raise UsageError(
                f"git knows no ref {ref}", hint="`git fetch --tags` brings the tags that a shallow clone lacks."
            ) from error

    def ref_with(self, revision: str) -> str | None:
        """A branch, a tag or else a commit that has a file with this revision id; None when nothing has."""
        refs = [*self.branches(), *self.tags()]
        # Not all at once: a command line has a length.
        for start in range(0, len(refs), 200):
            if found := self._refs_with(refs[start : start + 200], revision):
                return min(found, key=refs.index)
        changed = self._lines("log", "--all", "--format=%h", "-S", revision, "--", *self.locations) if refs else []
        return next((f"commit {commit}" for commit in changed if self._refs_with([commit], revision)), None)

    def _refs_with(self, refs: Sequence[str], revision: str) -> list[str]:
        try:
            output = _git(self.root, "grep", "-z", "-l", "-F", "-e", revision, *refs, "--", *self.locations)
        except GitError:
            # `git grep` ends 1 when nothing matches.
            return []
        found = []
        for record in output.split(b"\0"):
            ref, _, path = os.fsdecode(record).partition(":")
            if path and ref not in found and self._is_revision(path):
                try:
                    if parse(_git(self.root, "show", f"{ref}:{path}"), Path(path)).id == revision:
                        found.append(ref)
                except UnreadableError:
                    continue
        return found

    def _is_revision(self, path: str) -> bool:
        return any(
            self.layout.covers(path, "" if location == "." else location)
            for location in self.locations
            if location == "." or path.startswith(f"{location}/")
        )

    def _lines(self, *arguments: str) -> list[str]:
        return os.fsdecode(_git(self.root, *arguments)).splitlines()

    def _read_blobs(self, shas: Iterable[str]) -> None:
        wanted = sorted(set(shas) - self._blobs.keys())
        if not wanted:
            return
        output = _git(self.root, "cat-file", "--batch", input_=("\n".join(wanted) + "\n").encode())
        position = 0
        for sha in wanted:
            end = output.index(b"\n", position)
            words = output[position:end].split()
            if words[-1] == b"missing":
                raise GitError(f"git lacks object {sha}", hint="Fetch it: this may be a partial clone.")
            size = int(words[2])
            self._blobs[sha] = output[end + 1 : end + 1 + size]
            position = end + size + 2


def released(repository: Repository | None, refs: Sequence[str]) -> list[Snapshot]:
    """The released histories: the given refs, or else every tag, oldest first.

    Raises:
        UsageError: a ref is given, and there is no repository or no such ref in it.
    """
    if repository is None and not refs:
        return []
    repository = required(repository)
    return [repository.snapshot(ref) for ref in (refs or repository.tags())]


def required(repository: Repository | None) -> Repository:
    """The repository, for a question that only git can answer.

    Raises:
        UsageError: there is none.
    """
    if repository is None:
        raise UsageError("the project is in no git repository, or git is not installed")
    return repository


def _git(folder: Path, *arguments: str, input_: bytes | None = None) -> bytes:
    # git sets GIT_DIR for hooks; with -C it would be read relative to the wrong folder.
    environment = {
        name: value for name, value in os.environ.items() if not re.match(r"GIT_(DIR|WORK_TREE|INDEX)", name)
    }
    try:
        answer = subprocess.run(
            ["git", "-c", "core.quotePath=false", "-C", str(folder), *arguments],
            input=input_,
            capture_output=True,
            check=False,
            env={**environment, "GIT_OPTIONAL_LOCKS": "0", "GIT_LITERAL_PATHSPECS": "1", "LC_ALL": "C"},
        )
    except FileNotFoundError as error:
        raise GitError("git is not installed") from error
    if answer.returncode != 0:
        message = answer.stderr.decode(errors="replace").strip() or f"git {arguments[0]} failed"
        raise GitError(f"git {arguments[0]} in {folder}: {message}")
    return answer.stdout
