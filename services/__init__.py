"""The services that come with the platform, one folder each."""
