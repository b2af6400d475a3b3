-- The batch log of nsgate, format 2. `nsgate log prepare` runs this in one transaction, as often as one likes.
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
-- A new row would count the owners anew, and what earlier ones have left in the other tables would hold the new ones up.
DO $$ BEGIN
    IF to_regclass('batch') IS NOT NULL AND NOT EXISTS (SELECT FROM log) THEN
        RAISE EXCEPTION 'its table `log` is empty, and the others are not new. Restore the schema from a backup, or drop it and run this again: what was under way is not finished then';
    END IF;
END $$;
INSERT INTO log (id, format) VALUES (gen_random_uuid(), 2) ON CONFLICT (one) DO NOTHING;

-- `ticket` numbers the claims of guards; `released` counts the releases. Every claim updates this row.
ALTER TABLE log ADD COLUMN IF NOT EXISTS ticket bigint NOT NULL DEFAULT 0;
ALTER TABLE log ADD COLUMN IF NOT EXISTS released bigint NOT NULL DEFAULT 0;
ALTER TABLE log SET (fillfactor = 10);

-- The gateways that use the log; one of them owns it. `beat` grows as long as a gateway lives.
CREATE TABLE IF NOT EXISTS instance (
    id uuid PRIMARY KEY,
    name text NOT NULL,
    version text NOT NULL,
    lease_ms bigint NOT NULL,
    beat bigint NOT NULL DEFAULT 0,
    began timestamptz NOT NULL DEFAULT now()
) WITH (fillfactor = 50);
-- The address at which the other gateways reach this one, and the token that they show there; NULL for a gateway that
-- uses the log alone.
ALTER TABLE instance ADD COLUMN IF NOT EXISTS address text;
ALTER TABLE instance ADD COLUMN IF NOT EXISTS token text;
-- A digest of what must be alike in all of them: which catalog, at which address, a namespace is mounted from.
ALTER TABLE instance ADD COLUMN IF NOT EXISTS routes text;

-- The tables that a batch is on, or was on until a moment ago: only the owner of the log serves requests for them. `key`
-- is the catalog's address and the names of the table; `names` is true if the batch gives or takes names.
CREATE TABLE IF NOT EXISTS guard (
    key text PRIMARY KEY,
    ticket bigint NOT NULL,
    names boolean NOT NULL
);
CREATE INDEX IF NOT EXISTS guard_ticket ON guard (ticket);
-- The gateways that have yet to acknowledge a claim.
CREATE TABLE IF NOT EXISTS owed (
    ticket bigint,
    member uuid,
    PRIMARY KEY (ticket, member)
);
-- The guarded tables for which a gateway, when it acknowledged, knew a change that had no answer.
CREATE TABLE IF NOT EXISTS stray (
    key text PRIMARY KEY
);

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
-- For a gateway that takes the log over.
CREATE INDEX IF NOT EXISTS batch_open ON batch (id) WHERE ended IS NULL;

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

-- Makes `me` the owner. NULL if another gateway owns the log, or if one of the two uses it alone and the other does not.
-- `dead` are gateways that were silent for longer than their lease, each with its last heartbeat; they are removed unless
-- they live after all. Waits for the writes that are under way, and those that come later find the new fence.
CREATE OR REPLACE FUNCTION take_2(
    me uuid, my_name text, my_version text, my_lease bigint, my_address text, my_token text, dead uuid[], beats bigint[]
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
    -- Not a look at the beat beforehand: that would not see a heartbeat that is being committed.
    DELETE FROM instance i USING unnest(dead, beats) AS d (id, beat) WHERE i.id = d.id AND i.beat = d.beat;
    -- Also if the log is not taken: nobody else would see that they are dead.
    DELETE FROM owed WHERE member NOT IN (SELECT id FROM instance);
    IF EXISTS (SELECT FROM instance WHERE id = l.owner) THEN
        RETURN NULL;
    END IF;
    IF my_address IS NOT NULL AND NOT EXISTS (SELECT FROM instance WHERE id = me) THEN
        -- The others have taken it for dead, so it does not know which tables are guarded: it has to join again.
        RETURN NULL;
    END IF;
    IF EXISTS (SELECT FROM instance WHERE id <> me AND (my_address IS NULL OR address IS NULL)) THEN
        RETURN NULL;
    END IF;
    DELETE FROM owed WHERE member = me;
    INSERT INTO instance (id, name, version, lease_ms, address, token)
        VALUES (me, my_name, my_version, my_lease, my_address, my_token)
        ON CONFLICT (id) DO UPDATE SET beat = instance.beat + 1;
    -- Above every number that was used, also if the row of `log` is older than the other tables: it was restored.
    UPDATE log SET owner = me, fence = greatest(fence, (SELECT max(w.fence) FROM writer w)) + 1
        RETURNING fence INTO l.fence;
    PERFORM pg_notify('nsgate', l.id::text);
    RETURN l.fence;
END $$;

-- Makes `me` one of the gateways that share the log. Returns the name of a gateway that uses it alone, which forbids it.
-- A claim either counts `me` among those who must acknowledge it, or is committed, so that `me` finds its guards.
CREATE OR REPLACE FUNCTION join_2(
    me uuid, my_name text, my_version text, my_lease bigint, my_address text, my_token text, dead uuid[], beats bigint[]
) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    alone text;
BEGIN
    PERFORM FROM log FOR UPDATE;
    DELETE FROM instance i USING unnest(dead, beats) AS d (id, beat)
        WHERE i.id = d.id AND i.beat = d.beat AND i.address IS NULL;
    SELECT name INTO alone FROM instance WHERE address IS NULL LIMIT 1;
    IF alone IS NULL THEN
        INSERT INTO instance (id, name, version, lease_ms, address, token)
            VALUES (me, my_name, my_version, my_lease, my_address, my_token) ON CONFLICT (id) DO NOTHING;
    END IF;
    RETURN alone;
END $$;

-- Shows that `me` lives. False if it was taken for dead.
CREATE OR REPLACE FUNCTION beat_1(me uuid) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    UPDATE instance SET beat = beat + 1 WHERE id = me;
    RETURN FOUND;
END $$;

-- Does the same for a gateway that shares the log, and tells the others which routes it has.
CREATE OR REPLACE FUNCTION beat_2(me uuid, my_routes text) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    UPDATE instance SET beat = beat + 1, routes = my_routes WHERE id = me;
    RETURN FOUND;
END $$;

-- Gives the log up, in order.
CREATE OR REPLACE FUNCTION leave_1(me uuid) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(7361, 'log'::regclass::oid::integer);
    UPDATE log SET owner = NULL WHERE owner = me;
    DELETE FROM instance WHERE id = me;
    DELETE FROM owed WHERE member = me;
    PERFORM pg_notify('nsgate', '');
END $$;

-- Numbers the calls about guards of one owner. A call that was held up on its way, and arrives after a later one, is
-- refused: it would undo what the later one did.
CREATE OR REPLACE FUNCTION number_2(my_fence bigint, my_try bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO writer AS known (n, fence, try) VALUES (-1, my_fence, my_try)
        ON CONFLICT (n) DO UPDATE SET fence = EXCLUDED.fence, try = EXCLUDED.try
        WHERE (known.fence, known.try) < (EXCLUDED.fence, EXCLUDED.try);
    IF NOT FOUND THEN
        RAISE EXCEPTION 'a later call about guards was made' USING ERRCODE = 'serialization_failure';
    END IF;
END $$;

-- Guards tables: every other gateway has to acknowledge the ticket that this returns. NULL as write_1.
CREATE OR REPLACE FUNCTION claim_2(me uuid, my_fence bigint, my_try bigint, keys text[], with_names boolean[])
RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    t bigint;
BEGIN
    PERFORM pg_advisory_xact_lock_shared(7361, 'log'::regclass::oid::integer);
    -- Waits for gateways that join.
    UPDATE log SET ticket = ticket + 1 WHERE owner = me AND fence = my_fence RETURNING ticket INTO t;
    IF t IS NULL THEN
        RETURN NULL;
    END IF;
    PERFORM number_2(my_fence, my_try);
    INSERT INTO guard AS known (key, ticket, names)
        SELECT k, t, n FROM unnest(keys, with_names) AS u (k, n)
        ON CONFLICT (key) DO UPDATE SET ticket = t, names = known.names OR EXCLUDED.names;
    -- A statement of its own: it sees who has joined meanwhile.
    INSERT INTO owed (ticket, member) SELECT t, id FROM instance WHERE id <> me;
    PERFORM pg_notify('nsgate', t::text);
    RETURN t;
END $$;

-- Does the same for several claims at once, each with a ticket of its own, so that none waits for what is acknowledged for
-- another: `places` says of each key to which claim it belongs, counted from 1. Returns the ticket of the last claim.
CREATE OR REPLACE FUNCTION claim_3(
    me uuid, my_fence bigint, my_try bigint, keys text[], with_names boolean[], places bigint[]
)
RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    claims bigint := (SELECT coalesce(max(p), 0) FROM unnest(places) AS u (p));
    t bigint;
BEGIN
    PERFORM pg_advisory_xact_lock_shared(7361, 'log'::regclass::oid::integer);
    UPDATE log SET ticket = ticket + claims WHERE owner = me AND fence = my_fence RETURNING ticket INTO t;
    IF t IS NULL THEN
        RETURN NULL;
    END IF;
    PERFORM number_2(my_fence, my_try);
    INSERT INTO guard AS known (key, ticket, names)
        SELECT k, t - claims + p, n FROM unnest(keys, with_names, places) AS u (k, n, p)
        ON CONFLICT (key) DO UPDATE SET ticket = EXCLUDED.ticket, names = known.names OR EXCLUDED.names;
    INSERT INTO owed (ticket, member)
        SELECT own, id FROM generate_series(t - claims + 1, t) AS own, instance WHERE id <> me;
    PERFORM pg_notify('nsgate', t::text);
    RETURN t;
END $$;

-- Removes guards. False as write_1.
CREATE OR REPLACE FUNCTION release_2(me uuid, my_fence bigint, my_try bigint, keys text[]) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_xact_lock_shared(7361, 'log'::regclass::oid::integer);
    UPDATE log SET released = released + 1 WHERE owner = me AND fence = my_fence;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM number_2(my_fence, my_try);
    DELETE FROM guard WHERE key = ANY (keys);
    RETURN true;
END $$;

-- Makes these the only guards of the catalogs at `addresses`, for a gateway that has recovered the batches of another.
-- Else as claim_2. Guards of catalogs that it does not know stay.
CREATE OR REPLACE FUNCTION replace_2(
    me uuid, my_fence bigint, my_try bigint, keys text[], with_names boolean[], addresses text[]
)
RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    t bigint;
BEGIN
    t := claim_2(me, my_fence, my_try, keys, with_names);
    IF t IS NOT NULL THEN
        DELETE FROM guard WHERE ticket < t AND split_part(key, E'\x1f', 1) = ANY (addresses);
        DELETE FROM owed WHERE ticket < t;
        UPDATE log SET released = released + 1;
    END IF;
    RETURN t;
END $$;

-- Acknowledges tickets. `strays` are guarded tables for which `me` knows a change that had no answer.
CREATE OR REPLACE FUNCTION acknowledge_2(me uuid, tickets bigint[], strays text[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO stray (key) SELECT unnest(strays) ON CONFLICT (key) DO NOTHING;
    DELETE FROM owed WHERE member = me AND ticket = ANY (tickets);
    PERFORM pg_notify('nsgate', '');
END $$;

-- Removes gateways that were silent for longer than their lease, each with its last heartbeat. Returns those that it
-- removed; NULL as write_1.
CREATE OR REPLACE FUNCTION expire_2(me uuid, my_fence bigint, dead uuid[], beats bigint[])
RETURNS uuid[] LANGUAGE plpgsql AS $$
DECLARE
    gone uuid[];
BEGIN
    PERFORM pg_advisory_xact_lock_shared(7361, 'log'::regclass::oid::integer);
    PERFORM FROM log WHERE owner = me AND fence = my_fence FOR UPDATE;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    WITH removed AS (
        DELETE FROM instance i USING unnest(dead, beats) AS d (id, beat)
            WHERE i.id = d.id AND i.beat = d.beat AND i.id <> me RETURNING i.id
    )
    SELECT coalesce(array_agg(id), '{}') INTO gone FROM removed;
    DELETE FROM owed WHERE member = ANY (gone);
    RETURN gone;
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

DROP FUNCTION IF EXISTS take_1(uuid, text, text, bigint, uuid, bigint);
UPDATE log SET format = 2 WHERE format = 1;
