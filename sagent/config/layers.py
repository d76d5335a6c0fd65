"""Settings from files, environment and flags. A source that cannot be read exactly is an error."""

import errno
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from sagent.config.builder import SettingsBuilder, SettingValue
from sagent.config.declared import ALIASES, BY_NAME, RULES
from sagent.config.files import NAMES, File, read_file
from sagent.config.plugins import GONE, Installed
from sagent.config.settings import Settings, Wish
from sagent.context.places import home_of, plugin_folders
from sagent.errors import ConfigError
from sagent.lib.text import nearest
from sagent.plugin import Setting

_OWN_FLAGS = ("executor_api_base", "advisor_api_base", "trust_project", "plugin", "no_plugins")  # no settings


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
    cwd = _working_directory(flags, environ) if cwd is None else cwd
    granted = _build(flags, environ, cwd, file, trusting=True)
    if not granted.wanted or granted.project is None or flags.get("trust_project"):
        return granted.settings()
    from sagent.config.trust import recall, warning

    without = _build(flags, environ, cwd, file, trusting=False).settings()
    wish = Wish(granted.project, tuple(granted.wanted), granted.settings())
    if _without_origins(without) == _without_origins(wish.granted):  # its wish is fulfilled or overridden anyway
        return without
    match recall(wish, without.state_dir):
        case True:
            return wish.granted
        case False:
            return replace(without, wish=replace(wish, refused=True))
        case None:
            return replace(without, wish=wish, warnings=(*without.warnings, warning(wish)))


def _without_origins(settings: Settings) -> Settings:
    return replace(settings, origins={}, warnings=())


def _build(
    flags: Mapping[str, object],
    environ: Mapping[str, str],
    cwd: Path,
    file: str | Path | File | None,
    *,
    trusting: bool,
) -> SettingsBuilder:
    """Return a builder with all layers; if `trusting`, with what needs the person's trust in a project's file."""
    builder = SettingsBuilder(environ, cwd, home_of(environ), trusting=trusting)
    builder.choose_file(file)
    builder.find_plugins(builder.files_of(flags.get("plugin")), foreign=not flags.get("no_plugins"))
    user = file if isinstance(file, File) else read_file(builder.user_file)
    if user is None and builder.named_by:
        raise ConfigError(f"{builder.named_by}: no such file: {builder.user_file}.")
    if user is not None:
        _add_file(builder, user, trusted=True)
        with suppress(OSError):
            builder.warnings += filter(None, [user.exposed_key()])
    _add_plugins(builder)
    settings = list(builder.every.values())
    from_environment, from_flags = _from_environment(environ, settings), _from_flags(flags, builder.every)
    project_file = builder.project_file((*from_environment, *from_flags))
    unread = filter(os.path.exists, map(project_file.with_name, NAMES[1:]))
    builder.warnings += [f"{each} is not read: a project's settings are in {project_file.name}." for each in unread]
    project = read_file(project_file, project_file.parent.parent)
    if project is not None and not (user is not None and user.path.samefile(project.path)):
        builder.project = project.path
        _add_file(builder, project, trusted=False)
    builder.take(from_environment)
    builder.warnings += _variable_warnings(environ, settings, builder.plugins)
    builder.take(from_flags)
    builder.put_model_aside()
    builder.take_addresses(flags.get("executor_api_base"), flags.get("advisor_api_base"))
    return builder


def _add_file(builder: SettingsBuilder, file: File, *, trusted: bool) -> None:
    from sagent.config.filelayer import FileLayer

    FileLayer(builder, file, trusted=trusted).take()


def _add_plugins(builder: SettingsBuilder) -> None:
    """Add the settings in the files of installed plugins. Faulty files are left out, with a warning."""
    for folder in plugin_folders(builder.config_dir):
        from sagent.config.filelayer import take_plugin

        try:
            take_plugin(builder, folder)
        except ConfigError as error:
            builder.warnings.append(f"A part of the plugin {folder.name} is not used: {error}")


def _working_directory(flags: Mapping[str, object], environ: Mapping[str, str]) -> Path:
    """Return this process's directory; if it was deleted, or its path is too long, the requested one if that is
    absolute. Raises ConfigError."""
    try:
        (found := Path.cwd()).stat()
    except FileNotFoundError:
        why = "The working directory no longer exists"
    except PermissionError:
        return Path.cwd()
    except OSError as error:
        if error.errno != errno.ENAMETOOLONG:
            raise
        max_bytes = os.pathconf("/", "PC_PATH_MAX") - 1
        why = f"The path of the working directory is longer than the {max_bytes:,} bytes that the system takes"
    else:
        return found
    from sagent.lib.names import path_of

    requested = path_of(str(flags.get("cwd") or environ.get("SAGENT_CWD") or ""))
    if requested.is_absolute():
        return requested
    raise ConfigError(f"{why}; cd to another, or give --cwd with an absolute path.")


def _from_flags(flags: Mapping[str, object], settings: Mapping[str, Setting]) -> list[SettingValue]:
    """Return the values given by flags, in the order of the settings. Raises ConfigError for an unknown one."""
    found: dict[str, SettingValue] = {}
    for name, value in flags.items():
        if name in _OWN_FLAGS:
            continue
        setting = settings.get(ALIASES.get(name, name)) or next(
            (each for each in settings.values() if each.keyword == name), None
        )
        if setting is None:
            names = (*settings, *(each.keyword for each in settings.values()), *ALIASES)
            raise ConfigError(f"--{name.replace('_', '-')}: there is no such setting{nearest(name, names)}")
        if value is not None:
            _add_once(found, (setting, value, f"--{name if name in ALIASES else setting.flag_name}"))
    return [found[name] for name in settings if name in found]


def _settings_by_variable(settings: Sequence[Setting]) -> Mapping[str, Setting]:
    found = {setting.variable: setting for setting in (*settings, *RULES.values())}
    return found | {f"SAGENT_{name.upper()}": BY_NAME[meant] for name, meant in ALIASES.items()}


def _from_environment(environ: Mapping[str, str], settings: Sequence[Setting]) -> list[SettingValue]:
    found: dict[str, SettingValue] = {}
    for variable, setting in _settings_by_variable(settings).items() if _has_variables(environ) else ():
        if environ.get(variable):
            _add_once(found, (setting, environ[variable], variable))
    return list(found.values())


def _variable_warnings(environ: Mapping[str, str], settings: Sequence[Setting], plugins: Installed) -> Iterator[str]:
    """Yield warnings about variables that have no effect."""
    for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME"):
        if (value := environ.get(name)) and (not value.startswith("/") or value.endswith("\n")):
            yield f"{name} is {value!r}, which is no absolute path, so it is not used"
        elif value and "CONFIG" in name and os.path.lexists(value) and not os.path.isdir(value):  # noqa: PTH112 -- no error
            yield f"{name} is {value!r}, which is no directory, so your settings are not read"
    if not _has_variables(environ):
        return
    plugin_variables = plugins.variables
    known = [*_settings_by_variable(settings), *(variable.name for variable in plugin_variables)]
    prefixes = tuple(f"{variable.name}_" for variable in plugin_variables if variable.each)
    for name in environ:
        if name.startswith("SAGENT_") and name not in known and not name.startswith(prefixes):
            owner = plugins.former_owner(name)
            yield f"{name}: {GONE.format(owner) if owner else f'there is no such setting{nearest(name, known)}'}"


def _has_variables(environ: Mapping[str, str]) -> bool:
    return any(name.startswith("SAGENT_") for name in environ)


def _add_once(values: dict[str, SettingValue], value: SettingValue) -> None:
    setting, _, origin = value
    if setting.name in values:
        both = " and ".join(sorted((origin, values[setting.name][2])))
        raise ConfigError(f"{both} are the same setting: give only one.")
    values[setting.name] = value
