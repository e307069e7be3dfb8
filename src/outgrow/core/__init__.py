"""What things are and what should happen: values and pure functions, nothing of the world."""
