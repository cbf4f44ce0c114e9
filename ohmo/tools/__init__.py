"""What the model may do: one file per tool, each exporting ``TOOL``, a factory that takes the
workbench."""
