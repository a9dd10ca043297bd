"""Folders of checkpoints and savepoints: on this machine, or in a store that Hadoop's file systems reach."""
