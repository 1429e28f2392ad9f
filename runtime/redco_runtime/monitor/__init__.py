"""What a run says of itself: events, metrics, profiles."""
