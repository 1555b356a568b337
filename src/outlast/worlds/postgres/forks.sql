-- How the source stands, and what is true of its commits up to $3, which never change.
-- name: past
select s.state, s.seq, s.pk, r.agent, r.placement,
    (select l.fence from outlast.log l where l.session = s.pk and l.seq = $3),
    (select max(l.format) from outlast.log l where l.session = s.pk and l.seq <= $3),
    (select max(l.seq) from outlast.log l where l.session = s.pk and l.seq <= $3 and l.flags & 4 <> 0),
    array(select l.refs from outlast.log l where l.session = s.pk and l.seq <= $3 and l.refs is not null)
from outlast.session s join outlast.route r on r.pk = s.route
where s.tenant = $1 and s.id = $2

-- How a session stands that has the id of the fork, and the digests of its commits $3 and $3 + 1.
-- name: standing
select s.state, s.pk, r.placement,
    (select l.digest from outlast.log l where l.session = s.pk and l.seq = $3),
    (select l.digest from outlast.log l where l.session = s.pk and l.seq = $3 + 1),
    array(select b.name from outlast.label b where b.session = s.pk order by b.name),
    array(select b.value from outlast.label b where b.session = s.pk order by b.name)
from outlast.session s join outlast.route r on r.pk = s.route
where s.tenant = $1 and s.id = $2

-- name: digest
select s.pk, l.digest from outlast.session s left join outlast.log l on l.session = s.pk and l.seq = $3
where s.tenant = $1 and s.id = $2 and s.state = 0
