-- One commit in the midst of a turn: it changes nothing of when its session is ready and names nothing outside. If the
-- row is locked by another, its newest version is judged after the wait: every condition is on the row itself.
-- name: land_one
with moved as (
    update outlast.session s
    set seq = $3, deltas = 0, status = $10, turn_open = true, parked = false, wake_at_s = null,
        change = n.change, era = n.change >> 12,
        updated_at_s = coalesce($12::float8, extract(epoch from clock_timestamp())::float8)
    from (select nextval('outlast.change') as change) n
    -- `is`: the index on workers, which holds all sessions of this one, must not seem to fit.
    where s.tenant = $1 and s.id = $2 and s.state = 0 and s.seq = $3::bigint - 1 and s.fence = $4
        and s.worker is not distinct from $5::text and s.format >= $6 and (s.ready_at < 0) is true
    returning s.pk
)
insert into outlast.log (session, seq, fence, format, events, sealed, flags, digest, status, body)
select pk, $3::bigint, $4::bigint, $6::bigint, $7, $8, 1, $9, $10, $11 from moved
returning 1

-- name: land_plain
with asked as (
    select * from unnest($2::text[], $3::bigint[], $4::bigint[], $5::text[], $6::bigint[], $7::bigint[], $8::bigint[],
        $9::text[], $10::text[], $11::bytea[])
        as a(session, seq, fence, worker, format, events, sealed, digest, status, body)
),
-- Locks in a fixed order: two batches cannot deadlock.
held as materialized (
    select s.pk, s.id, s.seq, s.fence, s.worker, s.format, s.ready_at from outlast.session s
    where s.tenant = $1 and s.id = any($2) and s.state = 0
    order by s.pk for no key update
),
landing as materialized (
    select a.*, h.pk, nextval('outlast.change') as change
    from held h join asked a on a.session = h.id
    where h.seq = a.seq - 1 and h.fence = a.fence and h.worker = a.worker and h.format >= a.format and h.ready_at < 0
),
logged as (
    insert into outlast.log (session, seq, fence, format, events, sealed, flags, digest, status, body)
    select pk, seq, fence, format, events, sealed, 1, digest, status, body from landing
),
moved as (
    update outlast.session s
    set seq = l.seq, deltas = 0, status = l.status, turn_open = true, parked = false, wake_at_s = null,
        change = l.change, era = l.change >> 12,
        updated_at_s = coalesce($12::float8, extract(epoch from clock_timestamp())::float8)
    from landing l
    where s.pk = l.pk
)
select session from landing
