package sqlite

// component names this package's schema in the file.
const component = "log"

// migrations are the steps of the schema; released ones are never changed.
//
// log_partitions.number stands for (topic_id, partition) in the chunks. It is
// never used again, so chunks of a deleted topic cannot come back to life.
// data is the last column of log_chunks, so that reading the others does not
// touch its overflow pages.
func migrations() []string {
	return []string{`
CREATE TABLE log_topics (
	name       TEXT PRIMARY KEY,
	id         TEXT NOT NULL UNIQUE,
	partitions INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE log_partitions (
	number    INTEGER PRIMARY KEY AUTOINCREMENT,
	topic_id  TEXT NOT NULL,
	partition INTEGER NOT NULL,
	log_start INTEGER NOT NULL DEFAULT 0,
	log_end   INTEGER NOT NULL DEFAULT 0,
	UNIQUE (topic_id, partition)
);
CREATE TABLE log_chunks (
	number        INTEGER NOT NULL,
	last_offset   INTEGER NOT NULL,
	first_offset  INTEGER NOT NULL,
	records       INTEGER NOT NULL,
	max_timestamp INTEGER NOT NULL,
	data          BLOB NOT NULL,
	PRIMARY KEY (number, last_offset)
);
CREATE TABLE log_publishers (
	id    TEXT PRIMARY KEY,
	epoch INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE log_memory (
	publisher TEXT NOT NULL,
	key       TEXT NOT NULL,
	value     BLOB NOT NULL,
	PRIMARY KEY (publisher, key)
) WITHOUT ROWID;
`}
}
