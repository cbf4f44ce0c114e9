"""How a shell command is read, and what its programs would do: no judgement, no configuration.

A line is read in ``parsing``: exactly as bash does it where it lies in the plain language
(``plain``), else with a grammar that errs on the side of more (``words``, ``scope``,
``wrappers``). It comes to a ``script.Script`` of simple commands. What a simple command opens when
it only reads stands in ``reading``; what it may do beside that in ``risks``. ``ohmo.permissions``
decides."""
