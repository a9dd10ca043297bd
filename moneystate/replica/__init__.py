"""The replica: a versioned copy of the state in RocksDB, fed by the changelog (docs/model.md section 6)."""
