"""What a project's programs call: command lines, start and stop, evaluation, prediction."""
