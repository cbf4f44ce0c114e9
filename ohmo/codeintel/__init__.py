"""What names mean in source code: symbols, definitions, references. Knows text and trees, opens
nothing itself."""
