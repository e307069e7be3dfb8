"""What writes processes down and brings them back."""
