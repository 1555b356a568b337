-- name: head
select s.id, r.agent, r.placement, s.seq, s.fence, s.format, s.snapshot_seq, s.turn_open, s.parked, s.wake_at_s,
    s.status, s.worker, s.waiting, s.created_at_s, s.updated_at_s, r.priority
from session s join route r on r.pk = s.route
where s.pk = ?

-- name: labels
select name, value from label where session = ?

-- name: page
select pk, change from session
where tenant = (select pk from tenant where name = ?1) and state = 0 and change < ?2
    and not exists (
        select 1 from json_each(?3) wanted
        where not exists (
            select 1 from label l where l.session = session.pk and l.name = wanted.key and l.value = wanted.value))
order by change desc limit ?4

-- name: commits
select at, fence, format, events, sealed, flags, digest, wake_at_s, status, consumes, refs, body
from log
where at > ? and at <= ?
order by at limit ?

-- name: blob
select bytes from blob b join naming n on n.blob = b.pk where b.tenant = ? and b.hash = ? and n.session = ?

-- name: changed_since
select id from session where tenant = (select pk from tenant where name = ?) and change > ? and state = 0

-- name: held
select id from session indexed by session_held
where worker is not null and tenant = (select pk from tenant where name = ?)

-- name: tenants
select name from tenant order by name

-- name: dying
select t.name, s.id from session s join tenant t on t.pk = s.tenant where s.state = 1

-- name: spent
select day, cost_usd, tokens, calls, seconds from spent
where tenant = (select pk from tenant where name = ?) and day >= ? order by day

-- Lengths alone: SQLite knows them without reading what overflows.
-- name: stored
select (select count(*) from log where at > ?1 and at < ?2),
    (select coalesce(sum(length(body)), 0) from log where at > ?1 and at < ?2),
    (select coalesce(sum(length(bodies)), 0) from delta where at > ?1 and at < ?2),
    (select coalesce(sum(length(body)), 0) from input where session = ?3 and consumed_by is null),
    (select count(*) from naming where session = ?3),
    (select coalesce(sum(length(b.bytes)), 0) from naming n join blob b on b.pk = n.blob where n.session = ?3)
