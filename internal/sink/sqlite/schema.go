package sqlite

// component names the tables in the file's list of schema versions.
const component = "tables"

// steps are the migrations, oldest first. A step that was released is never
// changed, only followed by another.
func steps() []string { return []string{schemaFirst} }

// schemaFirst makes the tables of the design. window_segments keeps its rowid:
// its rows are large, and a table without one would carry them in the tree that
// every look-up walks. Its partial indexes hold only the rows that finalising
// and retention look for, so neither ever reads the whole table.
const schemaFirst = `
CREATE TABLE delay_aggregates (
	window_start TEXT NOT NULL,
	window_end TEXT NOT NULL,
	dimension TEXT NOT NULL,
	dimension_id TEXT NOT NULL,
	operator TEXT,
	event_count INTEGER NOT NULL,
	mean_delay_s REAL NOT NULL,
	p90_delay_s REAL NOT NULL,
	max_delay_s INTEGER NOT NULL,
	min_delay_s INTEGER NOT NULL,
	revision INTEGER NOT NULL,
	topic TEXT NOT NULL,
	computed_at TEXT NOT NULL,
	PRIMARY KEY (window_start, dimension, dimension_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX delay_aggregates_by_id ON delay_aggregates (dimension, dimension_id, window_start);

CREATE TABLE vehicle_latest (
	vehicle_id TEXT NOT NULL PRIMARY KEY,
	trip_id TEXT,
	line_id TEXT,
	operator TEXT,
	latitude REAL NOT NULL,
	longitude REAL NOT NULL,
	bearing REAL,
	speed_mps REAL,
	stop_id TEXT,
	current_status TEXT,
	occupancy TEXT,
	observed_at TEXT NOT NULL,
	tie INTEGER NOT NULL,
	updated_at TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE trip_delay_latest (
	trip_id TEXT NOT NULL,
	start_date TEXT NOT NULL,
	line_id TEXT,
	operator TEXT,
	stop_id TEXT,
	station_id TEXT,
	stop_sequence INTEGER,
	delay_s INTEGER NOT NULL,
	predicted_time TEXT,
	observed_at TEXT NOT NULL,
	tie INTEGER NOT NULL,
	updated_at TEXT NOT NULL,
	PRIMARY KEY (trip_id, start_date)
) STRICT, WITHOUT ROWID;

CREATE TABLE window_segments (
	window_start TEXT NOT NULL,
	topic TEXT NOT NULL,
	partition INTEGER NOT NULL,
	window_end TEXT NOT NULL,
	topic_id TEXT NOT NULL,
	first_offset INTEGER NOT NULL,
	through_offset INTEGER NOT NULL,
	records INTEGER NOT NULL,
	origin TEXT NOT NULL CHECK (origin IN ('live', 'backfill')),
	merged_at TEXT,
	data BLOB,
	PRIMARY KEY (window_start, topic, partition),
	CHECK (data IS NOT NULL OR merged_at IS NOT NULL)
) STRICT;
CREATE INDEX window_segments_unmerged ON window_segments (topic, topic_id, window_start)
	WHERE merged_at IS NULL;
CREATE INDEX window_segments_kept ON window_segments (merged_at)
	WHERE merged_at IS NOT NULL AND data IS NOT NULL;

CREATE TABLE consumer_offsets (
	topic TEXT NOT NULL,
	partition INTEGER NOT NULL,
	group_id TEXT NOT NULL,
	topic_id TEXT NOT NULL,
	next_offset INTEGER,
	position INTEGER,
	leader_epoch INTEGER,
	watermark TEXT,
	final_to TEXT,
	accepted INTEGER NOT NULL,
	late INTEGER NOT NULL,
	dead INTEGER NOT NULL,
	ignored INTEGER NOT NULL,
	fingerprint TEXT NOT NULL,
	epoch INTEGER NOT NULL,
	owner TEXT NOT NULL,
	updated_at TEXT NOT NULL,
	PRIMARY KEY (topic, partition),
	CHECK ((next_offset IS NULL) = (position IS NULL)),
	CHECK (next_offset IS NULL OR next_offset <= position)
) STRICT, WITHOUT ROWID;

CREATE TABLE incidents (
	id INTEGER PRIMARY KEY,
	kind TEXT NOT NULL,
	topic TEXT NOT NULL,
	partition INTEGER,
	from_offset INTEGER,
	to_offset INTEGER,
	detail TEXT NOT NULL,
	at TEXT NOT NULL
) STRICT;
CREATE INDEX incidents_by_place ON incidents (topic, partition, kind, from_offset);
`
