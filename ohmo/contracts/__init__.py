"""Words of the house: types and protocols every room may know, and nothing that does anything."""
