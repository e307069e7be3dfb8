"""The loop that guards jobs, and the saga that rescues them."""
