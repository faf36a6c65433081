-- Log-probabilities that were asked for with an attempt.
CREATE TABLE score (
    attempt INTEGER PRIMARY KEY,
    confidence REAL,                   -- an accepted label's share of the probability
    likeliest TEXT NOT NULL            -- JSON: [[token, natural logarithm of its probability], …], likeliest first
);
