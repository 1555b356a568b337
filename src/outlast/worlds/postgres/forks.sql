-- How the source stands, and what is true of its commits up to $3, which never change.
-- name: past
select s.state, s.seq, s.pk, r.agent, r.placement,
    (select l.fence from outlast.log l where l.session = s.pk and l.seq = $3),
    (select max(l.format) from outlast.log l where l.session = s.pk and l.seq <= $3),
    (select max(l.seq) from outlast.log l where l.session = s.pk and l.seq <= $3 and l.flags & 4 <> 0),
    array(select l.refs from outlast.log l where l.session = s.pk and l.seq <= $3 and l.refs is not null)
from outlast.session s join outlast.route r on r.pk = s.route
where s.tenant = $1 and s.id = $2

-- How a session stands that has the id of the fork, and the digests of its commits $3 and $3 + 1.
-- name: standing
select s.state, s.pk, r.placement,
    (select l.digest from outlast.log l where l.session = s.pk and l.seq = $3),
    (select l.digest from outlast.log l where l.session = s.pk and l.seq = $3 + 1),
    array(select b.name from outlast.label b where b.session = s.pk order by b.name),
    array(select b.value from outlast.label b where b.session = s.pk order by b.name)
from outlast.session s join outlast.route r on r.pk = s.route
where s.tenant = $1 and s.id = $2

-- name: digest
select s.pk, l.digest from outlast.session s left join outlast.log l on l.session = s.pk and l.seq = $3
where s.tenant = $1 and s.id = $2 and s.state = 0

-- As `create` does it, with the past of session $24 beneath. That is not locked: its commits are read from this statement's
-- snapshot, all or none; if it is erased at this moment, each blob is either locked here before the eraser looks whether
-- anybody names it, or gone, and then nothing is made.
-- name: fork
with clock as materialized (
    select coalesce($1::float8, extract(epoch from clock_timestamp())::float8) as now_s,
        nextval('outlast.change') as change
),
known as materialized (
    select b.pk, b.hash from outlast.blob b
    where b.tenant = $2 and b.hash = any($18::text[])
        and not exists (select from outlast.session s where s.tenant = $2 and s.id = $4)
    order by b.hash for key share
),
made as (
    insert into outlast.session (tenant, state, route, id, created_at_s, worker, ready_at, era, change, format, fence,
        seq, deltas, snapshot_seq, waiting, arrivals, turn_open, parked, wake_at_s, updated_at_s, status)
    select $2, 0, $3, $4, c.now_s, null,
        case when $5 and not $6 and $7::float8 is null then c.change - 1125899906842624 else $7::float8 end,
        c.change >> 12, c.change, $8, $25, $26::bigint, 0, $9, 0,
        (select count(*) from outlast.input i where i.session = $24 and i.consumed_by < $26), $5, $6, $7::float8, c.now_s,
        $10
    from clock c
    where not exists (
        select from unnest($19::text[]) as n(hash) where n.hash not in (select hash from known))
        and (select count(*) from outlast.log l where l.session = $24 and l.seq < $26) = $26 - 1
        and exists (select from outlast.session s where s.pk = $24 and s.state = 0)
    on conflict (tenant, id) do nothing
    returning pk
),
added as (
    insert into outlast.blob (tenant, hash, bytes)
    select $2, g.hash, g.bytes from unnest($20::text[], $21::bytea[]) as g(hash, bytes)
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
    select m.pk, l.name, l.value from made m, unnest($22::text[], $23::text[]) as l(name, value)
),
copied as (
    insert into outlast.log (session, seq, fence, format, events, sealed, wake_at_s, flags, digest, status, consumes,
        refs, body)
    select m.pk, l.seq, l.fence, l.format, l.events, l.sealed, l.wake_at_s, l.flags, l.digest, l.status, l.consumes,
        l.refs, l.body
    from made m join outlast.log l on l.session = $24 and l.seq < $26
),
seen as (
    insert into outlast.input (session, id, arrival, digest, consumed_by, refs, body)
    select m.pk, i.id, row_number() over (order by i.arrival), i.digest, i.consumed_by, null, ''
    from made m join outlast.input i on i.session = $24 and i.consumed_by < $26
),
logged as (
    insert into outlast.log (session, seq, fence, format, events, sealed, wake_at_s, flags, digest, status, consumes,
        refs, body)
    select pk, $26, $25, $11, $12, 0, $7, $13, $14, $10, $15, $16, $17 from made
)
select 1 from made
