"""Money enrichment: each money event with its session and with what is known of its user at that time."""
