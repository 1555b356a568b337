-- name: routes
select pk, agent, priority from route
where tenant = (select pk from tenant where name = ?)
    and agent in (select value from json_each(?)) and placement in (select value from json_each(?)) and format <= ?

-- The first of those in line, and of those whose wake time has passed.
-- name: first_free
select * from (
    select ready_at, pk from session
    where route = ?1 and worker is null and ready_at is not null and ready_at < 0
    order by ready_at limit 1)
union all
select * from (
    select ready_at, pk from session
    where route = ?1 and worker is null and ready_at is not null and ready_at >= 0 and ready_at <= ?2
    order by ready_at limit 1)

-- Workers that sessions name, each once, by hopping through the index from one to the next.
-- name: owners
with recursive owner (worker) as (
    select min(worker) from session where worker is not null
    union all
    select (select min(worker) from session where worker > owner.worker)
    from owner where owner.worker is not null
)
select worker from owner where worker is not null

-- name: first_held
select * from (
    select ready_at, pk from session
    where worker = ?1 and route = ?2 and ready_at < 0
    order by ready_at limit 1)
union all
select * from (
    select ready_at, pk from session
    where worker = ?1 and route = ?2 and ready_at >= 0 and ready_at <= ?3
    order by ready_at limit 1)

-- name: held_by
select r.agent, count(*)
from session s indexed by session_held join route r on r.pk = s.route
where s.worker = ? and r.tenant = (select pk from tenant where name = ?)
group by r.agent

-- name: by_number
select pk, tenant, state, seq, fence, format, snapshot_seq, turn_open, parked, wake_at_s, status, worker, route, ready_at,
    waiting, arrivals, id
from session where pk = ?

-- name: release
update session set worker = null, ready_at = ? where pk = ?
