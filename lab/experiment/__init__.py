"""What every experiment shares: how sure a number is, and what a claim needs in order to hold."""
