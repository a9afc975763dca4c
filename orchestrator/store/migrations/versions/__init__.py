"""One step a file. A step that was released never changes: it knows its own tables, not today's."""
