"""For authors of channels and tools: a platform in memory, a scripted model, and the whole house
over both.

Not part of the product: nothing in ``ohmo`` or ``channels`` imports it, and no package of ohmo
contains it."""
