"""What people have set up for other programs, read and turned into settings of ours. Nothing of it is run."""
