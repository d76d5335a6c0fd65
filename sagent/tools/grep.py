"""The Grep tool: a regular expression over the files of a directory."""

import asyncio
import stat
import sys
from typing import TYPE_CHECKING

from sagent.errors import ToolError
from sagent.lib.json import JsonObject, as_int, as_str
from sagent.tool import Effect, RunContext, ToolOutput, Workspace, arguments_schema

if TYPE_CHECKING:
    from pathlib import Path

    from sagent.tools.dialect import Dialect
    from sagent.tools.search import Query, Report

_PLACES = ("$", r"\b", r"\B", r"\>", r"\z", r"\Z")  # parts of a pattern without width
_LIMIT = 100
_MAX_FILES_READ = 5_000  # files that are searched without ripgrep for letters in any form


class Grep:
    """Searches like ripgrep, with the same results whether ripgrep is installed or not."""

    name = "Grep"
    quick = True
    description = (
        "Search file contents with a regular expression (ripgrep syntax; literal braces need no escape; look-around "
        "works), sorted by path. Files that git ignores and binary files are left out."
    )
    parameters = arguments_schema(
        "pattern",
        pattern={"type": "string", "minLength": 1},
        path={"type": "string", "description": "directory or file; default: working directory"},
        glob={"type": "string", "description": '"*.py", "src/**/*.{ts,tsx}", "!*_test.go"'},
        type={"type": "string", "description": "py, js, rust, cpp, ..."},
        output_mode={
            "type": "string",
            "enum": ["content", "files_with_matches", "count"],
            "description": "default: content, as path:line:text",
        },
        context={"type": "integer", "minimum": 0, "description": "lines around each match"},
        ignore_case={"type": "boolean"},
        multiline={"type": "boolean", "description": "matches may span lines, . matches line breaks"},
        limit={"type": "integer", "minimum": 1, "description": "matches or files; default 100"},
        offset={"type": "integer", "minimum": 0, "description": "how many to skip"},
    )

    def effect(self, arguments: JsonObject, workspace: Workspace) -> Effect:
        from sagent.tools.paths import foreseen

        return foreseen("read", workspace.resolve(as_str(arguments.get("path")) or "."), workspace, hides=True)

    async def __call__(self, arguments: JsonObject, run: RunContext) -> ToolOutput:
        """Search. Raises ToolError for an invalid pattern, or a place that does not exist."""
        from sagent.tools.paths import judged_path, made_by_commands

        report = await self._search(as_str(arguments["pattern"]), arguments, run)
        root = run.workspace.resolve(as_str(arguments.get("path")) or ".")
        notes = made_by_commands(judged_path(root, run), run.workspace)
        return ToolOutput.of("\n".join([report.text, *notes]), summary=report.summary)

    async def _search(self, pattern: str, arguments: JsonObject, run: RunContext) -> "Report":
        from sagent.tools.dialect import PatternError, translate

        try:
            dialect = translate(pattern, multiline=arguments.get("multiline") is True)
        except PatternError as error:
            raise ToolError(f"The pattern {pattern!r} is not a valid regular expression: {error}.") from None
        query = await _query(pattern, arguments, dialect, run)
        if dialect.steady or query.files == [] or not sys.executable:
            from sagent.lib.pace import offload
            from sagent.tools.search import search

            return await offload(lambda stop: search(query, stop.is_set))
        return await _search_in_process(query)


def _forms(pattern: str, *, multiline: bool) -> "list[Dialect]":
    """Return a pattern with its letters composed, and decomposed; nothing for ASCII."""
    if pattern.isascii():
        return []
    from unicodedata import normalize

    from sagent.tools.dialect import PatternError, translate

    try:
        return [translate(normalize(form, pattern), multiline=multiline) for form in ("NFC", "NFD")]
    except PatternError:  # `[é-z]` may run backwards then
        return []


async def _query(pattern: str, arguments: JsonObject, dialect: "Dialect", run: RunContext) -> "Query":
    from sagent.lib.regular import stat_real
    from sagent.tools.filetypes import globs_of
    from sagent.tools.listing import files_matching, list_files, list_ignored
    from sagent.tools.paths import as_tool_errors, hidden_filter, judged_path, prefix, quoted_name
    from sagent.tools.search import Query, name_filter

    path = run.workspace.resolve(as_str(arguments.get("path")) or ".")
    real = judged_path(path, run)
    with as_tool_errors(path, run.workspace):
        mode = stat_real(real).st_mode
    single = stat.S_ISREG(mode)
    if not single and not stat.S_ISDIR(mode):
        raise ToolError(f"{quoted_name(path)} is neither a file nor a directory.")
    kind = as_str(arguments.get("type"))
    names = globs_of(kind) if kind else []
    glob = as_str(arguments.get("glob"))
    multiline, ignore_case = arguments.get("multiline") is True, arguments.get("ignore_case") is True
    is_wanted = name_filter(glob, names)
    files, hidden, cut, empty = [path.name], 0, False, not is_wanted(path.name)
    closed, ignored = list[str](), list[str]()
    forms = _forms(pattern, multiline=multiline)
    if not single:
        listing = await list_files(str(real))
        files, cut = listing.files, listing.cut
        # ripgrep 13 does not see a match of no characters at the end of a file without a last line break
        if dialect.rust is not None and not (multiline and any(mark in pattern for mark in _PLACES)):
            options = ["--multiline", "--multiline-dotall"] if multiline else []
            options.append("--ignore-case" if ignore_case else "--case-sensitive")
            plain = glob.isascii() and not set(glob) & set("!/,\\ [{")
            likely = names or ([glob] if glob and plain else [])
            if not (forms and len(files) <= _MAX_FILES_READ):  # ripgrep needs both forms of such a letter
                rust = [form.rust or "" for form in (dialect, *forms)]
                files = await files_matching(rust, options, likely, str(real), listing)
        is_hidden = hidden_filter("Grep", path, real, run.workspace)

        def choose() -> tuple[list[str], int, bool]:
            # they are counted whatever they contain: the count must not reveal matches
            asked = list(filter(is_wanted, listing.files))
            return [file for file in files if not is_hidden(file)], sum(map(is_hidden, asked)), not asked

        files, hidden, empty = await asyncio.to_thread(choose)
        if empty:
            others = await list_ignored(str(real), listing)
            ignored = sorted(
                file for file in others if is_wanted(file) and not is_hidden(file) and _is_below(real, file)
            )
        closed = [directory for directory in listing.closed if not is_hidden(directory) and _is_below(real, directory)]
    return Query(
        root=str(real),
        label=prefix(path.parent if single else path, run.workspace),
        files=files,
        glob=glob,
        name_globs=names,
        is_file=single,
        pattern=dialect.python,
        strict_pattern=dialect.strict,
        composed_pattern=forms[0].python if forms else "",
        text_first=dialect.rust is not None,
        ignore_case=ignore_case,
        multiline=multiline,
        mode=as_str(arguments.get("output_mode"), "content"),
        context=min(50, as_int(arguments.get("context"))),
        limit=min(1000, as_int(arguments.get("limit"), _LIMIT)),
        offset=as_int(arguments.get("offset")),
        hidden_count=hidden,
        incomplete=cut,
        no_candidates=empty and bool(glob or names),
        ignored_files=ignored,
        unreadable=closed,
    )


def _is_below(real: "Path", relative: str) -> bool:
    """Return True if a name is below the judged directory, and not below a directory that was replaced by a link during
    the listing."""
    from sagent.lib.regular import stat_real
    from sagent.lib.text import is_limit

    try:
        stat_real(real / relative)
    except OSError as error:
        if is_limit(error):
            raise
        return False
    return True


async def _search_in_process(query: "Query") -> "Report":
    """Search in a separate process: endless backtracking can be killed there, and does not block the agent."""
    import json

    from sagent.lib import isolated
    from sagent.tools.search import MAX_PROCESS_SECONDS, Report

    argv = isolated.command("sagent.tools.search", "serve")
    pipe, nothing = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
    process = await asyncio.create_subprocess_exec(*argv, stdin=pipe, stdout=pipe, stderr=nothing)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        async with asyncio.timeout(MAX_PROCESS_SECONDS):
            process.stdin.write(json.dumps(query).encode() + b"\n")
            output = await process.stdout.read()
            process.stdin.close()  # only now, because closing ends it
            await process.wait()
    except TimeoutError:
        raise ToolError(
            f"The search took more than {MAX_PROCESS_SECONDS} s and was stopped. Repeat less within repeats in the "
            "pattern, or search fewer files with path, glob or type."
        ) from None
    finally:
        process.stdin.close()
        if process.returncode is None:
            process.kill()
            await process.communicate()
    if process.returncode:
        raise ToolError(f"The search failed: its process ended with {process.returncode}. Try a simpler pattern.")
    return Report(*json.loads(output))
