-- The tombstone comes first: from here on nothing lands, whatever is still there to be removed.
-- name: entomb
update outlast.session
set state = 1, worker = null, ready_at = null, waiting = 0, status = '', turn_open = false, parked = false,
    wake_at_s = null
where tenant = $1 and id = $2 and state = 0
returning pk

-- name: find
select pk, state from outlast.session where tenant = $1 and id = $2

-- name: erase_commits
with gone as (
    delete from outlast.log l
    using (select seq from outlast.log where session = $1 order by seq limit $2) old
    where l.session = $1 and l.seq = old.seq
    returning 1
)
select count(*) from gone

-- name: erase_deltas
with gone as (
    delete from outlast.delta d
    using (select after, first from outlast.delta where session = $1 order by after, first limit $2) old
    where d.session = $1 and d.after = old.after and d.first = old.first
    returning 1
)
select count(*) from gone

-- The first of two statements of one transaction. Whoever is about to name one of these holds it locked until that
-- stands; only the next statement's snapshot is sure to see it.
-- name: lock_blobs
select b.pk from outlast.blob b
where b.pk in (select n.blob from outlast.naming n where n.session = $1 order by n.blob limit $2)
order by b.hash for update

-- The second.
-- name: erase_blobs
with unnamed as (
    delete from outlast.naming where session = $1 and blob = any($2::bigint[])
)
delete from outlast.blob b
where b.pk = any($2::bigint[])
    and not exists (select from outlast.naming n where n.blob + 0 = b.pk and n.session <> $1)

-- name: bury
with inputs as (delete from outlast.input where session = $1),
labels as (delete from outlast.label where session = $1)
update outlast.session set state = 2 where pk = $1
