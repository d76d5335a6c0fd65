"""What is known of code beyond its text."""
