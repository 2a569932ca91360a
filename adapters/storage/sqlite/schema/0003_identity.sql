-- Who calls, with what, what they did and what they used. Times are as in 0001.

CREATE TABLE users (
	id       TEXT    NOT NULL PRIMARY KEY,
	folded   TEXT    NOT NULL UNIQUE, -- the name as names are compared
	name     TEXT    NOT NULL,
	role     TEXT    NOT NULL,
	disabled INTEGER NOT NULL,
	created  TEXT    NOT NULL
) STRICT;

CREATE TABLE keys (
	id      TEXT NOT NULL PRIMARY KEY,
	owner   TEXT NOT NULL,
	created TEXT NOT NULL,
	hash    BLOB NOT NULL, -- SHA-256 of the secret
	used    TEXT,          -- apart from the document, as it changes often
	key     TEXT NOT NULL  -- JSON
) STRICT;

CREATE INDEX keys_owner ON keys (owner, created, id);

-- The token that makes the first administrator: one row at most.
CREATE TABLE setup (
	one   INTEGER NOT NULL PRIMARY KEY CHECK (one = 1),
	hash  BLOB    NOT NULL,
	until TEXT    NOT NULL
) STRICT;

CREATE TABLE audit (
	number    INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
	at        TEXT    NOT NULL,
	principal BLOB    NOT NULL, -- texts as they are, in any encoding
	credential BLOB   NOT NULL,
	action    TEXT    NOT NULL,
	target    BLOB    NOT NULL,
	place     BLOB    NOT NULL,
	code      BLOB    NOT NULL,
	outcome   TEXT    NOT NULL
) STRICT;

CREATE INDEX audit_at        ON audit (at, number);
CREATE INDEX audit_principal ON audit (principal, at, number);

CREATE TRIGGER audit_is_append_only BEFORE UPDATE ON audit
BEGIN SELECT RAISE(ABORT, 'a record of the audit log is never changed'); END;

CREATE TABLE spending (
	owner TEXT    NOT NULL,
	began TEXT    NOT NULL,
	ns    INTEGER NOT NULL, -- processor time
	PRIMARY KEY (owner, began)
) STRICT, WITHOUT ROWID;

CREATE TABLE holdings (
	run   TEXT    NOT NULL PRIMARY KEY,
	owner TEXT    NOT NULL,
	bytes INTEGER NOT NULL,
	since TEXT    NOT NULL
) STRICT;

CREATE INDEX holdings_owner ON holdings (owner, since, run, bytes); -- with bytes, as they are summed up for each file
