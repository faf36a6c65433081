-- What a server said of its load in a second that was sampled; the load of all its clients.
CREATE TABLE load (
    at REAL NOT NULL,                  -- as in sample
    endpoint INTEGER NOT NULL,
    waiting INTEGER,                   -- requests
    kv_used REAL                       -- share of its KV cache
);

-- How long the server itself says that it computed for an attempt, in seconds.
CREATE TABLE timing (
    attempt INTEGER PRIMARY KEY,
    prompt REAL NOT NULL,
    generation REAL NOT NULL
);
