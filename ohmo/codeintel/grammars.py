"""What there is to know of each language: its grammar (a wheel of the extra ``code``), what
declares names in it and what is a scope."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from channels.record import record

INSTALL = "pip install 'ohmo[code]'"


@record
class Grammar:
    """``declares``: type of a node, to the kind of what it declares and the field with its name (""
    for all that is in it)."""

    name: str
    package: str
    function: str
    suffixes: tuple[str, ...]
    declares: Mapping[str, tuple[str, str]]
    scopes: frozenset[str]
    classes: frozenset[str]  # what ``this`` and ``self`` are an instance of
    #: Another kind where something is declared directly in such a node ("above/parent" for two).
    inside: Mapping[tuple[str, str], str] = field(default_factory=dict[tuple[str, str], str])
    bare_members: bool = False  # a class's own names are read without ``this``
    ordered: bool = True  # a local name is not there before it is declared


_ECMA = {
    "function_declaration": ("function", "name"),
    "generator_function_declaration": ("function", "name"),
    "class_declaration": ("class", "name"),
    "method_definition": ("method", "name"),
    "field_definition": ("field", "property"),
    "variable_declarator": ("variable", "name"),
    "formal_parameters": ("parameter", ""),
    "catch_clause": ("local", "parameter"),
    "for_in_statement": ("local", "left"),
}
_ECMA_SCOPES = [
    "program",
    "statement_block",
    "function_declaration",
    "function_expression",
    "arrow_function",
    "generator_function_declaration",
    "generator_function",
    "method_definition",
    "for_statement",
    "for_in_statement",
    "catch_clause",
    "class_body",
]
_TYPED = {
    "abstract_class_declaration": ("class", "name"),
    "public_field_definition": ("field", "name"),
    "interface_declaration": ("interface", "name"),
    "type_alias_declaration": ("type", "name"),
    "enum_declaration": ("enum", "name"),
    "enum_assignment": ("member", "name"),
    "method_signature": ("method", "name"),
    "abstract_method_signature": ("method", "name"),
    "property_signature": ("field", "name"),
    "function_signature": ("function", "name"),
    "internal_module": ("module", "name"),
    "required_parameter": ("parameter", "pattern"),
    "optional_parameter": ("parameter", "pattern"),
    "type_parameter": ("parameter", "name"),
}
_TYPED_SCOPES = [
    "class_declaration",
    "abstract_class_declaration",
    "interface_declaration",
    "enum_body",
    "type_alias_declaration",
    "method_signature",
    "function_signature",
]
_ECMA_CLASSES = frozenset({"class_declaration", "abstract_class_declaration", "class"})


def _typescript(function: str, suffixes: tuple[str, ...]) -> Grammar:
    declares = {**_ECMA, **_TYPED}
    del declares["formal_parameters"]  # each parameter says it itself
    return Grammar(
        name="TypeScript",
        package="tree_sitter_typescript",
        function=function,
        suffixes=suffixes,
        declares=declares,
        scopes=frozenset((*_ECMA_SCOPES, *_TYPED_SCOPES)),
        classes=_ECMA_CLASSES,
        ordered=False,
    )


GRAMMARS = (
    Grammar(
        name="JavaScript",
        package="tree_sitter_javascript",
        function="language",
        suffixes=(".js", ".jsx", ".mjs", ".cjs"),
        declares=_ECMA,
        scopes=frozenset(_ECMA_SCOPES),
        classes=_ECMA_CLASSES,
        ordered=False,
    ),
    _typescript("language_typescript", (".ts", ".mts", ".cts")),
    _typescript("language_tsx", (".tsx",)),
    Grammar(
        name="Go",
        package="tree_sitter_go",
        function="language",
        suffixes=(".go",),
        declares={
            "function_declaration": ("function", "name"),
            "method_declaration": ("method", "name"),
            "type_spec": ("type", "name"),
            "type_alias": ("type", "name"),
            "const_spec": ("variable", "name"),
            "var_spec": ("variable", "name"),
            "short_var_declaration": ("local", "left"),
            "range_clause": ("local", "left"),
            "receive_statement": ("local", "left"),
            "parameter_declaration": ("parameter", "name"),
            "variadic_parameter_declaration": ("parameter", "name"),
            "type_parameter_declaration": ("parameter", "name"),
            "field_declaration": ("field", "name"),
            "method_elem": ("method", "name"),
        },
        scopes=frozenset(
            [
                "source_file",
                "block",
                "function_declaration",
                "method_declaration",
                "func_literal",
                "if_statement",
                "for_statement",
                "expression_switch_statement",
                "type_switch_statement",
                "communication_case",
                "expression_case",
                "type_case",
                "default_case",
                "type_spec",
                "type_alias",
                "struct_type",
                "interface_type",
            ]
        ),
        classes=frozenset(),
    ),
    Grammar(
        name="Rust",
        package="tree_sitter_rust",
        function="language",
        suffixes=(".rs",),
        declares={
            "function_item": ("function", "name"),
            "function_signature_item": ("function", "name"),
            "struct_item": ("struct", "name"),
            "union_item": ("struct", "name"),
            "enum_item": ("enum", "name"),
            "trait_item": ("interface", "name"),
            "mod_item": ("module", "name"),
            "const_item": ("constant", "name"),
            "static_item": ("constant", "name"),
            "type_item": ("type", "name"),
            "macro_definition": ("macro", "name"),
            "enum_variant": ("member", "name"),
            "field_declaration": ("field", "name"),
            "let_declaration": ("local", "pattern"),
            "let_condition": ("local", "pattern"),
            "for_expression": ("local", "pattern"),
            "match_arm": ("local", "pattern"),
            "parameter": ("parameter", "pattern"),
            "closure_parameters": ("parameter", ""),
            "type_parameter": ("parameter", "name"),
        },
        scopes=frozenset(
            [
                "source_file",
                "block",
                "function_item",
                "closure_expression",
                "mod_item",
                "match_arm",
                "for_expression",
                "if_expression",
                "while_expression",
                "impl_item",
                "trait_item",
                "struct_item",
                "enum_item",
            ]
        ),
        classes=frozenset({"impl_item", "trait_item"}),
        inside={
            ("impl_item/declaration_list", "function"): "method",
            ("trait_item/declaration_list", "function"): "method",
        },
    ),
    Grammar(
        name="Java",
        package="tree_sitter_java",
        function="language",
        suffixes=(".java",),
        declares={
            "class_declaration": ("class", "name"),
            "record_declaration": ("class", "name"),
            "interface_declaration": ("interface", "name"),
            "annotation_type_declaration": ("interface", "name"),
            "enum_declaration": ("enum", "name"),
            "enum_constant": ("member", "name"),
            "method_declaration": ("method", "name"),
            "constructor_declaration": ("constructor", "name"),
            "variable_declarator": ("local", "name"),
            "formal_parameter": ("parameter", "name"),
            "catch_formal_parameter": ("local", "name"),
            "enhanced_for_statement": ("local", "name"),
            "resource": ("local", "name"),
            "inferred_parameters": ("parameter", ""),
            "type_parameter": ("parameter", ""),
        },
        scopes=frozenset(
            [
                "program",
                "class_declaration",
                "record_declaration",
                "interface_declaration",
                "enum_declaration",
                "class_body",
                "interface_body",
                "enum_body",
                "method_declaration",
                "constructor_declaration",
                "block",
                "constructor_body",
                "lambda_expression",
                "for_statement",
                "enhanced_for_statement",
                "catch_clause",
                "try_with_resources_statement",
            ]
        ),
        classes=frozenset(
            ["class_declaration", "record_declaration", "interface_declaration", "enum_declaration"]
        ),
        inside={("field_declaration", "local"): "field"},
        bare_members=True,
    ),
)
BY_SUFFIX = {suffix: grammar for grammar in GRAMMARS for suffix in grammar.suffixes}
MEMBERS = ("method", "field", "member")
PYTHON = (".py", ".pyi")
SUFFIXES = (*PYTHON, *BY_SUFFIX)
