"""Care of the store's file: opened and checked, locked, backed up, restored, salvaged, moved."""
