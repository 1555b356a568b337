-- Two that put the same id at once: the later waits for the session, sees the row of the earlier in no snapshot of its own,
-- and is told by `on conflict`. Nothing comes back then, and it looks again.
--
-- With a priority ($12) the session changes its route. If that is not there, or is not in this snapshot, nothing is put.
-- name: put
with held as materialized (
    select s.pk, s.arrivals, case when $12::int is null then s.route else (
        select r.pk from outlast.route o join outlast.route r using (tenant, agent, placement, format)
        where o.pk = s.route and r.priority = $12) end as route
    from outlast.session s
    where s.tenant = $1 and s.id = $2 and s.state = 0
    for no key update
),
known as materialized (
    select b.pk, b.hash from outlast.blob b
    where b.tenant = $1 and b.hash = any($7::text[]) and exists (select from held)
    order by b.hash for key share
),
fresh as (
    insert into outlast.input (session, id, arrival, digest, refs, body)
    select h.pk, $3, h.arrivals + 1, $4, $5, $6 from held h
    where h.route is not null and not exists (
        select from unnest($8::text[]) as n(hash) where n.hash not in (select hash from known))
    on conflict (session, id) do nothing
    returning session, arrival
),
added as (
    insert into outlast.blob (tenant, hash, bytes)
    select $1, g.hash, g.bytes from unnest($9::text[], $10::bytea[]) as g(hash, bytes)
    where exists (select from fresh) and g.hash not in (select hash from known)
    order by g.hash
    on conflict (tenant, hash) do update set bytes = blob.bytes
    returning pk
),
named as (
    insert into outlast.naming (session, blob)
    select f.session, b.pk from fresh f, (select pk from known union all select pk from added) b
    on conflict do nothing
),
moved as (
    update outlast.session s
    set waiting = s.waiting + 1, arrivals = f.arrival, change = n.change, era = n.change >> 12,
        route = (select h.route from held h),
        ready_at = case when s.ready_at < 0 then s.ready_at else n.change - 1125899906842624 end,
        updated_at_s = coalesce($11::float8, extract(epoch from clock_timestamp())::float8)
    from fresh f, (select nextval('outlast.change') as change) n
    where s.pk = f.session
)
select arrival from fresh

-- name: route
select r.agent, r.placement, s.format
from outlast.session s join outlast.route r on r.pk = s.route
where s.tenant = $1 and s.id = $2

-- name: find
select s.state, i.arrival, i.digest, i.consumed_by, i.refs, i.body
from outlast.session s left join outlast.input i on i.session = s.pk and i.id = $3
where s.tenant = $1 and s.id = $2

-- name: waiting
select s.state, i.arrival, i.digest, i.consumed_by, i.refs, i.body, i.id
from outlast.session s left join outlast.input i on i.session = s.pk and i.consumed_by is null and s.state = 0
where s.tenant = $1 and s.id = $2
order by i.arrival
