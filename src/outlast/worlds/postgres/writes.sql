-- Every blob that is named is locked before anything stands that names it; those that are held before the session is made,
-- the new ones after, by their hash: statements that make the same session or the same blobs wait in one order.
--
-- $25: the session whose past lies beneath a fork's first commit, which is number $27; null: none does. The source is not
-- locked: its commits are read from this statement's snapshot, all or none; if it is erased at this moment, each blob is
-- either locked here before the eraser looks whether anybody names it, or gone, and then nothing is made.
-- name: create
with clock as materialized (
    select coalesce($1::float8, extract(epoch from clock_timestamp())::float8) as now_s,
        nextval('outlast.change') as change
),
known as materialized (
    select b.pk, b.hash from outlast.blob b
    where b.tenant = $2 and b.hash = any($19::text[])
        and not exists (select from outlast.session s where s.tenant = $2 and s.id = $4)
    order by b.hash for key share
),
made as (
    insert into outlast.session (tenant, state, route, id, created_at_s, worker, ready_at, era, change, format, fence,
        seq, deltas, snapshot_seq, waiting, arrivals, turn_open, parked, wake_at_s, updated_at_s, status)
    select $2, 0, $3, $4, c.now_s, null,
        case when $5 and not $6 and $7::float8 is null then c.change - 1125899906842624 else $7::float8 end,
        c.change >> 12, c.change, $8, $26, $27::bigint, 0, $9, 0,
        (select count(*) from outlast.input i where i.session = $25::bigint and i.consumed_by < $27), $5, $6,
        $7::float8, c.now_s, $10
    from clock c
    where not exists (
        select from unnest($20::text[]) as n(hash) where n.hash not in (select hash from known))
        and (select count(*) from outlast.log l where l.session = $25 and l.seq < $27) = $27 - 1
        and ($25 is null or exists (select from outlast.session s where s.pk = $25 and s.state = 0))
    on conflict (tenant, id) do nothing
    returning pk
),
added as (
    insert into outlast.blob (tenant, hash, bytes)
    select $2, g.hash, g.bytes from unnest($21::text[], $22::bytea[]) as g(hash, bytes)
    where exists (select from made) and g.hash not in (select hash from known)
    order by g.hash
    on conflict (tenant, hash) do update set bytes = blob.bytes
    returning pk
),
named as (
    insert into outlast.naming (session, blob)
    select m.pk, b.pk from made m, (select pk from known union all select pk from added) b
),
labelled as (
    insert into outlast.label (session, name, value)
    select m.pk, l.name, l.value from made m, unnest($23::text[], $24::text[]) as l(name, value)
),
copied as (
    insert into outlast.log (session, seq, fence, format, events, sealed, wake_at_s, flags, digest, status, consumes,
        refs, body)
    select m.pk, l.seq, l.fence, l.format, l.events, l.sealed, l.wake_at_s, l.flags, l.digest, l.status, l.consumes,
        l.refs, l.body
    from made m join outlast.log l on l.session = $25 and l.seq < $27
),
seen as (
    insert into outlast.input (session, id, arrival, digest, consumed_by, refs, body)
    select m.pk, i.id, row_number() over (order by i.arrival), i.digest, i.consumed_by, null, ''
    from made m join outlast.input i on i.session = $25 and i.consumed_by < $27
),
logged as (
    insert into outlast.log (session, seq, fence, format, events, sealed, wake_at_s, flags, digest, status, consumes,
        refs, body)
    select pk, $27, $26, $11, $12, $13, $7, $14, $15, $10, $16, $17, $18 from made
)
select 1 from made

-- name: opening
select s.state, l.digest, r.agent, r.placement,
    array(select b.name from outlast.label b where b.session = s.pk order by b.name),
    array(select b.value from outlast.label b where b.session = s.pk order by b.name)
from outlast.session s
join outlast.route r on r.pk = s.route
left join outlast.log l on l.session = s.pk and l.seq = 1
where s.tenant = $1 and s.id = $2

-- Commits of any kind, each judged by itself; returned are the places of those that landed. With $3 they are idle ones.
--
-- The snapshot is older than the locks. What it says of a session's inputs and of its log can be old only if another
-- commit of the session came in between, which the locked row shows; of blobs, a row that was erased meanwhile cannot be
-- locked and so is not known, and one that came meanwhile is met by `on conflict`. Whatever is judged too strictly for
-- having been read too early is judged again by a statement of its own (`explain`).
--
-- Locks, in this order everywhere: sessions by their number (counting `held` locks all of them), blobs by their hash.
-- name: land
with asked as (
    select * from unnest($4::text[], $5::bigint[], $6::bigint[], $7::text[], $8::bigint[], $9::bigint[], $10::bigint[],
        $11::smallint[], $12::text[], $13::float8[], $14::text[], $15::text[], $16::text[], $17::bytea[], $18::bigint[])
        with ordinality as a(session, seq, fence, worker, format, events, sealed, flags, digest, wake_at_s, status,
            consumes, refs, body, consuming, place)
),
clock as materialized (
    select coalesce($2::float8, extract(epoch from clock_timestamp())::float8) as now_s
),
held as materialized (
    select s.* from outlast.session s
    where s.tenant = $1 and s.id = any($4) and s.state = 0
    order by s.pk for no key update
),
known as materialized (
    select b.pk, b.hash from outlast.blob b
    where b.tenant = $1 and b.hash = any($22::text[]) and (select count(*) from held) > 0
    order by b.hash for key share
),
landing as materialized (
    select a.*, h.pk, nextval('outlast.change') as change,
        case when a.format <= h.format then h.route else (
            select r.pk from outlast.route o join outlast.route r using (tenant, agent, placement, priority)
            where o.pk = h.route and r.format = a.format) end as route
    from held h join asked a on a.session = h.id
    where h.seq = a.seq - 1 and h.fence = a.fence
        and case when $3::boolean
            then not h.turn_open and (h.worker is null or coalesce(
                (select w.deadline_s from outlast.worker w where w.worker = h.worker), 0) <= (select now_s from clock))
            else h.worker = a.worker end
        and (a.format <= h.format or exists (
            select from outlast.route o join outlast.route r using (tenant, agent, placement, priority)
            where o.pk = h.route and r.format = a.format))
        and (a.consuming = 0 or a.consuming = (
            select count(*) from unnest($19::bigint[], $20::text[]) as c(place, id)
            join outlast.input i on i.session = h.pk and i.id = c.id and (i.consumed_by is null) is true
            where c.place = a.place))
        and not exists (
            select from unnest($21::bigint[], $22::text[], $23::boolean[]) as n(place, hash, given)
            where n.place = a.place and not n.given and n.hash not in (select hash from known))
),
added as (
    insert into outlast.blob (tenant, hash, bytes)
    select $1, g.hash, g.bytes from unnest($24::text[], $25::bytea[]) as g(hash, bytes)
    where g.hash not in (select hash from known) and g.hash in (
        select n.hash from landing l join unnest($21::bigint[], $22::text[]) as n(place, hash) using (place))
    order by g.hash
    on conflict (tenant, hash) do update set bytes = blob.bytes
    returning pk, hash
),
named as (
    insert into outlast.naming (session, blob)
    select distinct l.pk, b.pk
    from landing l join unnest($21::bigint[], $22::text[]) as n(place, hash) using (place)
    join (select pk, hash from known union all select pk, hash from added) b using (hash)
    on conflict do nothing
),
taken as (
    update outlast.input i set consumed_by = l.seq, refs = null, body = ''
    from landing l join unnest($19::bigint[], $20::text[]) as c(place, id) using (place)
    where i.session = l.pk and i.id = c.id
),
logged as (
    insert into outlast.log (session, seq, fence, format, events, sealed, wake_at_s, flags, digest, status, consumes,
        refs, body)
    select pk, seq, fence, format, events, sealed, wake_at_s, flags, digest, status, consumes, refs, body from landing
),
moved as (
    update outlast.session s
    set seq = l.seq, deltas = 0, status = l.status, change = l.change, era = l.change >> 12,
        format = greatest(s.format, l.format), route = l.route,
        snapshot_seq = case when l.flags & 4 <> 0 then l.seq else s.snapshot_seq end,
        turn_open = l.flags & 1 <> 0, parked = l.flags & 2 <> 0, wake_at_s = l.wake_at_s,
        waiting = s.waiting - l.consuming,
        worker = case when l.flags & 8 = 0 or $3 then s.worker end,
        updated_at_s = clock.now_s,
        ready_at = case
            when s.waiting > l.consuming or (l.flags & 3 = 1 and l.wake_at_s is null) then
                -- Who gives a session up joins the line at its end.
                case when s.ready_at < 0 and (l.flags & 8 = 0 or $3 or s.worker is null) then s.ready_at
                    else l.change - 1125899906842624 end
            else l.wake_at_s end
    from landing l, clock
    where s.pk = l.pk
),
-- Behind the blobs, whose rows others may hold: everybody waits for those first and for this row last.
counted as (
    insert into outlast.spent (tenant, day, cost_usd, tokens, calls, seconds)
    select $1, u.day, sum(u.cost_usd), sum(u.tokens), sum(u.calls), sum(u.seconds)
    from landing l join unnest($26::bigint[], $27::int[], $28::float8[], $29::bigint[], $30::bigint[], $31::float8[])
        as u(place, day, cost_usd, tokens, calls, seconds) using (place)
    where (select count(*) from added) >= 0
    group by u.day order by u.day
    on conflict (tenant, day) do update set cost_usd = spent.cost_usd + excluded.cost_usd,
        tokens = spent.tokens + excluded.tokens, calls = spent.calls + excluded.calls,
        seconds = spent.seconds + excluded.seconds
),
forgotten as (
    delete from outlast.spent where tenant = $1 and cardinality($27::int[]) > 0
        and day < (select floor(now_s / 86400)::int from clock) - $32::int
)
select place from landing

-- How a commit's session stands, and what of what the commit needs is there, in one snapshot.
-- name: explain
select s.state, s.seq, s.fence, s.worker, s.turn_open, s.format, r.agent, r.placement,
    s.worker is not null and coalesce((select w.deadline_s from outlast.worker w where w.worker = s.worker), 0)
        > coalesce($6::float8, extract(epoch from clock_timestamp())::float8),
    (select l.digest from outlast.log l where l.session = s.pk and l.seq = $3),
    array(select i.id from outlast.input i where i.session = s.pk and i.id = any($4::text[])),
    array(select i.id from outlast.input i
        where i.session = s.pk and i.id = any($4::text[]) and (i.consumed_by is null) is true),
    array(select b.hash from outlast.blob b where b.tenant = $1 and b.hash = any($5::text[])), s.deltas, r.priority
from outlast.session s join outlast.route r on r.pk = s.route
where s.tenant = $1 and s.id = $2

-- Shown is never waited for: nothing of it is acknowledged as durable, and the next commit's flush carries it. Count and
-- bytes are one transaction, so that a crash of the server loses both or neither.
-- name: publish
with relaxed as materialized (
    select set_config('synchronous_commit', 'off', true)
),
moved as (
    update outlast.session s set deltas = s.deltas + $7
    from relaxed
    where s.tenant = $1 and s.id = $2 and s.state = 0 and s.seq = $3 and s.fence = $4
        and s.worker is not distinct from $5::text and s.deltas = $6
    returning s.pk
)
insert into outlast.delta (session, after, first, count, bodies)
select pk, $3, $6, $7, $8 from moved
returning 1

-- What is settled stays settled, whoever takes the session over meanwhile: nothing needs a lock.
-- name: drop
with relaxed as materialized (
    select set_config('synchronous_commit', 'off', true)
),
held as materialized (
    select s.pk, s.seq from outlast.session s
    where s.tenant = $1 and s.id = $2 and s.state = 0 and s.fence = $3
        and s.worker is not distinct from $4::text
),
gone as (
    delete from outlast.delta d
    using held h, relaxed, lateral (
        select o.after, o.first from outlast.delta o
        where o.session = h.pk and o.after < least($5, h.seq)
        order by o.after, o.first limit $6
    ) old
    where d.session = h.pk and d.after = old.after and d.first = old.first
    returning 1
)
select (select count(*) from gone) from held

-- name: stand
select state, seq, fence, worker, deltas from outlast.session where tenant = $1 and id = $2

-- name: held_blobs
select b.hash from outlast.blob b where b.tenant = $1 and b.hash = any($2::text[])
