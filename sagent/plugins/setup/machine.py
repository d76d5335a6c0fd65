"""Checks of files that hold keys, plugins, extras and the network; and the next step after all checks."""

import asyncio
import os
import shlex
import stat
from collections.abc import Iterator, Sequence
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from sagent.lib.raised import reason
from sagent.plugin import Finding, SecretFolder

if TYPE_CHECKING:
    from sagent.config import Settings

MAX_PROXY_SECONDS = 5.0
_CERTIFICATES = ("SSL_CERT_FILE", "SSL_CERT_DIR")
_LATER = ("terminal", "encoding", "login")
"""Findings that are no next step if they are only poor: a pipe has no terminal."""


def check_exposed(settings: "Settings", _: str) -> Iterator[Finding]:
    """Yield the files and folders with keys or tokens that other users of this machine may read."""
    from sagent.config.files import find_file, read_file

    exposed = list[str]()
    file = read_file(find_file(settings.config_dir)[0])
    if file is not None and (warning := file.exposed_key()):
        exposed.append(warning)
    for folder in settings.plugins.every(SecretFolder):
        for path in sorted((settings.state_dir / folder.name).glob("**/*")):
            with suppress(OSError):
                mode = path.lstat().st_mode
                if stat.S_ISREG(mode) and mode & 0o077 and not _is_closed(path.parent, settings.state_dir):
                    exposed.append(f"{path}: others may read it (its mode is {stat.S_IMODE(mode):04o}). Run: "
                                   f"chmod 600 {shlex.quote(str(path))}")  # fmt: skip
    yield from (Finding("bad", "stored keys", text) for text in exposed)
    if not exposed:
        yield Finding("good", "stored keys", "no file with a key is open to others")


def _is_closed(folder: Path, top: Path) -> bool:
    """Return True if others cannot enter a folder, or one above it up to `top`."""
    folders = (folder, *(each for each in folder.parents if each.is_relative_to(top)))
    return any(not each.stat().st_mode & stat.S_IXOTH | each.stat().st_mode & stat.S_IXGRP for each in folders)


def check_extras(_: "Settings", __: str) -> Iterator[Finding]:
    """Yield the extras whose packages are here, and how to add another."""
    from sagent.lib.installed import NAME, install_command

    try:
        requires = metadata.requires(NAME) or []
        extras = metadata.metadata(NAME).get_all("Provides-Extra") or []
    except metadata.PackageNotFoundError:
        yield Finding("poor", "extras", "unknown: this sagent runs from its sources, and no installation names them")
        return
    missing = [extra for extra in extras if extra != "dev" and not all(map(_is_there, _needs(requires, extra)))]
    here = [extra for extra in extras if extra != "dev" and extra not in missing]
    without = f"; without {', '.join(missing)} (to add one: {install_command('NAME', 'NAME')})" if missing else ""
    yield Finding("good", "extras", (", ".join(here) or "none") + without)


def _needs(requires: Sequence[str], extra: str) -> Iterator[str]:
    """Yield the names of the packages of an extra."""
    for each in requires:
        package, _, marker = each.partition(";")
        if f"'{extra}'" in marker.replace('"', "'"):
            yield package.split("[")[0].split(">")[0].split("=")[0].split("<")[0].split("~")[0].split("!")[0].strip()


def _is_there(package: str) -> bool:
    try:
        metadata.distribution(package)
    except metadata.PackageNotFoundError:
        return False
    return True


def check_plugins(settings: "Settings", _: str) -> Iterator[Finding]:
    """Yield the plugins that are left out and why, and the others that are not sagent's own."""
    for notice in settings.plugins.notices:
        yield Finding("bad", "plugin", notice)
    theirs = [
        each.plugin.name
        for each in settings.plugins.known
        if not each.error and each.source.origin not in ("sagent", "the core")
    ]
    yield Finding("good", "plugins", ", ".join(theirs) or "only sagent's own")


async def check_network(_: "Settings", __: str) -> Sequence[Finding]:
    """Return whether the proxies of the environment answer, and whether the files of certificates are there."""
    from sagent.providers.wire.faults import ExchangeFailed
    from sagent.providers.wire.proxies import proxy_named

    findings, proxies = list[Finding](), dict[str, str]()
    for scheme in ("https", "http"):
        try:
            address, variable = proxy_named(urlsplit(f"{scheme}://model.invalid"))
        except ExchangeFailed as error:
            findings.append(Finding("bad", "proxy", str(error)))
        else:
            proxies |= {variable: address} if address else {}
    findings += [await _proxy(variable, address) for variable, address in proxies.items()]
    for name in _CERTIFICATES:
        if path := os.environ.get(name, ""):
            there = Path(path).is_file() if name == "SSL_CERT_FILE" else Path(path).is_dir()
            missing = "" if there else ", which is not there"
            findings.append(Finding("good" if there else "bad", "certificates", f"{name} is {path}{missing}"))
    return findings or [Finding("good", "network", "no proxy and no certificates of yours are set")]


async def _proxy(variable: str, address: str) -> Finding:
    """Return whether a proxy accepts a connection. Its password is not shown."""
    parts = urlsplit(address)
    host, port = parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
    try:
        async with asyncio.timeout(MAX_PROXY_SECONDS):
            _, writer = await asyncio.open_connection(host, port)
            writer.close()
    except TimeoutError:
        return Finding("bad", "proxy", f"{variable} names {host}:{port}, which does not answer")
    except (OSError, UnicodeError) as error:
        return Finding("bad", "proxy", f"{variable} names {host}:{port}, which cannot be reached: {reason(error)}")
    return Finding("good", "proxy", f"{variable}: {host}:{port} answers")


def next_step(findings: Sequence[Finding], login: str) -> str:
    """Return the one thing to do next: about the first finding that does not work, else the first that could be
    better."""
    poor = (each for each in findings if each.state == "poor" and each.what not in _LATER)
    wrong = next((each for each in findings if each.state == "bad"), None) or next(poor, None)
    if wrong is None:
        return 'All of it works. Try: sagent "what does this project do?"'
    if wrong.what == "keys":
        return f"Next: {login}, which keeps and tests a key. Without one, `sagent demo` shows sagent at work."
    return f"Next: {wrong.what}: {wrong.detail}"
