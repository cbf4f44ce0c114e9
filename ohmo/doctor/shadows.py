"""Which rule leaves another one nothing to decide. Pure; says yes only where it is certain."""

from __future__ import annotations

from ohmo.permissions.rules import Rule


def shadows(higher: Rule, lower: Rule) -> bool:
    """Whether everything that ``lower`` could decide is decided by ``higher`` before it. ``higher``
    stands in a list that beats the other's, or says the same."""
    if not higher.names(lower.tool):
        return False
    if higher.pattern is None or higher.pattern == lower.pattern:
        return True
    if lower.pattern is None or higher.tool != lower.tool:
        return False
    return (_command if lower.tool == "Bash" else _path)(higher.pattern, lower.pattern)


def _command(higher: str, lower: str) -> bool:
    """``git:*`` is before ``git status:*`` and ``git status``."""
    if not higher.endswith(":*"):
        return False
    begins, words = higher.removesuffix(":*").split(), lower.removesuffix(":*").split()
    return words[: len(begins)] == begins


def _path(higher: str, lower: str) -> bool:
    """``/srv/**`` is before ``/srv/a/*.txt``, not before ``/srv/../etc``."""
    if not higher.endswith("/**") or any(sign in higher[:-3] for sign in "*?["):
        return False
    return lower.startswith(higher[:-2]) and ".." not in lower.split("/")
