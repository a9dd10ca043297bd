"""The replica: a versioned copy of the state in RocksDB, fed by the changelog (DESIGN.md section 6)."""
