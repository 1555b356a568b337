-- One row for all of them, as JSON: every row that SQLite hands out costs a turn of the interpreter's lock.
-- name: find
select json_group_array(json_array(id, pk, state, seq, fence, format, worker, ready_at < 0))
from session
where tenant = (select pk from tenant where name = ?) and id in (select value from json_each(?))

-- name: add
insert into log (at, fence, format, events, sealed, flags, digest, wake_at_s, status, consumes, refs, body)
select value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, 1, value ->> 5, null, value ->> 6, null, null,
    substr(?2, value ->> 7, value ->> 8)
from json_each(?1)

-- name: advance
update session
set seq = value ->> 1, turn_open = 1, parked = 0, wake_at_s = null, status = value ->> 2, change = value ->> 3,
    updated_at_s = ?2
from json_each(?1)
where pk = value ->> 0

-- A lone commit: what `find` is asked and what `advance` does. ?3 is the newest change of the tenant, if it is known.
-- name: advance_one
update session
set seq = ?1, turn_open = 1, parked = 0, wake_at_s = null, status = ?2, updated_at_s = ?4,
    change = 1 + coalesce(?3, (select max(change) from session other where other.tenant = session.tenant))
where tenant = (select pk from tenant where name = ?5) and id = ?6 and state = 0 and seq = ?1 - 1 and fence = ?7
    and worker = ?8 and format >= ?9 and ready_at < 0
returning pk, change

-- name: add_one
insert into log (at, fence, format, events, sealed, flags, digest, wake_at_s, status, consumes, refs, body)
values (?, ?, ?, ?, ?, 1, ?, null, ?, null, null, ?)
