"""Tools that work on the state of a stopped or running job from outside."""
