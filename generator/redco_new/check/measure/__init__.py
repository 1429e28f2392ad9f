"""What is measured in processes of the project itself: child.py is their program."""
