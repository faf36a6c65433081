-- Every statement of the ledger, by name: "-- name: what it is for".
-- A missing text is bound as 0 and a missing number as '' (see headrace.ledger.rows): binding null costs ten times as much.

-- insert_item: one input record
INSERT INTO item (seq, file, offset, length, number, readable, notes, id, error)
VALUES (?, ?, ?, ?, ?, ?, ?, nullif(?, 0), nullif(?, 0));

-- insert_piece: which unit answers a slice of an item
INSERT INTO piece (item, n, unit) VALUES (?, ?, ?);

-- insert_slice: what a piece of a divided item holds of a field
INSERT INTO slice (item, n, field, start, stop, gap) VALUES (?, ?, ?, ?, ?, ?);

-- insert_member: which divided item a unit is a piece of
INSERT OR IGNORE INTO member (unit, item) VALUES (?, ?);

-- insert_made: a unit that joins answers, to be found by what it asks
INSERT INTO made (hash, unit) VALUES (?, ?);

-- made: the unit that asks this
SELECT unit.seq FROM made JOIN unit ON unit.seq = made.unit WHERE made.hash = ? AND unit.hash = made.hash LIMIT 1;

-- insert_reduction: what a unit joins
INSERT INTO reduction (item, level, n, first, stop, is_last, unit) VALUES (?, ?, ?, ?, ?, ?, ?);

-- insert_unit: a distinct request, pending
INSERT INTO unit (seq, hash, kind, config, item, n, state, ask, spent, age) VALUES (?, ?, ?, ?, ?, ?, 0, 0, 0, 0);

-- lease_range: leases of units that follow each other
UPDATE unit SET state = 1 WHERE (seq BETWEEN ? AND ?) AND state = 0;

-- release: a leased unit that was not sent, or one whose send decided nothing about it, goes back
UPDATE unit SET state = 0 WHERE seq = ? AND state = 1;

-- reopen: a unit that failed because the configuration is wrong goes back to pending
UPDATE unit SET state = 0, ask = 0, spent = 0, age = 0, error = NULL WHERE seq = ?;

-- insert_attempt: one send
INSERT INTO attempt (id, unit, ask, config, endpoint, started_at, seconds, origin, kind, sent, status, prompt_tokens,
    completion_tokens, cached_tokens, reasoning_tokens, notes, finish, model, message, answer, content, reasoning, refusal)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, nullif(?, 0), ?, nullif(?, ''), nullif(?, ''), nullif(?, ''), nullif(?, ''), nullif(?, ''), ?,
    nullif(?, 0), nullif(?, 0), nullif(?, 0), nullif(?, 0), nullif(?, 0), nullif(?, 0), nullif(?, 0));

-- insert_score: the log-probabilities that came with a send
INSERT INTO score (attempt, confidence, likeliest) VALUES (?, nullif(?, ''), ?);

-- insert_bound: what a send of unknown use may have taken at most
INSERT INTO bound (attempt, prompt, completion) VALUES (?, ?, ?);

-- insert_timing: how long the server says that it computed
INSERT INTO timing (attempt, prompt, generation) VALUES (?, ?, ?);

-- settle: what became of a unit after an attempt; an upsert, so that one statement serves many (the unit is always there). A negative attempt stands in where there is none yet
INSERT INTO unit (seq, config, state, ask, spent, age, attempt, error, hash, kind, item, n)
VALUES (?, ?, ?, ?, ?, ?, ?, nullif(?, 0), '', 0, 0, 0)
ON CONFLICT (seq) DO UPDATE SET config = excluded.config, state = excluded.state, ask = excluded.ask,
    spent = excluded.spent, age = excluded.age, error = excluded.error,
    attempt = CASE WHEN excluded.attempt < 0 THEN coalesce(attempt, -excluded.attempt) ELSE excluded.attempt END;

-- settle_unsent: what became of a unit without another send
UPDATE unit SET state = ?, ask = ?, spent = ?, age = ?, error = nullif(?, 0) WHERE seq = ?;

-- insert_sample: one second of one endpoint
INSERT INTO sample (at, endpoint, window, in_flight, settled, retries, paused, lag, bound_by)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, nullif(?, 0));

-- insert_load: what a server said of its load in that second
INSERT INTO load (at, endpoint, waiting, kv_used) VALUES (?, ?, ?, ?);

-- put_meta: a fact about the run
INSERT INTO meta (key, value) VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value;

-- get_meta: a fact about the run
SELECT value FROM meta WHERE key = ?;

-- insert_config: a configuration
INSERT INTO config (made_at, content_hash, content, operating) VALUES (?, ?, ?, ?);

-- configs: all configurations, the first first
SELECT id, made_at, content_hash, content, operating FROM config ORDER BY id;

-- put_endpoint: who answers
INSERT INTO endpoint (identity, name) VALUES (?, ?) ON CONFLICT (identity) DO UPDATE SET name = excluded.name;

-- get_endpoint: the number of who answers
SELECT id FROM endpoint WHERE identity = ?;

-- answerers: who gave accepted answers
SELECT identity FROM endpoint WHERE EXISTS
    (SELECT 1 FROM unit JOIN attempt ON attempt.id = unit.attempt WHERE unit.state = 2 AND attempt.endpoint = endpoint.id);

-- answering: whose answers stand among the latest sends under a configuration
SELECT DISTINCT endpoint FROM (SELECT endpoint, config, kind, origin FROM attempt ORDER BY id DESC LIMIT 1000)
WHERE config = ? AND kind IS NULL AND origin = 0;

-- pending: units to be sent, with the place of the record that they are rendered from
SELECT unit.seq, unit.hash, unit.item, unit.n, unit.kind, unit.config, unit.ask, unit.spent, unit.age, unit.attempt,
    item.file, item.offset, item.length
FROM unit JOIN item ON item.seq = unit.item
WHERE unit.seq > ? AND unit.seq < 2147483648 AND unit.state = 0 ORDER BY unit.seq LIMIT ?;

-- count_made: units made of answers
SELECT count(*) FROM unit WHERE seq >= 2147483648;

-- pending_made: units made of answers that are to be sent
SELECT seq FROM unit WHERE seq >= 2147483648 AND state = 0 ORDER BY seq;

-- members: the divided items that a unit is a piece of, or joins answers of
SELECT item FROM member WHERE unit = ? ORDER BY item;

-- top_level: the highest level of an item, and whether it is the last one
SELECT level, is_last FROM reduction WHERE item = ? ORDER BY level DESC LIMIT 1;

-- open_piece: whether a piece of an item has no answer yet; the last pieces are mostly the last to get theirs
SELECT 1 FROM piece JOIN unit ON unit.seq = piece.unit WHERE piece.item = ? AND unit.state <> 2 ORDER BY piece.n DESC LIMIT 1;

-- open_reduction: the same for a level
SELECT 1 FROM reduction JOIN unit ON unit.seq = reduction.unit
WHERE reduction.item = ? AND reduction.level = ? AND unit.state <> 2 ORDER BY reduction.n DESC LIMIT 1;

-- piece_answers: the answers to some of an item's pieces, in order
SELECT attempt.answer, attempt.content FROM piece JOIN unit ON unit.seq = piece.unit JOIN attempt ON attempt.id = unit.attempt
WHERE piece.item = ? AND piece.n >= ? AND piece.n < ? ORDER BY piece.n;

-- level_answers: the answers to some of a level's requests, in order
SELECT attempt.answer, attempt.content
FROM reduction JOIN unit ON unit.seq = reduction.unit JOIN attempt ON attempt.id = unit.attempt
WHERE reduction.item = ? AND reduction.n >= ? AND reduction.n < ? AND reduction.level = ? ORDER BY reduction.n;

-- place_of: where an item's record lies
SELECT file, offset, length, number FROM item WHERE seq = ?;

-- slices: what the pieces of an item hold
SELECT item, n, field, start, stop, gap FROM slice WHERE item = ? ORDER BY n, field;

-- reduction: what a unit joins
SELECT level, n, first, stop, is_last FROM reduction WHERE item = ? AND unit = ?;

-- pending_these: of these units those to be sent, in any order
SELECT unit.seq, unit.hash, unit.item, unit.n, unit.kind, unit.config, unit.ask, unit.spent, unit.age, unit.attempt,
    item.file, item.offset, item.length
FROM unit JOIN item ON item.seq = unit.item
WHERE unit.seq IN (?) AND unit.state = 0;

-- pending_of_kind: units of the run's own kinds that are to be sent
SELECT seq, hash, n, config, ask, spent, age FROM unit WHERE kind = ? AND state = 0 AND seq > ? ORDER BY seq;

-- failed_of_kind: units of one of the run's own kinds that came to nothing, and why
SELECT seq, error FROM unit WHERE kind = ? AND state IN (3, 4) ORDER BY seq;

-- of_kind: units of one of the run's own kinds, and their replies' log-probabilities
SELECT unit.hash, unit.state, score.likeliest FROM unit LEFT JOIN score ON score.attempt = unit.attempt
WHERE unit.kind = ? ORDER BY unit.seq;

-- leased: units that a dead process may have sent
SELECT seq, ask, config, spent, age FROM unit WHERE state = 1 ORDER BY seq;

-- leased_records: units of the job itself that a dead process may have sent, with the place of the record they are rendered from
SELECT unit.seq, unit.hash, unit.item, unit.n, unit.kind, unit.config, unit.ask, unit.spent, unit.age, unit.attempt,
    item.file, item.offset, item.length
FROM unit JOIN item ON item.seq = unit.item
WHERE unit.state = 1 ORDER BY unit.seq;

-- repeatable: answered units of the job itself in the order of their hashes, with the place of the record they are rendered from
SELECT unit.seq, unit.hash, unit.item, unit.n, unit.kind, unit.config, unit.ask, unit.spent, unit.age, unit.attempt,
    item.file, item.offset, item.length
FROM unit JOIN item ON item.seq = unit.item
WHERE unit.state = 2 AND unit.kind = 0 ORDER BY unit.hash LIMIT ?;

-- commonest_answer: of the first so many units of the job itself that were answered, and the answer that most of them got
WITH answered AS (
    SELECT coalesce(attempt.answer, attempt.content) AS answer FROM unit JOIN attempt ON attempt.id = unit.attempt
    WHERE unit.state = 2 AND unit.kind = 0 ORDER BY unit.seq LIMIT ?
)
SELECT (SELECT count(*) FROM answered), count(*), answer FROM answered GROUP BY answer ORDER BY 2 DESC LIMIT 1;

-- piece_counts: how many pieces each item has
SELECT item, count(*) FROM piece GROUP BY item;

-- answer_of: a unit's accepted answer
SELECT attempt.answer, attempt.content FROM unit JOIN attempt ON attempt.id = unit.attempt WHERE unit.seq = ?;

-- next_item: the number of the next item
SELECT coalesce(max(seq) + 1, 0) FROM item;

-- next_unit: the number of the next unit
SELECT coalesce(max(seq) + 1, 0) FROM unit WHERE seq < 2147483648;

-- next_made: the number of the next unit that is made of answers
SELECT max(coalesce(max(seq) + 1, 0), 2147483648) FROM unit;

-- next_attempt: the number of the next attempt
SELECT coalesce(max(id) + 1, 1) FROM attempt;

-- hashes: all hashes, in order
SELECT hash FROM unit ORDER BY seq;

-- read_hashes: the hashes of units that were read, in order
SELECT hash FROM unit WHERE seq < 2147483648 ORDER BY seq;

-- hash_of: some units' hashes
SELECT seq, hash FROM unit WHERE seq IN (?);

-- open_configs: the configurations under which units are to be asked that are not settled
SELECT DISTINCT config FROM unit WHERE state < 2 AND kind < 2 ORDER BY config;

-- unsettled: how many units of the job itself are not settled
SELECT count(*) FROM unit WHERE state < 2 AND kind < 2;

-- unsettled_of_kind: how many units of one of the run's own kinds are not settled
SELECT count(*) FROM unit WHERE state < 2 AND kind = ?;

-- count_items: items and rejects
SELECT count(*), count(error) FROM item;

-- count_pieces: pieces
SELECT count(*) FROM piece;

-- count_units: units of the job itself by state
SELECT state, count(*) FROM unit WHERE kind < 2 GROUP BY state;

-- unit_figures: all units, those done, those leased, those with an attempt; of the job itself all, those done, those read
SELECT count(*), count(*) FILTER (WHERE state = 2), count(*) FILTER (WHERE state = 1), count(attempt),
    count(*) FILTER (WHERE kind < 2), count(*) FILTER (WHERE kind < 2 AND state = 2), count(*) FILTER (WHERE kind = 0)
FROM unit;

-- count_item_states: items whose unit is done, failed, quarantined
SELECT count(*) FILTER (WHERE unit.state = 2), count(*) FILTER (WHERE unit.state = 3), count(*) FILTER (WHERE unit.state = 4)
FROM piece JOIN unit ON unit.seq = piece.unit WHERE piece.n = 0;

-- count_first_pieces: items that have a unit
SELECT count(*) FROM piece WHERE n = 0;

-- accepted_attempts: sums over the accepted answers of a part, and one by one their microseconds and their contexts' tokens
SELECT count(*), total(prompt_tokens), total(completion_tokens), total(cached_tokens),
    count(coalesce(prompt_tokens, completion_tokens)), min(started_at), max(started_at + seconds),
    group_concat(CAST(seconds * 1000000 + 0.5 AS INTEGER)), group_concat(CAST(prompt_tokens + coalesce(completion_tokens, 0) AS INTEGER))
FROM attempt WHERE id BETWEEN :first AND :last AND kind IS NULL AND origin = 0;

-- other_attempts: the same sums of the other attempts of a part, by what they are
SELECT kind, origin, sent, count(*), total(prompt_tokens), total(completion_tokens), total(cached_tokens),
    count(coalesce(prompt_tokens, completion_tokens)), min(started_at), max(started_at + seconds)
FROM attempt WHERE id BETWEEN :first AND :last AND NOT (kind IS NULL AND origin = 0) GROUP BY kind, origin, sent;

-- known_uses: what sends of a part took, those alike together; `tier`: how many of the thresholds their prompt exceeds
SELECT config, endpoint, kind IS NULL,
    CASE WHEN :thresholds = '[]' THEN 0 ELSE (SELECT count(*) FROM json_each(:thresholds) WHERE value < prompt_tokens) END AS tier,
    count(*), total(prompt_tokens), total(completion_tokens), total(min(coalesce(cached_tokens, 0), prompt_tokens)),
    total(reasoning_tokens) FILTER (WHERE reasoning_tokens <= completion_tokens),
    total(reasoning_tokens) FILTER (WHERE reasoning_tokens > completion_tokens)
FROM attempt WHERE id BETWEEN :first AND :last AND origin <> 2 AND prompt_tokens IS NOT NULL AND completion_tokens IS NOT NULL
GROUP BY 1, 2, 3, 4;

-- unknown_uses: sends of a part whose use is not known, those alike together, and what each may have taken at most
SELECT config, endpoint, kind, sent, bound.attempt IS NOT NULL, coalesce(prompt_tokens, bound.prompt), coalesce(completion_tokens, bound.completion), count(*)
FROM attempt LEFT JOIN bound ON bound.attempt = attempt.id
WHERE id BETWEEN :first AND :last AND origin <> 2 AND (prompt_tokens IS NULL OR completion_tokens IS NULL)
GROUP BY 1, 2, 3, 4, 5, 6, 7;

-- sends: the requests of a part
SELECT count(*) FROM attempt WHERE id BETWEEN :first AND :last AND origin <> 2 AND sent <> 'no';

-- endpoints: who answers
SELECT id, identity FROM endpoint ORDER BY id;

-- asks: the unit and the ask of each send of a part
SELECT group_concat(unit), group_concat(ask) FROM attempt WHERE id BETWEEN :first AND :last AND origin = 0;

-- samples: concurrency over time
SELECT sum(n), count(*), max(n), max(lag) FROM (SELECT sum(in_flight) AS n, max(lag) AS lag FROM sample GROUP BY at);

-- last_sample: where it stands
SELECT at, sum(window), sum(in_flight), bound_by, paused FROM sample
WHERE at = (SELECT at FROM sample ORDER BY rowid DESC LIMIT 1) GROUP BY at;

-- bounds: what bound the run, in seconds
SELECT bound_by, count(*) FROM sample GROUP BY bound_by ORDER BY 2 DESC;

-- config_numbers: the configurations
SELECT id FROM config ORDER BY id;

-- answers_by_config: how many answers came from which configuration
SELECT config, count(*) FROM unit WHERE state = 2 AND kind < 2 GROUP BY config ORDER BY config;

-- failed_units: units that failed or were quarantined, by their error
SELECT unit.state, unit.error, count(*), min(piece.item), max(piece.item)
FROM unit JOIN piece ON piece.unit = unit.seq WHERE unit.state IN (3, 4) GROUP BY unit.state, unit.error ORDER BY 3 DESC;

-- rejected_items: rejected items, by their error
SELECT error, count(*), min(seq), max(seq) FROM item WHERE error IS NOT NULL GROUP BY error ORDER BY 2 DESC;

-- item_names: how people know an item
SELECT seq, number, id FROM item WHERE seq = ?;

-- item_of_unit: the item that a unit of the job itself was first met in
SELECT item FROM unit WHERE seq = ? AND kind < 2;

-- kind_of_unit: what a unit was asked for
SELECT kind FROM unit WHERE seq = ?;

-- rows: everything that the output says, one row an item, in order
SELECT item.seq, item.file, item.offset, item.length, item.number, item.readable, item.notes, item.id, item.error,
    unit.seq, unit.state, unit.error, unit.hash,
    attempt.notes, attempt.answer, attempt.content, attempt.model, attempt.prompt_tokens, attempt.completion_tokens,
    attempt.cached_tokens, attempt.seconds, attempt.reasoning, score.confidence
FROM item
LEFT JOIN piece ON piece.item = item.seq AND piece.n = 0
LEFT JOIN unit ON unit.seq = piece.unit
LEFT JOIN attempt ON attempt.id = unit.attempt
LEFT JOIN score ON score.attempt = unit.attempt
WHERE item.seq BETWEEN ? AND ? ORDER BY item.seq;

-- short_rows: what an output without details says; see headrace.ledger.reader.ShortRow
SELECT item.seq, item.file, item.offset, item.length,
    (1 - 2 * (item.readable = 0)) * (16 * (item.notes | coalesce(attempt.notes, 0)) + 8 * (item.error IS NOT NULL)
        + coalesce(unit.state, 0)) - (item.readable = 0),
    coalesce(item.error, unit.error),
    CASE WHEN unit.state = 2 THEN CAST(attempt.answer AS BLOB) END,
    CASE WHEN unit.state = 2 AND attempt.answer IS NULL THEN attempt.content END
FROM item
LEFT JOIN piece ON piece.item = item.seq AND piece.n = 0
LEFT JOIN unit ON unit.seq = piece.unit
LEFT JOIN attempt ON attempt.id = unit.attempt
ORDER BY item.seq;

-- count_sends_of_many: how often a unit was sent, of those that were sent more than once
SELECT unit, count(*) FROM attempt WHERE origin = 0 GROUP BY unit HAVING count(*) <> 1;

-- count_unreadable: items of which no record could be made
SELECT count(*) FROM item WHERE readable = 0;

-- last_reply: the reply that a re-ask answers
SELECT content, finish, reasoning, refusal, kind, message FROM attempt WHERE id = ?;

-- unit_seqs: the numbers of all units, in the order of `hashes`
SELECT seq FROM unit ORDER BY seq;

-- reusable: a unit's accepted or judged reply, for another run
SELECT unit.seq, unit.hash, attempt.content, attempt.finish, attempt.reasoning, attempt.refusal, attempt.model,
    attempt.prompt_tokens, attempt.completion_tokens, attempt.cached_tokens, attempt.reasoning_tokens, attempt.seconds,
    attempt.started_at, endpoint.identity, attempt.config, score.likeliest
FROM unit JOIN attempt ON attempt.id = unit.attempt JOIN endpoint ON endpoint.id = attempt.endpoint
    LEFT JOIN score ON score.attempt = unit.attempt
WHERE unit.seq = ? AND unit.state IN (2, 4) AND coalesce(attempt.content, score.likeliest) IS NOT NULL;

-- retryable: units that failed or were quarantined, with the place of their record
SELECT unit.seq, unit.error, unit.item, item.file, item.offset, item.length, unit.kind, unit.n
FROM unit JOIN item ON item.seq = unit.item WHERE unit.state IN (3, 4) ORDER BY unit.seq;

-- retryable_items: rejected items of which a record could be made
SELECT seq, error, file, offset, length FROM item WHERE error IS NOT NULL AND readable = 1 ORDER BY seq;

-- divided_states: items whose pieces and joins are all done, of which one failed, of which one was quarantined
SELECT count(*) FILTER (WHERE is_open = 0 AND has_failed = 0 AND is_odd = 0), count(*) FILTER (WHERE is_open = 0 AND has_failed),
    count(*) FILTER (WHERE is_open = 0 AND has_failed = 0 AND is_odd)
FROM (SELECT max(coalesce(p.is_open, 0), coalesce(r.is_open, 0)) AS is_open,
        max(p.has_failed, coalesce(r.has_failed, 0)) AS has_failed, max(p.is_odd, coalesce(r.is_odd, 0)) AS is_odd
    FROM (SELECT piece.item, max(unit.state < 2) AS is_open, max(unit.state = 3) AS has_failed, max(unit.state = 4) AS is_odd
            FROM piece JOIN unit ON unit.seq = piece.unit GROUP BY piece.item) AS p
        LEFT JOIN (SELECT reduction.item, max(unit.state < 2) AS is_open, max(unit.state = 3) AS has_failed,
                max(unit.state = 4) AS is_odd
            FROM reduction JOIN unit ON unit.seq = reduction.unit GROUP BY reduction.item) AS r ON r.item = p.item);

-- count_divided: divided items, and requests that join answers
SELECT (SELECT count(*) FROM piece WHERE n = 1), (SELECT count(*) FROM unit WHERE seq >= 2147483648);

-- count_cut: items of which something was cut off
SELECT count(*) FROM item WHERE notes & 1;

-- failed_pieces: pieces and joins that failed or were quarantined, by their error, and in how many items
SELECT state, error, count(DISTINCT item), min(item), max(item) FROM (
    SELECT unit.state, unit.error, piece.item FROM unit JOIN piece ON piece.unit = unit.seq WHERE unit.state IN (3, 4)
    UNION ALL
    SELECT unit.state, unit.error, reduction.item FROM reduction JOIN unit ON unit.seq = reduction.unit WHERE unit.state IN (3, 4))
GROUP BY state, error ORDER BY 3 DESC;

-- piece_rows: as `rows`, one row a piece
SELECT item.seq, item.file, item.offset, item.length, item.number, item.readable, item.notes, item.id, item.error,
    unit.seq, unit.state, unit.error, unit.hash,
    attempt.notes, attempt.answer, attempt.content, attempt.model, attempt.prompt_tokens, attempt.completion_tokens,
    attempt.cached_tokens, attempt.seconds, attempt.reasoning, score.confidence
FROM item
LEFT JOIN piece ON piece.item = item.seq
LEFT JOIN unit ON unit.seq = piece.unit
LEFT JOIN attempt ON attempt.id = unit.attempt
LEFT JOIN score ON score.attempt = unit.attempt
WHERE item.seq BETWEEN ? AND ? ORDER BY item.seq, piece.n;

-- reduction_rows: the same of what joins answers, one row a request
SELECT item.seq, item.file, item.offset, item.length, item.number, item.readable, item.notes, item.id, item.error,
    unit.seq, unit.state, unit.error, unit.hash,
    attempt.notes, attempt.answer, attempt.content, attempt.model, attempt.prompt_tokens, attempt.completion_tokens,
    attempt.cached_tokens, attempt.seconds, attempt.reasoning, score.confidence, reduction.level, reduction.is_last
FROM reduction
JOIN item ON item.seq = reduction.item
JOIN unit ON unit.seq = reduction.unit
LEFT JOIN attempt ON attempt.id = unit.attempt
LEFT JOIN score ON score.attempt = unit.attempt
WHERE reduction.item = ? ORDER BY reduction.level, reduction.n;

-- gaps: the white space behind each of an item's pieces
SELECT max(gap) FROM slice WHERE item = ? GROUP BY n ORDER BY n;

-- piece_hashes: what each item asked, one row a piece
SELECT item.seq, item.id, item.number, unit.hash, item.error FROM item
LEFT JOIN piece ON piece.item = item.seq LEFT JOIN unit ON unit.seq = piece.unit ORDER BY item.seq, piece.n;

-- requeue: a failed or quarantined unit is to be sent again, under this hash and configuration
UPDATE unit SET state = 0, ask = 0, spent = 0, age = 0, error = NULL, hash = ?, config = ? WHERE seq = ?;

-- requeue_item: a rejected item has become a request
UPDATE item SET error = NULL, notes = ? WHERE seq = ?;

-- item_hashes: what each item asked, to say what changed
SELECT item.id, item.number, unit.hash, item.error FROM item
LEFT JOIN piece ON piece.item = item.seq AND piece.n = 0 LEFT JOIN unit ON unit.seq = piece.unit ORDER BY item.seq;

-- suspects: how many endpoints are suspected of reading only a part of long prompts; see headrace.engine.preflight.CAP
SELECT count(*) FROM meta WHERE key LIKE 'input cap %';

-- mark_capped: accepted answers to prompts of which exactly so much was counted as their endpoint reads at most
UPDATE attempt SET notes = notes | ? WHERE kind IS NULL AND origin = 0 AND notes & ? = 0 AND EXISTS
    (SELECT 1 FROM meta WHERE key = 'input cap ' || attempt.endpoint AND value = CAST(attempt.prompt_tokens AS TEXT));

-- count_noted: items whose answer bears this note
SELECT count(*) FROM piece JOIN unit ON unit.seq = piece.unit JOIN attempt ON attempt.id = unit.attempt
WHERE piece.n = 0 AND unit.state = 2 AND attempt.notes & ?;

-- any_answer: whether there is at least one answer
SELECT 1 FROM unit WHERE state = 2 AND kind < 2 LIMIT 1;

-- count_answered: units of the job itself that have an attempt
SELECT count(*) FROM unit WHERE attempt IS NOT NULL AND kind = 0;

-- counted_answers: every so many-th unit of the first content whose first ask the server counted, with the place of its record
SELECT unit.hash, unit.item, unit.n, item.file, item.offset, item.length, endpoint.identity,
    attempt.prompt_tokens, attempt.completion_tokens
FROM unit JOIN attempt ON attempt.id = unit.attempt JOIN item ON item.seq = unit.item
    JOIN endpoint ON endpoint.id = attempt.endpoint
WHERE unit.kind = 0 AND attempt.ask = 0 AND attempt.prompt_tokens > 0 AND unit.seq % ? = 0
    AND unit.config IN (SELECT id FROM config WHERE content_hash = (SELECT content_hash FROM config ORDER BY id LIMIT 1))
ORDER BY unit.seq LIMIT ?;

-- settled_hashes: what the units of the job itself that are settled ask
SELECT hash FROM unit WHERE state >= 2 AND kind = 0;

-- count_joined: requests that join answers and are settled
SELECT count(*) FROM unit WHERE state >= 2 AND kind = 1;

-- open_hashes: what the units of the job itself that are not settled ask
SELECT hash FROM unit WHERE state < 2 AND kind = 0;

-- pace: seconds in which requests were settled, and how many
SELECT count(DISTINCT at), total(settled) FROM sample;

-- sent_within: sends, and the time from the first to the end of the last
SELECT count(*), max(started_at + seconds) - min(started_at) FROM attempt WHERE origin = 0;

-- loads: for each number in flight of an endpoint, the seconds that it stood at and what was settled in them
SELECT in_flight, count(*), sum(settled) FROM sample WHERE endpoint = ? AND NOT paused GROUP BY in_flight;

-- most_in_flight: the most that an endpoint had, and its window at last
SELECT max(in_flight), (SELECT window FROM sample WHERE endpoint = ? ORDER BY rowid DESC LIMIT 1) FROM sample WHERE endpoint = ?;

-- mean_lengths: tokens of prompts and answers of accepted answers of an endpoint, on average
SELECT avg(prompt_tokens), avg(completion_tokens) FROM attempt WHERE endpoint = ? AND kind IS NULL AND origin = 0;

-- accepted_uses: of each accepted answer when it came, how long it took, and its tokens; in the order in which they came
SELECT started_at + seconds, seconds, prompt_tokens, completion_tokens, cached_tokens FROM attempt
WHERE kind IS NULL AND origin = 0 ORDER BY id;

-- any_timing: whether a server said how long it computed
SELECT EXISTS (SELECT 1 FROM timing);

-- timings: of accepted answers how long they took, and how long the server says that it computed prompt and answer
SELECT seconds, prompt, generation FROM timing JOIN attempt ON attempt.id = timing.attempt WHERE kind IS NULL AND origin = 0;

-- forget_grades: before an eval set is scored anew
DELETE FROM grade;

-- insert_grade: what a record of the eval set came to
INSERT INTO grade (key, expected, answer, score, error, grouped) VALUES (?, ?, ?, ?, ?, ?);

-- grades: of a whole eval set
SELECT key, expected, answer, score, error, grouped FROM grade ORDER BY key;

-- answers_of_kind: what units of one of the run's own kinds came to
SELECT unit.hash, unit.state, unit.error, attempt.answer, attempt.content
FROM unit LEFT JOIN attempt ON attempt.id = unit.attempt WHERE unit.kind = ? ORDER BY unit.seq;

-- models: as what the servers answered
SELECT DISTINCT model FROM attempt WHERE kind IS NULL LIMIT 20;

-- timeline: the seconds in which a run was sending: window, in flight, settled, retries, whether an endpoint paused, what bound it
SELECT at, sum(window), sum(in_flight), sum(settled), sum(retries), max(paused), max(bound_by) FROM sample GROUP BY at ORDER BY at;

-- queues: seconds of which a server told its load, and those in which requests waited beside a KV cache used to less than a share
SELECT count(*), coalesce(sum(waiting > 0 AND kv_used < ?), 0) FROM load WHERE waiting IS NOT NULL AND kv_used IS NOT NULL;

-- says_cached: whether any answer told how much of its prompt came from a cache
SELECT EXISTS (SELECT 1 FROM attempt WHERE cached_tokens IS NOT NULL LIMIT 1);

-- bad_sends: when sends that brought no accepted answer began, and why they did not
SELECT started_at, kind FROM attempt WHERE kind IS NOT NULL AND origin = 0 ORDER BY id;

-- slowest: the accepted answers that took longest, with their units
SELECT unit, seconds, prompt_tokens, completion_tokens FROM attempt WHERE kind IS NULL AND origin = 0 ORDER BY seconds DESC LIMIT ?;
