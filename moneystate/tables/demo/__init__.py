"""The demo of tables: a service, and the story that it is shown with."""
