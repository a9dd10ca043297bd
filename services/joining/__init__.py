"""Parts of one result from several services, joined by id (docs/joining.md)."""
