-- name: events
select events from log where at = ?

-- The row that holds delta ?2 after commit ?1, or where it would lie.
-- name: first_row
select max(first) from delta where at = ?1 and first <= ?2

-- name: deltas
select at, first, bodies from delta where (at, first) >= (?1, ?2) and at <= ?3 order by at, first
