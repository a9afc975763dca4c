"""What hosts deliver: taken in, bounded, kept as recordings."""
