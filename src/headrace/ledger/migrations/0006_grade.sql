-- What a record of the eval set came to, as it was scored last.
CREATE TABLE grade (
    key TEXT PRIMARY KEY,              -- by what the same record is known in another run
    expected TEXT NOT NULL,            -- JSON
    answer TEXT,                       -- JSON
    score REAL,                        -- 0 to 1; null: none
    error TEXT,                        -- "kind: cause" where there is no score, or a wrong answer is none
    grouped TEXT                       -- JSON: whose it is, where records are not independent
) WITHOUT ROWID;
