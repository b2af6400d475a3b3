-- The batch log of nsgate, format 1. `nsgate log prepare` runs this in one transaction, as often as one likes.
-- {schema} is the quoted name of the schema. Functions carry a version: a later gateway adds write_2 beside write_1.

SELECT pg_advisory_xact_lock(7361, hashtext({schema_text}));

CREATE SCHEMA IF NOT EXISTS {schema};
SET LOCAL search_path = {schema};

-- The one row says which gateway owns the log. `fence` grows with every owner, so that an earlier one cannot write.
CREATE TABLE IF NOT EXISTS log (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    id uuid NOT NULL,
    format integer NOT NULL,
    fence bigint NOT NULL DEFAULT 0,
    owner uuid,
    -- Where its batches went, or come from, with `nsgate log move`. No gateway uses a log that has moved.
    moved text
);
INSERT INTO log (id, format) VALUES (gen_random_uuid(), 1) ON CONFLICT (one) DO NOTHING;

-- The process that owns the log. `beat` grows as long as it lives.
CREATE TABLE IF NOT EXISTS instance (
    id uuid PRIMARY KEY,
    name text NOT NULL,
    version text NOT NULL,
    lease_ms bigint NOT NULL,
    beat bigint NOT NULL DEFAULT 0,
    began timestamptz NOT NULL DEFAULT now()
) WITH (fillfactor = 50);

-- The last try of each connection that writes. A try that was held up on its way, and arrives after a later one, must not
-- be carried out: what it says may be out of date.
CREATE TABLE IF NOT EXISTS writer (
    n integer PRIMARY KEY,
    fence bigint NOT NULL,
    try bigint NOT NULL
) WITH (fillfactor = 50);

-- `intent` and `body` are lines of the log in a file, as JSON; `touched` is only there to be written.
CREATE TABLE IF NOT EXISTS batch (
    id uuid PRIMARY KEY,
    intent bytea NOT NULL,
    key text,
    verdict "char",
    body bytea,
    ended bigint,
    touched bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 80);
CREATE INDEX IF NOT EXISTS batch_key ON batch (key, id) WHERE key IS NOT NULL;
CREATE INDEX IF NOT EXISTS batch_ended ON batch (ended) WHERE ended IS NOT NULL;

-- `settled` is a line; `sent` is the fence under which a delete of the entry may have left.
CREATE TABLE IF NOT EXISTS entry (
    batch uuid,
    n integer,
    settled bytea,
    sent bigint,
    PRIMARY KEY (batch, n)
);
CREATE TABLE IF NOT EXISTS resolution (
    batch uuid,
    n integer,
    said bytea NOT NULL,
    PRIMARY KEY (batch, n)
);

-- Makes `me` the owner. NULL if there is another one, unless it is `was` and its heartbeat is still `was_beat`.
-- Waits for the writes that are under way, and those that come later find the new fence.
CREATE OR REPLACE FUNCTION take_1(
    me uuid, my_name text, my_version text, my_lease bigint, was uuid, was_beat bigint
) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    l log;
BEGIN
    PERFORM pg_advisory_xact_lock(7361, 'log'::regclass::oid::integer);
    SELECT * INTO STRICT l FROM log FOR UPDATE;
    IF l.owner = me THEN
        UPDATE instance SET beat = beat + 1 WHERE id = me;
        RETURN l.fence;
    END IF;
    IF l.owner IS NOT NULL THEN
        IF l.owner IS DISTINCT FROM was THEN
            RETURN NULL;
        END IF;
        -- Not a look at the beat beforehand: that would not see a heartbeat that is being committed.
        DELETE FROM instance WHERE id = was AND beat = was_beat;
        IF NOT FOUND AND EXISTS (SELECT FROM instance WHERE id = was) THEN
            RETURN NULL;
        END IF;
    END IF;
    DELETE FROM instance WHERE id <> me;
    INSERT INTO instance (id, name, version, lease_ms) VALUES (me, my_name, my_version, my_lease);
    UPDATE log SET owner = me, fence = fence + 1 RETURNING fence INTO l.fence;
    RETURN l.fence;
END $$;

-- Shows that `me` lives. False if it is not the owner any more.
CREATE OR REPLACE FUNCTION beat_1(me uuid) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    UPDATE instance SET beat = beat + 1 WHERE id = me;
    RETURN FOUND;
END $$;

-- Gives the log up, in order.
CREATE OR REPLACE FUNCTION leave_1(me uuid) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(7361, 'log'::regclass::oid::integer);
    UPDATE log SET owner = NULL WHERE owner = me;
    DELETE FROM instance WHERE id = me;
END $$;

-- Writes a group in one transaction. NULL if `me` is not the owner under this fence; then nothing is written. Else one
-- letter for each write: for a decision the one that is in the log, or `?` if the batch is not there.
CREATE OR REPLACE FUNCTION write_1(
    me uuid, my_fence bigint, my_writer integer, my_try bigint, kinds text[], ids uuid[], numbers bigint[], lines bytea[], keys text[]
) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    w record;
    answer text;
    answers text := '';
BEGIN
    -- A statement of its own: the next one sees what this one waited for.
    PERFORM pg_advisory_xact_lock_shared(7361, 'log'::regclass::oid::integer);
    IF NOT EXISTS (SELECT FROM log WHERE owner = me AND fence = my_fence) THEN
        RETURN NULL;
    END IF;
    -- Waits for an earlier try that is still under way.
    INSERT INTO writer AS known (n, fence, try) VALUES (my_writer, my_fence, my_try)
        ON CONFLICT (n) DO UPDATE SET fence = EXCLUDED.fence, try = EXCLUDED.try
        WHERE (known.fence, known.try) < (EXCLUDED.fence, EXCLUDED.try);
    IF NOT FOUND THEN
        RAISE EXCEPTION 'a later try of this write was made' USING ERRCODE = 'serialization_failure';
    END IF;
    FOR w IN
        SELECT * FROM unnest(kinds, ids, numbers, lines, keys) AS u (kind, id, number, line, key)
    LOOP
        answer := '-';
        CASE w.kind
        WHEN 'i' THEN
            INSERT INTO batch (id, intent, key) VALUES (w.id, w.line, w.key)
                ON CONFLICT (id) DO UPDATE SET touched = batch.touched + 1;
        WHEN 'c', 'a' THEN
            UPDATE batch SET verdict = w.kind::"char", body = w.line
                WHERE id = w.id AND verdict IS NULL;
            IF NOT FOUND THEN
                -- A decision that is there may wait for its standby yet; this write waits, too.
                UPDATE batch SET touched = touched + 1 WHERE id = w.id;
            END IF;
            -- A statement of its own: it sees the decision of another that was under way.
            SELECT verdict INTO answer FROM batch WHERE id = w.id;
        WHEN 'n' THEN
            INSERT INTO entry (batch, n, settled)
                SELECT w.id, w.number, w.line FROM batch WHERE id = w.id AND ended IS NULL
                ON CONFLICT (batch, n) DO UPDATE SET settled = EXCLUDED.settled;
        WHEN 's' THEN
            INSERT INTO entry (batch, n, sent) VALUES (w.id, w.number, my_fence)
                ON CONFLICT (batch, n) DO UPDATE SET sent = EXCLUDED.sent;
        WHEN 'r' THEN
            INSERT INTO resolution (batch, n, said)
                SELECT w.id, (SELECT count(*) FROM resolution WHERE batch = w.id), w.line
                FROM batch WHERE id = w.id AND ended IS NULL
                    AND NOT EXISTS (SELECT FROM resolution WHERE batch = w.id AND said = w.line);
        WHEN 'e' THEN
            UPDATE batch SET ended = coalesce(ended, w.number), touched = touched + 1 WHERE id = w.id;
        WHEN 'w' THEN
            DELETE FROM batch WHERE id = w.id AND verdict IS NULL;
        END CASE;
        answers := answers || coalesce(answer, '?');
    END LOOP;
    RETURN answers;
END $$;

-- Forgets some batches that ended before `before`, the oldest first. True if there may be more; NULL as write_1.
CREATE OR REPLACE FUNCTION forget_1(me uuid, my_fence bigint, before bigint, at_most bigint)
RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    old uuid[];
BEGIN
    PERFORM pg_advisory_xact_lock_shared(7361, 'log'::regclass::oid::integer);
    IF NOT EXISTS (SELECT FROM log WHERE owner = me AND fence = my_fence) THEN
        RETURN NULL;
    END IF;
    old := ARRAY(SELECT id FROM batch WHERE ended < before ORDER BY ended LIMIT at_most);
    DELETE FROM entry WHERE batch = ANY (old);
    DELETE FROM resolution WHERE batch = ANY (old);
    DELETE FROM batch WHERE id = ANY (old);
    RETURN cardinality(old) = at_most;
END $$;
