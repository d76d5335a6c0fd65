"""The supported languages: file suffixes, the grammar for each, and its names for definitions. A grammar is a separate
wheel (the extra `code`)."""

from collections.abc import Mapping

from sagent.lib.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Grammar:
    """A tree-sitter grammar: the module, its function, and its definitions: kinds of nodes, by the kind of their name,
    and queries for others, whose @name is the name of a @definition."""

    module: str
    kinds: Mapping[str, str]
    others: str = ""
    function: str = "language"

    @property
    def query(self) -> str:
        """The language's definitions as one query."""
        named = ((kind, name) for name, kinds in self.kinds.items() for kind in kinds.split())
        return self.others + "".join(f"({kind} name: ({name}) @name) @definition\n" for kind, name in named)


_SCRIPT = "function_declaration generator_function_declaration class_declaration method_definition"
_TYPED = (
    f"{_SCRIPT} abstract_class_declaration interface_declaration type_alias_declaration enum_declaration"
    " function_signature method_signature abstract_method_signature internal_module"
)
_VALUES = """
(variable_declarator name: (identifier) @name value: [(arrow_function) (function_expression) (class)]) @definition
"""
_C = """
(function_definition declarator: (function_declarator declarator: (identifier) @name)) @definition
(function_definition declarator: (pointer_declarator declarator: (function_declarator declarator: (identifier) @name)))
  @definition
(struct_specifier name: (type_identifier) @name body: (_)) @definition
(union_specifier name: (type_identifier) @name body: (_)) @definition
(enum_specifier name: (type_identifier) @name body: (_)) @definition
(type_definition declarator: (type_identifier) @name) @definition
"""

GRAMMARS: Mapping[str, Grammar] = {
    "python": Grammar(
        "tree_sitter_python",
        {"identifier": "class_definition function_definition"},
        """
(module (expression_statement (assignment left: (identifier) @name) @definition))
(type_alias_statement left: (type (identifier) @name)) @definition
""",
    ),
    "javascript": Grammar("tree_sitter_javascript", {"_": _SCRIPT}, _VALUES),
    "typescript": Grammar("tree_sitter_typescript", {"_": _TYPED}, _VALUES, "language_typescript"),
    "tsx": Grammar("tree_sitter_typescript", {"_": _TYPED}, _VALUES, "language_tsx"),
    "go": Grammar(
        "tree_sitter_go",
        {"_": "function_declaration method_declaration type_spec"},
        """
(source_file (const_declaration (const_spec name: (identifier) @name) @definition))
(source_file (var_declaration (var_spec name: (identifier) @name) @definition))
""",
    ),
    "rust": Grammar(
        "tree_sitter_rust",
        {
            "_": "struct_item enum_item union_item type_item trait_item mod_item macro_definition function_item"
            " function_signature_item const_item static_item"
        },
        "(impl_item type: (type_identifier) @name) @definition\n",
    ),
    "java": Grammar(
        "tree_sitter_java",
        {
            "_": "class_declaration interface_declaration enum_declaration record_declaration"
            " annotation_type_declaration method_declaration constructor_declaration"
        },
    ),
    "c": Grammar("tree_sitter_c", {"identifier": "preproc_function_def"}, _C),
    "cpp": Grammar(
        "tree_sitter_cpp",
        {
            "identifier": "preproc_function_def",
            "namespace_identifier": "namespace_definition",
            "type_identifier": "alias_declaration",
        },
        _C
        + """
(class_specifier name: (type_identifier) @name body: (_)) @definition
(function_definition declarator: (function_declarator declarator: (field_identifier) @name)) @definition
(function_definition declarator: (function_declarator
  declarator: (qualified_identifier name: (identifier) @name))) @definition
(field_declaration declarator: (function_declarator declarator: (field_identifier) @name)) @definition
""",
    ),
    "ruby": Grammar(
        "tree_sitter_ruby",
        {"_": "class module method singleton_method"},
        "(program (assignment left: (constant) @name) @definition)\n",
    ),
    "bash": Grammar("tree_sitter_bash", {"word": "function_definition"}),
}

_SUFFIXES: Mapping[str, str] = {
    "python": "py pyi pyw",
    "javascript": "js jsx mjs cjs",
    "typescript": "ts mts cts",
    "tsx": "tsx",
    "go": "go",
    "rust": "rs",
    "java": "java",
    "c": "c",
    "cpp": "h cc cpp cxx hh hpp hxx ino",
    "ruby": "rb rake",
    "bash": "sh bash",
}
_BY_SUFFIX = {suffix: language for language, suffixes in _SUFFIXES.items() for suffix in suffixes.split()}
UNREAD = frozenset(
    (
        *("cs", "kt", "kts", "swift", "scala", "php", "pl", "pm", "lua", "r", "jl", "m", "mm", "dart", "ex", "exs"),
        *("erl", "hs", "ml", "clj", "fs", "vb", "groovy", "sql", "vue", "svelte", "zig", "nim"),
    )
)
"""Suffixes of code without a grammar: such files are listed by name."""


def language_of(path: str) -> str | None:
    """Return the language of a file by its name; None if it is not supported."""
    return _BY_SUFFIX.get(path.rpartition(".")[2].lower()) if "." in path else None


def is_unread(path: str) -> bool:
    """Return True if a file is code in a language that is not read."""
    return path.rpartition(".")[2].lower() in UNREAD
