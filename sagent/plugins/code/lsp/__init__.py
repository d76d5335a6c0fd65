"""Language servers: found on this machine, started on demand, asked for errors and symbols."""
