-- Columns besides the documents are what is searched for; the documents hold everything.
-- Times are RFC 3339 in UTC with nine digits, so that they sort as text. COLLATE "C" sorts by bytes.

CREATE TABLE sessions (
	id      TEXT COLLATE "C" NOT NULL PRIMARY KEY,
	owner   TEXT COLLATE "C" NOT NULL,
	name    TEXT COLLATE "C" NOT NULL,
	client  TEXT COLLATE "C" NOT NULL,
	lost    INTEGER NOT NULL, -- 1: it is over
	created TEXT COLLATE "C" NOT NULL,
	session TEXT NOT NULL -- JSON
);

CREATE UNIQUE INDEX sessions_name   ON sessions (owner, name)   WHERE lost = 0 AND name <> '';
CREATE UNIQUE INDEX sessions_client ON sessions (owner, client) WHERE lost = 0 AND client <> '';
CREATE INDEX sessions_owner ON sessions (owner, created, id);

CREATE TABLE runs (
	id      TEXT COLLATE "C" NOT NULL PRIMARY KEY,
	owner   TEXT COLLATE "C" NOT NULL,
	stage   INTEGER NOT NULL, -- 0 under way, 1 lost, 2 ended: it only grows
	started TEXT COLLATE "C" NOT NULL,
	ended   TEXT COLLATE "C", -- NULL while it is under way
	brief   TEXT NOT NULL,    -- JSON, as lists show it
	whole   TEXT              -- JSON with outputs; NULL when brief is all
);

CREATE INDEX runs_owner     ON runs (owner, started, id);
CREATE INDEX runs_started   ON runs (started, id);
CREATE INDEX runs_under_way ON runs (started, id) WHERE stage = 0;
CREATE INDEX runs_ended     ON runs (ended) WHERE ended IS NOT NULL;

CREATE TABLE environments (
	key         TEXT COLLATE "C" NOT NULL PRIMARY KEY,
	environment TEXT NOT NULL, -- JSON
	lock        BYTEA NOT NULL, -- these two as they are, in any encoding
	report      BYTEA NOT NULL
);

CREATE TABLE users (
	id       TEXT COLLATE "C" NOT NULL PRIMARY KEY,
	folded   TEXT COLLATE "C" NOT NULL UNIQUE, -- the name as names are compared
	name     TEXT NOT NULL,
	role     TEXT NOT NULL,
	disabled INTEGER NOT NULL,
	created  TEXT COLLATE "C" NOT NULL
);

CREATE TABLE keys (
	id      TEXT COLLATE "C" NOT NULL PRIMARY KEY,
	owner   TEXT COLLATE "C" NOT NULL,
	created TEXT COLLATE "C" NOT NULL,
	hash    BYTEA NOT NULL,   -- SHA-256 of the secret
	used    TEXT COLLATE "C", -- apart from the document, as it changes often
	key     TEXT NOT NULL     -- JSON
);

CREATE INDEX keys_owner ON keys (owner, created, id);

-- The token that makes the first administrator: one row at most.
CREATE TABLE setup (
	one   INTEGER NOT NULL PRIMARY KEY CHECK (one = 1),
	hash  BYTEA NOT NULL,
	until TEXT COLLATE "C" NOT NULL
);

CREATE TABLE audit (
	number     BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	at         TEXT COLLATE "C" NOT NULL,
	principal  BYTEA NOT NULL, -- texts as they are, in any encoding
	credential BYTEA NOT NULL,
	action     TEXT NOT NULL,
	target     BYTEA NOT NULL,
	place      BYTEA NOT NULL,
	code       BYTEA NOT NULL,
	outcome    TEXT NOT NULL
);

CREATE INDEX audit_at        ON audit (at, number);
CREATE INDEX audit_principal ON audit (principal, at, number);

CREATE FUNCTION audit_is_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	RAISE EXCEPTION 'a record of the audit log is never changed';
END
$$;

CREATE TRIGGER audit_is_append_only BEFORE UPDATE ON audit
FOR EACH STATEMENT EXECUTE FUNCTION audit_is_append_only();

CREATE TABLE spending (
	owner TEXT COLLATE "C" NOT NULL,
	began TEXT COLLATE "C" NOT NULL,
	ns    BIGINT NOT NULL, -- processor time
	PRIMARY KEY (owner, began)
);

CREATE TABLE holdings (
	run   TEXT COLLATE "C" NOT NULL PRIMARY KEY,
	owner TEXT COLLATE "C" NOT NULL,
	bytes BIGINT NOT NULL,
	since TEXT COLLATE "C" NOT NULL
);

CREATE INDEX holdings_owner ON holdings (owner, since, run, bytes); -- with bytes, as they are summed up for each file

-- Whose boxes the sessions and runs are about.
CREATE TABLE installation (
	one INTEGER NOT NULL PRIMARY KEY CHECK (one = 1),
	id  TEXT NOT NULL
);
