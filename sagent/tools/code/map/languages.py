"""Which languages are read: the suffixes of their files, the grammar that is installed for each, and what it calls a
definition. A grammar is a wheel of its own (the extra `code`)."""

from collections.abc import Mapping

from sagent.lib.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Grammar:
    """A tree-sitter grammar: the module, its function, and a query whose @name is what a @definition is called."""

    module: str
    query: str
    function: str = "language"


_SCRIPT = """
(function_declaration name: (_) @name) @definition
(generator_function_declaration name: (_) @name) @definition
(class_declaration name: (_) @name) @definition
(method_definition name: (_) @name) @definition
(variable_declarator name: (identifier) @name value: [(arrow_function) (function_expression) (class)]) @definition
"""
_TYPED = (
    _SCRIPT
    + """
(abstract_class_declaration name: (_) @name) @definition
(interface_declaration name: (_) @name) @definition
(type_alias_declaration name: (_) @name) @definition
(enum_declaration name: (_) @name) @definition
(function_signature name: (_) @name) @definition
(method_signature name: (_) @name) @definition
(abstract_method_signature name: (_) @name) @definition
(internal_module name: (_) @name) @definition
"""
)
_C = """
(function_definition declarator: (function_declarator declarator: (identifier) @name)) @definition
(function_definition declarator: (pointer_declarator declarator: (function_declarator declarator: (identifier) @name)))
  @definition
(struct_specifier name: (type_identifier) @name body: (_)) @definition
(union_specifier name: (type_identifier) @name body: (_)) @definition
(enum_specifier name: (type_identifier) @name body: (_)) @definition
(type_definition declarator: (type_identifier) @name) @definition
(preproc_function_def name: (identifier) @name) @definition
"""

GRAMMARS: Mapping[str, Grammar] = {
    "python": Grammar(
        "tree_sitter_python",
        """
(class_definition name: (identifier) @name) @definition
(function_definition name: (identifier) @name) @definition
(module (expression_statement (assignment left: (identifier) @name) @definition))
(type_alias_statement left: (type (identifier) @name)) @definition
""",
    ),
    "javascript": Grammar("tree_sitter_javascript", _SCRIPT),
    "typescript": Grammar("tree_sitter_typescript", _TYPED, "language_typescript"),
    "tsx": Grammar("tree_sitter_typescript", _TYPED, "language_tsx"),
    "go": Grammar(
        "tree_sitter_go",
        """
(function_declaration name: (_) @name) @definition
(method_declaration name: (_) @name) @definition
(type_spec name: (_) @name) @definition
(source_file (const_declaration (const_spec name: (identifier) @name) @definition))
(source_file (var_declaration (var_spec name: (identifier) @name) @definition))
""",
    ),
    "rust": Grammar(
        "tree_sitter_rust",
        """
(struct_item name: (_) @name) @definition
(enum_item name: (_) @name) @definition
(union_item name: (_) @name) @definition
(type_item name: (_) @name) @definition
(trait_item name: (_) @name) @definition
(mod_item name: (_) @name) @definition
(macro_definition name: (_) @name) @definition
(function_item name: (_) @name) @definition
(function_signature_item name: (_) @name) @definition
(const_item name: (_) @name) @definition
(static_item name: (_) @name) @definition
(impl_item type: (type_identifier) @name) @definition
""",
    ),
    "java": Grammar(
        "tree_sitter_java",
        """
(class_declaration name: (_) @name) @definition
(interface_declaration name: (_) @name) @definition
(enum_declaration name: (_) @name) @definition
(record_declaration name: (_) @name) @definition
(annotation_type_declaration name: (_) @name) @definition
(method_declaration name: (_) @name) @definition
(constructor_declaration name: (_) @name) @definition
""",
    ),
    "c": Grammar("tree_sitter_c", _C),
    "cpp": Grammar(
        "tree_sitter_cpp",
        _C
        + """
(class_specifier name: (type_identifier) @name body: (_)) @definition
(namespace_definition name: (namespace_identifier) @name) @definition
(function_definition declarator: (function_declarator declarator: (field_identifier) @name)) @definition
(function_definition declarator: (function_declarator
  declarator: (qualified_identifier name: (identifier) @name))) @definition
(field_declaration declarator: (function_declarator declarator: (field_identifier) @name)) @definition
(alias_declaration name: (type_identifier) @name) @definition
""",
    ),
    "ruby": Grammar(
        "tree_sitter_ruby",
        """
(class name: (_) @name) @definition
(module name: (_) @name) @definition
(method name: (_) @name) @definition
(singleton_method name: (_) @name) @definition
(program (assignment left: (constant) @name) @definition)
""",
    ),
    "bash": Grammar("tree_sitter_bash", "(function_definition name: (word) @name) @definition"),
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
"""Suffixes of code that no grammar is taken for: such files are listed by name."""


def language_of(path: str) -> str | None:
    """The language of a file by its name; None where it is not read."""
    return _BY_SUFFIX.get(path.rpartition(".")[2].lower()) if "." in path else None


def is_unread(path: str) -> bool:
    """Whether a file is code in a language that is not read."""
    return path.rpartition(".")[2].lower() in UNREAD
