package postgres

// steps are the migrations, oldest first. A step that was released is never
// changed, only followed by another.
func steps() []string { return []string{schemaFirst} }

// schemaVersions holds one row for each step that was taken.
const schemaVersions = `
CREATE TABLE IF NOT EXISTS peil_schema (
	version integer PRIMARY KEY,
	applied_at timestamptz NOT NULL DEFAULT now()
)`

// schemaFirst makes the tables of the design. Ids compare by their bytes, as the
// program sorts them, whatever the language of the database. The tables whose
// rows are updated all the time leave room in their pages and have no index on
// what is updated, so that an update stays within its page. Segment data is
// compressed already. The partial indexes hold only the rows that finalising and
// retention look for, so neither ever reads the whole table.
const schemaFirst = `
CREATE TABLE delay_aggregates (
	window_start timestamptz NOT NULL,
	window_end timestamptz NOT NULL,
	dimension text COLLATE "C" NOT NULL,
	dimension_id text COLLATE "C" NOT NULL,
	operator text COLLATE "C",
	event_count bigint NOT NULL,
	mean_delay_s double precision NOT NULL,
	p90_delay_s double precision NOT NULL,
	max_delay_s integer NOT NULL,
	min_delay_s integer NOT NULL,
	revision integer NOT NULL,
	topic text COLLATE "C" NOT NULL,
	computed_at timestamptz NOT NULL,
	PRIMARY KEY (window_start, dimension, dimension_id)
);
CREATE INDEX delay_aggregates_by_id ON delay_aggregates (dimension, dimension_id, window_start);

CREATE TABLE vehicle_latest (
	vehicle_id text COLLATE "C" PRIMARY KEY,
	trip_id text COLLATE "C",
	line_id text COLLATE "C",
	operator text COLLATE "C",
	latitude double precision NOT NULL CHECK (latitude < 'NaN'),
	longitude double precision NOT NULL CHECK (longitude < 'NaN'),
	bearing double precision,
	speed_mps double precision,
	stop_id text COLLATE "C",
	current_status text COLLATE "C",
	occupancy text COLLATE "C",
	observed_at timestamptz NOT NULL,
	tie bigint NOT NULL,
	updated_at timestamptz NOT NULL
) WITH (fillfactor = 70);

CREATE TABLE trip_delay_latest (
	trip_id text COLLATE "C" NOT NULL,
	start_date text COLLATE "C" NOT NULL,
	line_id text COLLATE "C",
	operator text COLLATE "C",
	stop_id text COLLATE "C",
	station_id text COLLATE "C",
	stop_sequence bigint,
	delay_s integer NOT NULL,
	predicted_time timestamptz,
	observed_at timestamptz NOT NULL,
	tie bigint NOT NULL,
	updated_at timestamptz NOT NULL,
	PRIMARY KEY (trip_id, start_date)
) WITH (fillfactor = 70);

CREATE TABLE window_segments (
	window_start timestamptz NOT NULL,
	topic text COLLATE "C" NOT NULL,
	partition integer NOT NULL,
	window_end timestamptz NOT NULL,
	topic_id text COLLATE "C" NOT NULL,
	first_offset bigint NOT NULL,
	through_offset bigint NOT NULL,
	records bigint NOT NULL,
	origin text COLLATE "C" NOT NULL CHECK (origin IN ('live', 'backfill')),
	merged_at timestamptz,
	data bytea,
	PRIMARY KEY (window_start, topic, partition),
	CHECK (data IS NOT NULL OR merged_at IS NOT NULL)
);
ALTER TABLE window_segments ALTER COLUMN data SET STORAGE EXTERNAL;
CREATE INDEX window_segments_unmerged ON window_segments (topic, topic_id, window_start)
	WHERE merged_at IS NULL;
CREATE INDEX window_segments_kept ON window_segments (merged_at)
	WHERE merged_at IS NOT NULL AND data IS NOT NULL;

CREATE TABLE consumer_offsets (
	topic text COLLATE "C" NOT NULL,
	partition integer NOT NULL,
	group_id text COLLATE "C" NOT NULL,
	topic_id text COLLATE "C" NOT NULL,
	next_offset bigint,
	position bigint,
	leader_epoch integer,
	watermark timestamptz,
	final_to timestamptz,
	accepted bigint NOT NULL,
	late bigint NOT NULL,
	dead bigint NOT NULL,
	ignored bigint NOT NULL,
	fingerprint text COLLATE "C" NOT NULL,
	epoch bigint NOT NULL,
	owner text COLLATE "C" NOT NULL,
	updated_at timestamptz NOT NULL,
	PRIMARY KEY (topic, partition),
	CHECK ((next_offset IS NULL) = (position IS NULL)),
	CHECK (next_offset IS NULL OR next_offset <= position)
) WITH (fillfactor = 50);

CREATE TABLE incidents (
	id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	kind text COLLATE "C" NOT NULL,
	topic text COLLATE "C" NOT NULL,
	partition integer,
	from_offset bigint,
	to_offset bigint,
	detail text COLLATE "C" NOT NULL,
	at timestamptz NOT NULL
);
CREATE INDEX incidents_by_place ON incidents
	(topic, kind, (COALESCE(partition, -1)), (COALESCE(from_offset, -1)));
`
