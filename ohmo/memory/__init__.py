"""Memory: what people asked to be remembered, as plain files that they may read and edit."""
