"""What runs have to say when they are over: read only, from ledgers and archives alone."""
