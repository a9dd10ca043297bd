"""A replica of the state: follows the changelog, keeps versions, answers reads (DESIGN.md section 6)."""
