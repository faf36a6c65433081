-- The ledger of one run. Integers of states and kinds are those of headrace.values (State, UnitKind): never renumbered.
-- Large columns stand last, so that counting does not read them.

CREATE TABLE meta (
    key TEXT PRIMARY KEY,
    value TEXT NOT NULL                -- JSON
) WITHOUT ROWID;

-- A configuration that made answers. The first is the one that the run was started with.
CREATE TABLE config (
    id INTEGER PRIMARY KEY,
    made_at REAL NOT NULL,             -- Unix seconds
    content_hash TEXT NOT NULL,
    content TEXT NOT NULL,             -- JSON: the keys that decide answers
    operating TEXT NOT NULL            -- JSON: the others; where secrets stand, never what they are
);

CREATE TABLE endpoint (
    id INTEGER PRIMARY KEY,
    identity TEXT NOT NULL UNIQUE,
    name TEXT NOT NULL
);

-- One input record. file 0 is records.jsonl in the run folder, others are the input's files in order.
CREATE TABLE item (
    seq INTEGER PRIMARY KEY,           -- from 0, the order of the output
    file INTEGER NOT NULL,
    offset INTEGER NOT NULL,
    length INTEGER NOT NULL,
    number INTEGER NOT NULL,           -- 1-based line, or record number
    readable INTEGER NOT NULL,         -- 0: no record could be made of these bytes
    notes INTEGER NOT NULL,            -- bits, see headrace.ledger.notes
    id TEXT,                           -- JSON; null: the number
    error TEXT                         -- "kind: cause" of a rejected item
);

CREATE TABLE piece (
    item INTEGER NOT NULL,
    n INTEGER NOT NULL,
    unit INTEGER NOT NULL,
    PRIMARY KEY (item, n)
) WITHOUT ROWID;

-- One distinct request. item and n: the piece that it was first met in.
CREATE TABLE unit (
    seq INTEGER PRIMARY KEY,           -- from 0
    hash BLOB NOT NULL,                -- 16 bytes
    kind INTEGER NOT NULL,
    config INTEGER NOT NULL,
    item INTEGER NOT NULL,
    n INTEGER NOT NULL,
    state INTEGER NOT NULL,
    ask INTEGER NOT NULL,              -- 0, then one more for each re-ask
    spent INTEGER NOT NULL,            -- sends of this ask that count against max_attempts
    age REAL NOT NULL,                 -- seconds since the first send, without pauses and times without a process
    attempt INTEGER,                   -- the attempt whose reply is the answer, or the last one
    error TEXT                         -- "kind: cause" once failed or quarantined
);

-- One send. kind is null when its reply was accepted.
CREATE TABLE attempt (
    id INTEGER PRIMARY KEY,
    unit INTEGER NOT NULL,
    ask INTEGER NOT NULL,
    config INTEGER NOT NULL,
    endpoint INTEGER NOT NULL,
    started_at REAL NOT NULL,          -- Unix seconds
    seconds REAL NOT NULL,
    origin INTEGER NOT NULL,           -- headrace.values.Origin: sent, lost (possibly sent), reused (from another run)
    kind TEXT,
    sent TEXT NOT NULL,                -- no | maybe | yes
    status INTEGER,
    prompt_tokens INTEGER,
    completion_tokens INTEGER,
    cached_tokens INTEGER,
    reasoning_tokens INTEGER,
    notes INTEGER NOT NULL,
    finish TEXT,
    model TEXT,
    message TEXT,
    answer TEXT,                       -- JSON; null on an accepted attempt: the content itself, as a string
    content TEXT,                      -- as the server sent it; a lone surrogate stands as its three bytes
    reasoning TEXT,
    refusal TEXT
);

-- One second of one endpoint.
CREATE TABLE sample (
    at REAL NOT NULL,
    endpoint INTEGER NOT NULL,
    window INTEGER NOT NULL,
    in_flight INTEGER NOT NULL,
    settled INTEGER NOT NULL,
    retries INTEGER NOT NULL,
    paused INTEGER NOT NULL,
    lag REAL NOT NULL,
    bound_by TEXT
);

-- Log-probabilities that were asked for with an attempt.
CREATE TABLE score (
    attempt INTEGER PRIMARY KEY,
    confidence REAL,                   -- an accepted label's share of the probability
    likeliest TEXT NOT NULL            -- JSON: [[token, natural logarithm of its probability], …], likeliest first
);

-- What an attempt that may have been billed and came without usage may have taken at most, in tokens.
CREATE TABLE bound (
    attempt INTEGER PRIMARY KEY,
    prompt INTEGER NOT NULL,
    completion INTEGER NOT NULL
);

-- What the pieces of a divided item hold of its fields.
CREATE TABLE slice (
    item INTEGER NOT NULL,
    n INTEGER NOT NULL,
    field TEXT NOT NULL,
    start INTEGER NOT NULL,            -- code points
    stop INTEGER NOT NULL,
    gap INTEGER NOT NULL,              -- the white space behind it, see headrace.slicing.gaps
    PRIMARY KEY (item, n, field)
) WITHOUT ROWID;

-- Which divided items a unit is a piece of, or joins answers of.
CREATE TABLE member (
    unit INTEGER NOT NULL,
    item INTEGER NOT NULL,
    PRIMARY KEY (unit, item)
) WITHOUT ROWID;

-- A unit that joins the answers from first up to stop of the level below; level 0 are the pieces.
CREATE TABLE reduction (
    item INTEGER NOT NULL,
    level INTEGER NOT NULL,            -- from 1
    n INTEGER NOT NULL,
    first INTEGER NOT NULL,
    stop INTEGER NOT NULL,
    is_last INTEGER NOT NULL,          -- 1: it gives the item's answer
    unit INTEGER NOT NULL,
    PRIMARY KEY (item, level, n)
) WITHOUT ROWID;

-- Units that join answers, to be found again: equal questions are asked once.
CREATE TABLE made (
    hash BLOB NOT NULL,
    unit INTEGER NOT NULL,
    PRIMARY KEY (hash, unit)
) WITHOUT ROWID;

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

-- What a record of the eval set came to, as it was scored last.
CREATE TABLE grade (
    key TEXT PRIMARY KEY,              -- by what the same record is known in another run
    expected TEXT NOT NULL,            -- JSON
    answer TEXT,                       -- JSON
    score REAL,                        -- 0 to 1; null: none
    error TEXT,                        -- "kind: cause" where there is no score, or a wrong answer is none
    grouped TEXT                       -- JSON: whose it is, where records are not independent
) WITHOUT ROWID;
