-- name: routes
select pk from route
where tenant = (select pk from tenant where name = ?)
    and agent in (select value from json_each(?)) and placement in (select value from json_each(?)) and format <= ?

-- name: first_free
select ready_at, pk from session
where route = ? and worker is null and ready_at is not null and ready_at <= ?
order by ready_at limit 1

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
select ready_at, pk from session
where worker = ? and route = ? and ready_at is not null and ready_at <= ?
order by ready_at limit 1

-- name: by_number
select pk, tenant, state, seq, fence, format, snapshot_seq, turn_open, parked, wake_at_s, status, worker, route, ready_at,
    waiting, arrivals, id
from session where pk = ?

-- name: release
update session set worker = null, ready_at = ? where pk = ?
