-- The tombstone comes first: from here on nothing lands, whatever is still there to be removed.
-- name: entomb
update session
set state = 1, worker = null, ready_at = null, waiting = 0, status = '', turn_open = 0, parked = 0, wake_at_s = null
where pk = ?

-- name: erase_commits
delete from log where at > ? and at <= ?

-- name: erase_deltas
delete from delta where at > ? and at <= ?

-- name: some_blobs
select blob from naming where session = ? limit ?

-- name: unname
delete from naming where session = ? and blob = ?

-- name: erase_blob
delete from blob where pk = ?1 and not exists (select 1 from naming where blob = ?1)

-- name: erase_inputs
delete from input where session = ?

-- name: erase_labels
delete from label where session = ?

-- name: buried
update session set state = 2 where pk = ?
