-- name: find_tenant
select pk from tenant where name = ?

-- name: find_session
select pk, tenant, state, seq, fence, format, snapshot_seq, turn_open, parked, wake_at_s, status, worker, route, ready_at,
    waiting, arrivals
from session
where tenant = (select pk from tenant where name = ?) and id = ?

-- The same, and the newest change of the tenant, which whoever writes needs next.
-- name: find_to_write
select pk, tenant, state, seq, fence, format, snapshot_seq, turn_open, parked, wake_at_s, status, worker, route, ready_at,
    waiting, arrivals,
    (select change from session other where other.tenant = session.tenant
        order by change desc limit 1)
from session
where tenant = (select pk from tenant where name = ?) and id = ?

-- name: newest_change
select change from session
where tenant = (select pk from tenant where name = ?)
order by change desc limit 1
