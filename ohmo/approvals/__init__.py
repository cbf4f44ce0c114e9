"""Questions to people: asked, shown as cards, answered, remembered, lapsed, and answered late."""
