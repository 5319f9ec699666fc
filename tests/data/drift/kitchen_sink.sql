-- One object at least of every kind that a snapshot holds.
CREATE SCHEMA "Odd schema";
COMMENT ON SCHEMA "Odd schema" IS 'quoted';
CREATE EXTENSION file_fdw;
CREATE FOREIGN DATA WRAPPER sink_wrapper OPTIONS (debug 'true');
CREATE SERVER sink_server TYPE 'file' VERSION '1' FOREIGN DATA WRAPPER file_fdw;
CREATE SERVER sink_secret FOREIGN DATA WRAPPER sink_wrapper OPTIONS (hidden 'no');
CREATE USER MAPPING FOR PUBLIC SERVER sink_secret OPTIONS (password 'do-not-read');
CREATE FOREIGN TABLE sink_foreign (a text OPTIONS (force_not_null 'true')) SERVER sink_server OPTIONS (filename '/dev/null');
CREATE COLLATION sink_collation FROM "C";
CREATE TYPE "Odd schema"."Mood" AS ENUM ('so''so', 'fine');
CREATE DOMAIN sink_domain AS integer DEFAULT 3 NOT NULL CONSTRAINT positive CHECK (VALUE > 0);
COMMENT ON CONSTRAINT positive ON DOMAIN sink_domain IS 'why';
CREATE TYPE sink_pair AS (a integer, b text COLLATE "C");
COMMENT ON COLUMN sink_pair.a IS 'first';
CREATE TYPE sink_range AS RANGE (subtype = float8, subtype_diff = float8mi);
CREATE SEQUENCE sink_down INCREMENT -2 MAXVALUE 100 CYCLE;
CREATE FUNCTION sink_equal(integer, integer) RETURNS boolean LANGUAGE sql IMMUTABLE AS 'SELECT $1 = $2';
CREATE FUNCTION sink_step(integer, integer) RETURNS integer LANGUAGE sql IMMUTABLE AS 'SELECT $1 + $2';
CREATE PROCEDURE sink_procedure(INOUT a integer) LANGUAGE plpgsql SET search_path = pg_catalog AS 'BEGIN a := 1; END';
CREATE AGGREGATE sink_sum(integer) (SFUNC = sink_step, STYPE = integer, INITCOND = '0');
CREATE AGGREGATE sink_rank(VARIADIC "any" ORDER BY VARIADIC "any") (
    SFUNC = ordered_set_transition_multi, STYPE = internal, FINALFUNC = rank_final, FINALFUNC_EXTRA, HYPOTHETICAL);
CREATE OPERATOR === (LEFTARG = integer, RIGHTARG = integer, FUNCTION = sink_equal, COMMUTATOR = ===);
CREATE OPERATOR FAMILY sink_family USING btree;
CREATE OPERATOR CLASS sink_class FOR TYPE integer USING hash AS
    OPERATOR 1 === (integer, integer), FUNCTION 1 hashint4(integer);
CREATE CAST (sink_pair AS text) WITH INOUT AS ASSIGNMENT;
CREATE TEXT SEARCH DICTIONARY sink_words (TEMPLATE = simple, StopWords = 'english');
CREATE TEXT SEARCH CONFIGURATION sink_search (COPY = simple);
CREATE CONVERSION sink_conversion FOR 'LATIN1' TO 'UTF8' FROM iso8859_1_to_utf8;
CREATE ACCESS METHOD sink_heap TYPE TABLE HANDLER heap_tableam_handler;
CREATE TABLE sink_parent (
    id bigint GENERATED ALWAYS AS IDENTITY (START 5 CACHE 2), kind text NOT NULL, at timestamptz NOT NULL,
    amount numeric(10, 2) DEFAULT 0, note text COMPRESSION pglz, twice numeric GENERATED ALWAYS AS (amount * 2) STORED,
    PRIMARY KEY (id, at), CONSTRAINT amount_positive CHECK (amount >= 0)
) PARTITION BY RANGE (at);
ALTER TABLE sink_parent ALTER note SET STORAGE external, ALTER kind SET STATISTICS 500, ALTER kind SET (n_distinct = 7);
CREATE TABLE sink_2026 PARTITION OF sink_parent FOR VALUES FROM ('2026-01-01') TO ('2027-01-01');
CREATE TABLE sink_rest PARTITION OF sink_parent DEFAULT WITH (fillfactor = 80);
CREATE INDEX sink_kind ON sink_parent (lower(kind) DESC NULLS LAST) INCLUDE (amount) WHERE amount > 1;
ALTER INDEX sink_kind ALTER COLUMN 1 SET STATISTICS 300;
CREATE UNLOGGED TABLE sink_child (
    a integer, b integer, extra text, parent_id bigint, parent_at timestamptz, period tstzrange,
    CONSTRAINT sink_reference FOREIGN KEY (parent_id, parent_at) REFERENCES sink_parent MATCH FULL
        ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED NOT VALID,
    CONSTRAINT sink_unique UNIQUE NULLS NOT DISTINCT (a, b) WITH (fillfactor = 70) DEFERRABLE,
    CONSTRAINT sink_no_overlap EXCLUDE USING gist (period WITH &&) WHERE (a > 0),
    CONSTRAINT sink_local CHECK (a < 100) NO INHERIT
) WITH (autovacuum_enabled = false, toast.autovacuum_enabled = false);
CREATE TABLE sink_grandchild (own integer) INHERITS (sink_child);
ALTER TABLE sink_child DISABLE TRIGGER ALL;
ALTER TABLE sink_child REPLICA IDENTITY FULL;
ALTER TABLE sink_child ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY sink_policy ON sink_child AS RESTRICTIVE FOR UPDATE TO PUBLIC USING (a > 1) WITH CHECK (a > 2);
CREATE STATISTICS sink_statistics (ndistinct, mcv) ON a, b, (a + b) FROM sink_child;
ALTER STATISTICS sink_statistics SET STATISTICS 400;
CREATE FUNCTION sink_trigger() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';
CREATE TRIGGER sink_touch AFTER UPDATE OF kind ON sink_parent FOR EACH ROW WHEN (NEW.amount > 1) EXECUTE FUNCTION sink_trigger('x');
ALTER TABLE sink_rest DISABLE TRIGGER sink_touch;
CREATE FUNCTION sink_event() RETURNS event_trigger LANGUAGE plpgsql AS 'BEGIN END';
CREATE EVENT TRIGGER sink_watch ON ddl_command_end WHEN TAG IN ('CREATE VIEW') EXECUTE FUNCTION sink_event();
CREATE VIEW "Odd schema"."A view" WITH (security_barrier) AS SELECT id, kind FROM sink_parent WITH CASCADED CHECK OPTION;
COMMENT ON COLUMN "Odd schema"."A view".kind IS 'of a view';
ALTER VIEW "Odd schema"."A view" ALTER kind SET DEFAULT 'x';
CREATE MATERIALIZED VIEW sink_counts AS SELECT kind, count(*) AS n FROM sink_parent GROUP BY kind WITH NO DATA;
CREATE UNIQUE INDEX ON sink_counts (kind);
CREATE RULE sink_rule AS ON INSERT TO sink_child WHERE NEW.a = 0 DO INSTEAD NOTHING;
CREATE PUBLICATION sink_publication FOR TABLE sink_2026 (id, at) WHERE (id > 1) WITH (publish = 'insert');
CREATE PUBLICATION sink_schemas FOR TABLES IN SCHEMA "Odd schema";
CREATE SUBSCRIPTION sink_subscription CONNECTION 'host=203.0.113.1 password=do-not-read' PUBLICATION p WITH (connect = false);
ALTER DEFAULT PRIVILEGES GRANT EXECUTE ON FUNCTIONS TO PUBLIC;
ALTER DEFAULT PRIVILEGES IN SCHEMA "Odd schema" GRANT SELECT ON SEQUENCES TO PUBLIC;
GRANT UPDATE (note) ON sink_parent TO PUBLIC;
GRANT USAGE ON SEQUENCE sink_parent_id_seq TO PUBLIC;
DO $do$ BEGIN EXECUTE format('ALTER DATABASE %I SET work_mem = %L', current_database(), '8MB'); END $do$;
DO $do$ BEGIN EXECUTE format('GRANT CREATE ON DATABASE %I TO PUBLIC', current_database()); END $do$;
COMMENT ON INDEX sink_kind IS 'c'; COMMENT ON TRIGGER sink_touch ON sink_parent IS 'c';
COMMENT ON POLICY sink_policy ON sink_child IS 'c'; COMMENT ON RULE sink_rule ON sink_child IS 'c';
COMMENT ON STATISTICS sink_statistics IS 'c'; COMMENT ON OPERATOR === (integer, integer) IS 'c';
COMMENT ON SEQUENCE sink_parent_id_seq IS 'c'; COMMENT ON PUBLICATION sink_schemas IS 'c';
COMMENT ON EVENT TRIGGER sink_watch IS 'c'; COMMENT ON SERVER sink_server IS 'c'; COMMENT ON COLLATION sink_collation IS 'c';
COMMENT ON CONSTRAINT sink_local ON sink_child IS 'c'; COMMENT ON AGGREGATE sink_sum(integer) IS 'c';
