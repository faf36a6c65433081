-- What an attempt that may have been billed and came without usage may have taken at most, in tokens.
CREATE TABLE bound (
    attempt INTEGER PRIMARY KEY,
    prompt INTEGER NOT NULL,
    completion INTEGER NOT NULL
);
