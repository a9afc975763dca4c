"""What this project asks of itself."""
