"""What all of the runtime stands on: messages, progress, the tables that a project hands over."""
