-- name: find
select arrival, digest, consumed_by, refs, body from input where session = ? and id = ?

-- name: add
insert into input (session, id, arrival, digest, consumed_by, refs, body) values (?, ?, ?, ?, null, ?, ?)

-- name: arrived
update session set waiting = waiting + 1, arrivals = ?, ready_at = ?, route = ?, change = ?, updated_at_s = ? where pk = ?

-- name: waiting
select id, arrival, digest, consumed_by, refs, body from input
where session = ? and consumed_by is null
order by arrival
