"""Schema registries: their client, and values that name a schema in one (docs/model.md, section 4)."""
