-- name: get
select s.id, r.agent, r.placement, s.seq, s.fence, s.format, s.snapshot_seq, s.turn_open, s.parked, s.wake_at_s,
    s.status, s.worker, s.waiting, s.created_at_s, s.updated_at_s, s.change, s.state,
    array(select l.name from outlast.label l where l.session = s.pk order by l.name),
    array(select l.value from outlast.label l where l.session = s.pk order by l.name), r.priority
from outlast.session s join outlast.route r on r.pk = s.route
where s.tenant = $1 and s.id = $2

-- In the order of `change`: an era holds 4,096 changes, and the index on eras moves only when a session enters another.
-- name: page
select s.id, r.agent, r.placement, s.seq, s.fence, s.format, s.snapshot_seq, s.turn_open, s.parked, s.wake_at_s,
    s.status, s.worker, s.waiting, s.created_at_s, s.updated_at_s, s.change, s.state,
    array(select l.name from outlast.label l where l.session = s.pk order by l.name),
    array(select l.value from outlast.label l where l.session = s.pk order by l.name), r.priority
from outlast.session s join outlast.route r on r.pk = s.route
where s.tenant + 0 = $1 and s.state = 0 and s.era <= $2::bigint >> 12 and s.change < $2
    and not exists (
        select from unnest($3::text[], $4::text[]) as wanted(name, value)
        where not exists (
            select from outlast.label l
            where l.session = s.pk and l.name = wanted.name and l.value = wanted.value))
order by s.era desc, s.change desc
limit $5

-- name: commits
select s.state, l.seq, l.fence, l.format, l.events, l.sealed, l.flags, l.digest, l.wake_at_s, l.status, l.consumes,
    l.refs, l.body
from outlast.session s
left join lateral (
    select * from outlast.log l where l.session = s.pk and l.seq > $3 and s.state = 0 order by l.seq limit $4
) l on true
where s.tenant = $1 and s.id = $2
order by l.seq

-- name: blobs
select s.state, b.hash, b.bytes
from outlast.session s
left join (
    outlast.blob b join outlast.naming n on n.blob = b.pk
) on n.session = s.pk and b.tenant = $1 and b.hash = any($3::text[]) and s.state = 0
where s.tenant = $1 and s.id = $2

-- name: tenants
select t.name from outlast.tenant t where t.name > '' order by t.name

-- name: workers
select worker, holder, deadline_s from outlast.worker order by worker

-- name: dying
select t.name, s.id from outlast.session s join outlast.tenant t on t.pk = s.tenant where s.state = 1

-- name: spent
select day, cost_usd, tokens, calls, seconds from outlast.spent where tenant = $1 and day >= $2 order by day

-- Lengths alone: of what is kept elsewhere (TOAST) Postgres knows them without reading it.
-- name: stored
select s.state,
    (select count(*) from outlast.log l where l.session = s.pk),
    (select coalesce(sum(length(l.body)), 0)::bigint from outlast.log l where l.session = s.pk),
    (select coalesce(sum(length(d.bodies)), 0)::bigint from outlast.delta d where d.session = s.pk),
    (select coalesce(sum(length(i.body)), 0)::bigint from outlast.input i
        where i.session = s.pk and i.consumed_by is null),
    (select count(*) from outlast.naming n where n.session = s.pk),
    (select coalesce(sum(length(b.bytes)), 0)::bigint from outlast.naming n
        join outlast.blob b on b.pk = n.blob where n.session = s.pk)
from outlast.session s
where s.tenant = $1 and s.id = $2
