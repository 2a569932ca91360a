-- The texts are apart from the document, so that lists need not read them and a use need not write them.

CREATE TABLE environments (
	key         TEXT NOT NULL PRIMARY KEY,
	environment TEXT NOT NULL, -- JSON
	lock        BLOB NOT NULL, -- these two as they are, in any encoding
	report      BLOB NOT NULL
) STRICT;
