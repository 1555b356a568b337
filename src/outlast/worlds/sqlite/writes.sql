-- name: add_tenant
insert or ignore into tenant (name) values (?)

-- name: add_route
insert or ignore into route (tenant, agent, placement, format, priority) values (?, ?, ?, ?, ?)

-- name: find_route
select pk from route where tenant = ? and agent = ? and placement = ? and format = ? and priority = ?

-- name: route_of
select tenant, agent, placement, format, priority from route where pk = ?

-- name: add_session
insert into session (tenant, id, state, seq, fence, format, snapshot_seq, turn_open, parked, wake_at_s, status, worker,
    route, ready_at, waiting, arrivals, change, created_at_s, updated_at_s)
values (?, ?, 0, 0, 0, 0, 0, 0, 0, null, '', null, ?, null, 0, 0, 0, ?, ?)

-- name: add_label
insert into label (session, name, value) values (?, ?, ?)

-- name: opening
select l.digest, r.agent, r.placement
from session s join route r on r.pk = s.route join log l on l.at = ?
where s.pk = ?

-- name: labels
select name, value from label where session = ?

-- name: digest
select digest from log where at = ?

-- name: add_commit
insert into log (at, fence, format, events, sealed, flags, digest, wake_at_s, status, consumes, refs, body)
values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- The common case: nothing that an index on readiness holds has changed, so none is touched.
-- name: advance
update session
set seq = ?, snapshot_seq = ?, turn_open = ?, parked = ?, wake_at_s = ?, status = ?, waiting = ?, change = ?,
    updated_at_s = ?
where pk = ?

-- name: advance_all
update session
set seq = ?, snapshot_seq = ?, turn_open = ?, parked = ?, wake_at_s = ?, status = ?, waiting = ?, change = ?,
    updated_at_s = ?, fence = ?, format = ?, worker = ?, route = ?, ready_at = ?
where pk = ?

-- name: unconsumed
select consumed_by from input where session = ? and id = ?

-- The content stays under the caller's id as a digest only: the commit that consumed it holds what it said.
-- name: consume
update input set consumed_by = ?, refs = null, body = x'' where session = ? and id = ?

-- name: find_blob
select pk from blob where tenant = ? and hash = ?

-- name: add_blob
insert into blob (tenant, hash, bytes) values (?, ?, ?) returning pk

-- name: name_blob
insert or ignore into naming (session, blob) values (?, ?)

-- name: shown
select first + count from delta where at = ? order by first desc limit 1

-- name: show
insert into delta (at, first, count, bodies) values (?, ?, ?, ?)

-- name: drop
delete from delta
where (at, first) in (select at, first from delta where at >= ?1 and at < ?2 order by at, first limit ?3)
returning 1

-- name: spend
insert into spent (tenant, day, cost_usd, tokens, calls, seconds) values (?, ?, ?, ?, ?, ?)
on conflict (tenant, day) do update set cost_usd = cost_usd + excluded.cost_usd, tokens = tokens + excluded.tokens,
    calls = calls + excluded.calls, seconds = seconds + excluded.seconds

-- name: forget_spent
delete from spent where tenant = ? and day < ?
