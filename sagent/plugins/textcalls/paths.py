"""Paths as models write them above a block, or after its fence."""

import re

MAX_PATH_LINE = 300  # characters of a line that may be a path

_LEADS = re.compile(r"(?:#{1,6}[ \t]*|[-*+][ \t]+|\d{1,3}[.)][ \t]+)+")
_LABEL = re.compile(
    r"(?:new |updated? |full |the )?(?:file[ -]?(?:name|path)?|path)(?:[ \t]*[:=][ \t]*|[ \t]+(?=[`\"']))",
    re.IGNORECASE,
)
_REMARK = re.compile(r"[ \t]*\((?:new|updated?|modified|changed|created?|full|complete)\b[^()]*\)$", re.IGNORECASE)
_BOLD = re.compile(r"\*\*([^*]+)\*\*")
_WRAPPERS = ("__", "*", "`", '"', "'")
_QUOTES = ('"', "'")
_NAMES = (
    *("brewfile", "caddyfile", "codeowners", "containerfile", "copying", "dockerfile", "gemfile", "gnumakefile"),
    *("jenkinsfile", "justfile", "license", "makefile", "notice", "pipfile", "procfile", "rakefile", "readme"),
    *("vagrantfile", "version"),
)
_PRODUCTS = ("asp.net", "d3.js", "express.js", "next.js", "node.js", "nuxt.js", "react.js", "three.js", "vue.js")
_FORBIDDEN = re.compile(r"[<>|\"?*{}`\x00-\x1f\x7f]|://|\$\(")
_SUFFIX = re.compile(r".*\.[A-Za-z_][\w+-]{0,15}", re.DOTALL)
_ATTRIBUTE = re.compile(r"""\b(?:file|filename|path|title|name)=("[^"]+"|'[^']+'|[^\s"',}]+)""")
_COMMENT = re.compile(r"(?:#|//|--|;|/\*|<!--)[ \t]*([^#/;<\s-].*?)[ \t]*(?:\*/|-->)?")
_CITATION = re.compile(r"\d+:\d+:")
_LANGUAGE = re.compile(r"([A-Za-z][\w+#-]+):(.+)")
_MEDIA = re.compile(r"(?:application|audio|font|image|message|model|multipart|text|video)/[\w.+-]+")


def path_in(line: str) -> str:
    """Return the path that a line consists of; "" for any other line. Markdown marks, a label such as "File:" and a
    remark such as "(new)" may surround it."""
    text = line.strip()
    if not text or len(text) > MAX_PATH_LINE:
        return ""
    text, spaced, before = _LEADS.sub("", text, count=1) if _LEADS.match(text) else text, False, ""
    while text != before:
        before = text
        text = _BOLD.sub(r"\1", _REMARK.sub("", text.rstrip(": \t")))
        if label := _LABEL.match(text):
            text, spaced = text[label.end() :], True
        for mark in _WRAPPERS:
            if len(text) > 2 * len(mark) and text.startswith(mark) and text.endswith(mark):
                text, spaced = text[len(mark) : -len(mark)], spaced or mark in _QUOTES
    return text if is_path(text, spaced=spaced) else ""


def path_in_comment(line: str) -> str:
    """Return the path that a comment consists of; "" for any other line."""
    match = _COMMENT.fullmatch(line.strip())
    return path_in(match[1]) if match else ""


def path_after(info: str) -> str:
    """Return the path after a fence, as in "python src/a.py"; "" if there is none."""
    info = info.strip()
    if not info or len(info) > MAX_PATH_LINE or _CITATION.match(info):
        return ""
    if attribute := _ATTRIBUTE.search(info):
        path = attribute[1].strip("\"'")
        return path if is_path(path, spaced=True) else ""
    first, _, rest = info.partition(" ")
    language = _LANGUAGE.fullmatch(first)
    if language and is_path(language[2]):
        return language[2]
    if is_path(first) and not _MEDIA.fullmatch(first):
        return first
    rest = rest.strip().removeprefix("#").removeprefix("//").strip()
    return path_in(rest) if rest else ""


def is_path(text: str, *, spaced: bool = False) -> bool:
    """Return True for a text that can only be a file's path. A text with spaces counts only if `spaced`."""
    if not text or len(text) > MAX_PATH_LINE or _FORBIDDEN.search(text) or text != text.strip() or text[0] in "-=@&;,":
        return False
    if not spaced and len(text.split()) > 1:
        return False
    name = re.split(r"[/\\]", text)[-1]
    if not any(letter.isalpha() for letter in name) or name.endswith((".", ",", ";", ":", ")", "!")):
        return False
    if name == text:
        return text.lower() in _NAMES or (_SUFFIX.fullmatch(name) is not None and text.lower() not in _PRODUCTS)
    return True


def suffix_of(path: str) -> str:
    """Return the ending of a path's name in lower case, with its dot; "" if it has none."""
    name = re.split(r"[/\\]", path)[-1].lower()
    return name[name.rfind(".") :] if "." in name else ""


def path_line(path: str) -> str:
    """Return the line above a block with a file; "" for a path that does not fit in such a line."""
    line = f'"{path}"' if len(path.split()) > 1 else path
    return line if path_in(line) == path else ""
