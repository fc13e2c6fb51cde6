"""The whole farm on one machine: its own server, a store in a folder, one worker process."""
