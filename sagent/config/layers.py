"""From files, environment and flags to Settings, strictest reading of each."""

import errno
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from sagent.config.builder import Given, SettingsBuilder
from sagent.config.declared import ALIASES, BY_NAME, RULES
from sagent.config.files import File, read_file
from sagent.config.plugins import Installed
from sagent.config.settings import Settings, Wish
from sagent.context.places import home_of, plugin_folders
from sagent.errors import ConfigError
from sagent.lib.text import nearest
from sagent.plugin import Setting

_OWN_FLAGS = (
    "executor_api_base",
    "advisor_api_base",
    "trust_project",
    "plugin",
    "no_plugins",
)  # for other flags and files


def load(
    flags: Mapping[str, object] | None = None,
    environ: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    *,
    file: str | Path | File | None = None,
) -> Settings:
    """Return the effective settings. `flags` by setting or flag name, as text or as typed values; None is not given.

    `environ` and `cwd` are this process's own by default; `file` replaces the person's. Raises ConfigError with the
    place and the accepted values. Settings that a project's file may not set are left out, with a warning; so are those
    that need the person's trust, which `wish` then lists. The person grants trust when asked, or for one run with the
    flag `trust_project`.
    """
    environ = os.environ if environ is None else environ
    flags = flags or {}
    cwd = _own_directory(flags, environ) if cwd is None else cwd
    granted = _build(flags, environ, cwd, file, trusting=True)
    if not granted.wanted or granted.project is None or flags.get("trust_project"):
        return granted.settings()
    from sagent.config.trust import recall, warning

    without = _build(flags, environ, cwd, file, trusting=False).settings()
    wish = Wish(granted.project, tuple(granted.wanted), granted.settings())
    if _values(without) == _values(wish.granted):  # its wish is fulfilled or overridden anyway
        return without
    match recall(wish, without.state_dir):
        case True:
            return wish.granted
        case False:
            return replace(without, wish=replace(wish, refused=True))
        case None:
            return replace(without, wish=wish, warnings=(*without.warnings, warning(wish)))


def _values(settings: Settings) -> Settings:
    return replace(settings, origins={}, warnings=())


def _build(
    flags: Mapping[str, object],
    environ: Mapping[str, str],
    cwd: Path,
    file: str | Path | File | None,
    *,
    trusting: bool,
) -> SettingsBuilder:
    """Return settings of all layers; `trusting`: including those of a project's file that need the person's trust."""
    builder = SettingsBuilder(environ, cwd, home_of(environ), trusting=trusting)
    builder.choose_file(file)
    builder.find_plugins(builder.files_of(flags.get("plugin")), foreign=not flags.get("no_plugins"))
    user = file if isinstance(file, File) else read_file(builder.user_file)
    if user is None and builder.named_by:
        raise ConfigError(f"{builder.named_by}: no such file: {builder.user_file}.")
    if user is not None:
        _take_file(builder, user, trusted=True)
        with suppress(OSError):
            builder.warnings += filter(None, [user.exposed_key()])
    _take_plugins(builder)
    every = list(builder.every.values())
    variables, given = _environment(environ, every), _by_field(flags, builder.every)
    project_file = builder.project_file((*variables, *given))
    project = read_file(project_file, project_file.parent.parent)
    if project is not None and not (user is not None and user.path.samefile(project.path)):
        builder.project = project.path
        _take_file(builder, project, trusted=False)
    builder.take(variables)
    builder.warnings += _meaningless(environ, every, builder.plugins)
    builder.take(given)
    builder.put_model_aside()
    builder.take_addresses(flags.get("executor_api_base"), flags.get("advisor_api_base"))
    return builder


def _take_file(builder: SettingsBuilder, file: File, *, trusted: bool) -> None:
    from sagent.config.filelayer import FileLayer

    FileLayer(builder, file, trusted=trusted).take()


def _take_plugins(builder: SettingsBuilder) -> None:
    """Add the tables of installed plugins. A plugin with faulty files is left out, with a warning."""
    for folder in plugin_folders(builder.config_dir):
        from sagent.config.filelayer import take_plugin

        try:
            take_plugin(builder, folder)
        except ConfigError as error:
            builder.warnings.append(f"A part of the plugin {folder.name} is not used: {error}")


def _own_directory(flags: Mapping[str, object], environ: Mapping[str, str]) -> Path:
    """Return this process's directory; if it was deleted, or its path is too long to be used, the requested one if that
    is absolute. Raises ConfigError."""
    try:
        (found := Path.cwd()).stat()
    except FileNotFoundError:
        why = "The working directory no longer exists"
    except PermissionError:
        return Path.cwd()
    except OSError as error:
        if error.errno != errno.ENAMETOOLONG:
            raise
        most = os.pathconf("/", "PC_PATH_MAX") - 1
        why = f"The path of the working directory is longer than the {most:,} bytes that the system takes"
    else:
        return found
    from sagent.lib.names import path_of

    named = path_of(str(flags.get("cwd") or environ.get("SAGENT_CWD") or ""))
    if named.is_absolute():
        return named
    raise ConfigError(f"{why}; cd to another, or give --cwd with an absolute path.")


def _by_field(flags: Mapping[str, object], every: Mapping[str, Setting]) -> list[Given]:
    """Return flags in the order of the settings. Raises ConfigError for an unknown one."""
    found: dict[str, Given] = {}
    for name, value in flags.items():
        if name in _OWN_FLAGS:
            continue
        field = every.get(ALIASES.get(name, name)) or next(
            (each for each in every.values() if each.keyword == name), None
        )
        if field is None:
            names = (*every, *(each.keyword for each in every.values()), *ALIASES)
            raise ConfigError(f"--{name.replace('_', '-')}: there is no such setting{nearest(name, names)}")
        if value is not None:
            _take_once(found, (field, value, f"--{name if name in ALIASES else field.flag_name}"))
    return [found[name] for name in every if name in found]


def _variables(every: Sequence[Setting]) -> Mapping[str, Setting]:
    found = {field.variable: field for field in (*every, *RULES.values())}
    return found | {f"SAGENT_{name.upper()}": BY_NAME[meant] for name, meant in ALIASES.items()}


def _environment(environ: Mapping[str, str], every: Sequence[Setting]) -> list[Given]:
    found: dict[str, Given] = {}
    for variable, field in _variables(every).items() if _has_some(environ) else ():
        if environ.get(variable):
            _take_once(found, (field, environ[variable], variable))
    return list(found.values())


def _meaningless(environ: Mapping[str, str], every: Sequence[Setting], plugins: Installed) -> Iterator[str]:
    """Yield warnings of meaningless variables."""
    for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME"):
        if (value := environ.get(name)) and (not value.startswith("/") or value.endswith("\n")):
            yield f"{name} is {value!r}, which is no absolute path, so it is not used"
        elif value and "CONFIG" in name and os.path.lexists(value) and not os.path.isdir(value):  # noqa: PTH112 -- no error
            yield f"{name} is {value!r}, which is no directory, so your settings are not read"
    if not _has_some(environ):
        return
    others = plugins.variables
    known = [*_variables(every), *(variable.name for variable in others)]
    before = tuple(f"{variable.name}_" for variable in others if variable.each)
    for name in environ:
        if name.startswith("SAGENT_") and name not in known and not name.startswith(before):
            yield f"{name}: there is no such setting{nearest(name, known)}"


def _has_some(environ: Mapping[str, str]) -> bool:
    return any(name.startswith("SAGENT_") for name in environ)


def _take_once(found: dict[str, Given], setting: Given) -> None:
    field, _, origin = setting
    if field.name in found:
        both = " and ".join(sorted((origin, found[field.name][2])))
        raise ConfigError(f"{both} are the same setting: give only one.")
    found[field.name] = setting
