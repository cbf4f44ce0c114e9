"""What there is to know of each language: its grammar (a wheel of the extra ``code``), what
declares names in it and what is a scope."""

from __future__ import annotations

from collections.abc import Mapping

from channels.record import record

INSTALL = "pip install 'ohmo[code]'"


@record
class Grammar:
    """``declares``: type of a node, to the kind of what it declares and the field with its name
    ("*" for all that is in it)."""

    name: str
    suffixes: tuple[str, ...]
    declares: Mapping[str, tuple[str, str]]
    scopes: frozenset[str]
    classes: frozenset[str] = frozenset()  # what ``this`` and ``self`` are an instance of
    ordered: bool = True  # a local name is not there before it is declared


def kinds(*rows: str) -> Mapping[str, tuple[str, str]]:
    """Of rows of a kind and the types that declare it, each with its field if that is not name."""
    found: dict[str, tuple[str, str]] = {}
    for row in rows:
        kind, *types = row.split()
        for one in types:
            name, _, field = one.partition(".")
            found[name] = kind, field or "name"
    return found


def types(words: str) -> frozenset[str]:
    """Of nodes."""
    return frozenset(words.split())


_ECMA = (
    "function function_declaration generator_function_declaration",
    "type class_declaration",
    "member method_definition field_definition.property",
    "variable variable_declarator",
    "local catch_clause.parameter for_in_statement.left",
)
_ECMA_SCOPES = (
    "program statement_block function_declaration function_expression arrow_function class_body"
    " generator_function_declaration generator_function method_definition for_statement"
    " for_in_statement catch_clause"
)
_TYPED = (
    "function function_signature",
    "type abstract_class_declaration interface_declaration type_alias_declaration enum_declaration",
    "type internal_module",
    "member enum_assignment method_signature abstract_method_signature public_field_definition",
    "member property_signature",
    "parameter required_parameter.pattern optional_parameter.pattern type_parameter",
)
_TYPED_SCOPES = (
    f"{_ECMA_SCOPES} class_declaration abstract_class_declaration interface_declaration enum_body"
    " type_alias_declaration method_signature function_signature"
)
_ECMA_CLASSES = types("class_declaration abstract_class_declaration class")
GRAMMARS = (
    Grammar(
        name="JavaScript",
        suffixes=(".js", ".jsx", ".mjs", ".cjs"),
        declares=kinds(*_ECMA, "parameter formal_parameters.*"),
        scopes=types(_ECMA_SCOPES),
        classes=_ECMA_CLASSES,
        ordered=False,
    ),
    Grammar(
        name="TypeScript",
        suffixes=(".ts", ".mts", ".cts", ".tsx"),
        declares=kinds(*_ECMA, *_TYPED),
        scopes=types(_TYPED_SCOPES),
        classes=_ECMA_CLASSES,
        ordered=False,
    ),
    Grammar(
        name="Go",
        suffixes=(".go",),
        declares=kinds(
            "function function_declaration",
            "type type_spec type_alias",
            "member method_declaration method_elem field_declaration",
            "variable const_spec var_spec",
            "local short_var_declaration.left range_clause.left receive_statement.left",
            "parameter parameter_declaration variadic_parameter_declaration",
            "parameter type_parameter_declaration",
        ),
        scopes=types(
            "source_file block function_declaration method_declaration func_literal"
            " if_statement for_statement expression_switch_statement type_switch_statement"
            " communication_case expression_case type_case default_case type_spec type_alias"
            " struct_type interface_type"
        ),
    ),
    Grammar(
        name="Rust",
        suffixes=(".rs",),
        declares=kinds(
            "function function_item function_signature_item macro_definition",
            "type struct_item union_item enum_item trait_item mod_item type_item",
            "variable const_item static_item",
            "member enum_variant field_declaration",
            "local let_declaration.pattern let_condition.pattern for_expression.pattern",
            "local match_arm.pattern",
            "parameter parameter.pattern closure_parameters.* type_parameter",
        ),
        scopes=types(
            "source_file block function_item closure_expression mod_item match_arm"
            " for_expression if_expression while_expression impl_item trait_item struct_item"
            " enum_item"
        ),
        classes=types("impl_item trait_item"),
    ),
    Grammar(
        name="Java",
        suffixes=(".java",),
        declares=kinds(
            "type class_declaration record_declaration interface_declaration enum_declaration",
            "type annotation_type_declaration",
            "member enum_constant method_declaration",
            "constructor constructor_declaration",
            "local variable_declarator catch_formal_parameter enhanced_for_statement resource",
            "parameter formal_parameter inferred_parameters.* type_parameter.*",
        ),
        scopes=types(
            "program class_declaration record_declaration interface_declaration"
            " enum_declaration class_body interface_body enum_body method_declaration"
            " constructor_declaration block constructor_body lambda_expression for_statement"
            " enhanced_for_statement catch_clause try_with_resources_statement"
        ),
        classes=types(
            "class_declaration record_declaration interface_declaration enum_declaration"
        ),
    ),
)
#: What is declared directly in them is a member of something.
HOLD_MEMBERS = types("impl_item trait_item class_body interface_body enum_body")
BY_SUFFIX = {suffix: grammar for grammar in GRAMMARS for suffix in grammar.suffixes}
PYTHON = (".py", ".pyi")
SUFFIXES = (*PYTHON, *BY_SUFFIX)
