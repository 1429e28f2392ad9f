"""What a run was asked for, and the record of it: settings, run.json, the work folder's lock."""
