"""Language servers: found on this machine, started when they are needed, asked for errors and symbols."""
