"""Fuzzing: whatever the bytes are, a decoder returns a value or raises its documented exception."""
