"""What the orchestrator looks at by itself, again and again."""
