"""What something cost, in words."""

from __future__ import annotations


def cost_words(micro_usd: int | None, unpriced: int) -> str:
    """``$0.0123``; ``price unknown``; or both, where the price of ``unpriced`` of the calls is not
    known."""
    if unpriced and not micro_usd:
        return "price unknown"
    known = f"${(micro_usd or 0) / 1e6:.4f}"
    return (
        f"{known} and {unpriced} call{'' if unpriced == 1 else 's'} of unknown price"
        if unpriced
        else known
    )
