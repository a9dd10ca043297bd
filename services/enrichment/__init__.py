"""Money enrichment: joins each money event with its session and with the user's data at that time."""
