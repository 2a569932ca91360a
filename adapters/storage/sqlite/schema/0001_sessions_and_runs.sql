-- Columns besides the documents are what is searched for; the documents hold everything.
-- Times are RFC 3339 in UTC with nine digits, so that they sort as text.

CREATE TABLE sessions (
	id      TEXT    NOT NULL PRIMARY KEY,
	owner   TEXT    NOT NULL,
	name    TEXT    NOT NULL,
	client  TEXT    NOT NULL,
	lost    INTEGER NOT NULL, -- 1: it is over
	created TEXT    NOT NULL,
	session TEXT    NOT NULL  -- JSON
) STRICT;

CREATE UNIQUE INDEX sessions_name   ON sessions (owner, name)   WHERE lost = 0 AND name <> '';
CREATE UNIQUE INDEX sessions_client ON sessions (owner, client) WHERE lost = 0 AND client <> '';
CREATE INDEX sessions_owner ON sessions (owner, created, id);

CREATE TABLE runs (
	id      TEXT    NOT NULL PRIMARY KEY,
	owner   TEXT    NOT NULL,
	stage   INTEGER NOT NULL, -- 0 under way, 1 lost, 2 ended: it only grows
	started TEXT    NOT NULL,
	ended   TEXT,             -- NULL while it is under way
	brief   TEXT    NOT NULL, -- JSON, as lists show it
	whole   TEXT              -- JSON with outputs; NULL when brief is all. Last, so that lists need not read it.
) STRICT;

CREATE INDEX runs_owner     ON runs (owner, started, id);
CREATE INDEX runs_started   ON runs (started, id);
CREATE INDEX runs_under_way ON runs (started, id) WHERE stage = 0;
CREATE INDEX runs_ended     ON runs (ended) WHERE ended IS NOT NULL;
