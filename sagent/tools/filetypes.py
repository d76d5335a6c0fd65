"""File types by name, as globs of file names. The names are ripgrep's."""

from sagent.errors import ToolError

_TYPES = {
    "asm": "*.asm *.s *.S", "bazel": "*.bazel *.bzl BUILD WORKSPACE", "c": "*.c *.h",
    "clojure": "*.clj *.cljc *.cljs", "cmake": "*.cmake CMakeLists.txt",
    "cpp": "*.cpp *.cc *.cxx *.hpp *.hh *.hxx *.h *.inl", "cs": "*.cs", "css": "*.css *.scss *.sass *.less",
    "csv": "*.csv *.tsv", "dart": "*.dart", "docker": "*Dockerfile* *.dockerfile",
    "elixir": "*.ex *.exs *.eex *.heex", "erlang": "*.erl *.hrl", "go": "*.go", "graphql": "*.graphql *.gql",
    "haskell": "*.hs *.lhs", "html": "*.html *.htm", "java": "*.java", "js": "*.js *.jsx *.mjs *.cjs *.vue",
    "json": "*.json *.jsonl", "julia": "*.jl", "kotlin": "*.kt *.kts", "lua": "*.lua",
    "make": "Makefile makefile GNUmakefile *.mk *.mak", "md": "*.md *.markdown *.mdx", "nix": "*.nix",
    "ocaml": "*.ml *.mli", "perl": "*.pl *.pm *.t", "php": "*.php", "proto": "*.proto", "py": "*.py *.pyi",
    "r": "*.r *.R *.Rmd", "rst": "*.rst", "ruby": "*.rb *.rake *.gemspec Gemfile Rakefile", "rust": "*.rs",
    "scala": "*.scala *.sbt", "sh": "*.sh *.bash *.zsh *.ksh .bashrc .profile", "sql": "*.sql", "svelte": "*.svelte",
    "swift": "*.swift", "terraform": "*.tf *.tfvars", "tex": "*.tex *.sty *.bib", "toml": "*.toml",
    "ts": "*.ts *.tsx *.mts *.cts", "txt": "*.txt", "vue": "*.vue", "xml": "*.xml *.xsd *.xsl",
    "yaml": "*.yaml *.yml", "zig": "*.zig",
}  # fmt: skip
_ALIASES = {
    "bash": "sh", "c++": "cpp", "csharp": "cs", "javascript": "js", "jsx": "js", "markdown": "md", "python": "py",
    "rs": "rust", "rb": "ruby", "shell": "sh", "tsx": "ts", "typescript": "ts", "yml": "yaml",
}  # fmt: skip


def globs_of(name: str) -> list[str]:
    """Return the globs of a type. Raises ToolError with the known types."""
    known = _TYPES.get(_ALIASES.get(name.lower(), name.lower()))
    if known is None:
        raise ToolError(f"There is no file type {name!r}. Use glob, or one of: {', '.join(_TYPES)}.")
    return known.split()
