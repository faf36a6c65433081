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
