"""Change data capture: change events of several tables become what happened."""
