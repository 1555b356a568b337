-- What the fork's head has before its first own commit: the fence of commit ?2 of the source, and the highest format and
-- the newest snapshot up to there. ?1 is the key before its first commit.
-- name: past
select l.fence, (select max(format) from log where at > ?1 and at <= ?2),
    (select max(at) from log where at > ?1 and at <= ?2 and flags & 4)
from log l where l.at = ?2

-- ?3: the source, ?4: the fork, each as the key before its first commit.
-- name: copy_commits
insert into log (at, fence, format, events, sealed, flags, digest, wake_at_s, status, consumes, refs, body)
select at - ?3 + ?4, fence, format, events, sealed, flags, digest, wake_at_s, status, consumes, refs, body
from log where at > ?1 and at <= ?2 order by at

-- In this order (`cross`): the planner would go through all blobs of the tenant, and through the log for each.
-- name: copy_names
insert or ignore into naming (session, blob)
select ?3, b.pk
from log l cross join json_each(l.refs) wanted cross join blob b
where l.at > ?1 and l.at <= ?2 and l.refs is not null and b.tenant = ?4 and b.hash = wanted.value

-- Consumed ones hold no content any more. They keep their order, without holes.
-- name: copy_inputs
insert into input (session, id, arrival, digest, consumed_by, refs, body)
select ?3, id, row_number() over (order by arrival), digest, consumed_by, null, x''
from input where session = ?1 and consumed_by <= ?2

-- name: shared
update session set seq = ?, fence = ?, format = ?, snapshot_seq = ?,
    arrivals = (select count(*) from input where session = session.pk) where pk = ?

-- name: route_of
select agent, placement from route where pk = ?

-- name: labels
select name, value from label where session = ?
