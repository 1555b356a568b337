-- What comes behind the cursor ($3, $4), commits (kind 0) and rows of deltas (kind 1), in one snapshot: at most $5 of
-- each, and about $6 bytes. Bytes are counted without being read (`octet_length` of what is stored outside of the row).
-- A row of deltas comes only if one of it is new to the reader and counts.
-- name: behind
with head as materialized (
    select pk, state, seq from outlast.session where tenant = $1 and id = $2
),
place as materialized (
    select h.pk, l.events, (l.seq is null or $4::bigint < greatest(l.events, 1) - 1) as first_itself,
        $4::bigint - greatest(l.events, 1) + 1 as index
    from head h left join outlast.log l on l.session = h.pk and l.seq = $3::bigint
    where h.state = 0
),
items as (
    (select l.seq as at, 0 as kind, 0::bigint as first, l.seq, l.fence, l.format, l.events, l.sealed, l.flags, l.digest,
        l.wake_at_s, l.status, l.consumes, l.refs, l.body
    from place p join outlast.log l on l.session = p.pk
    where l.seq >= case when p.first_itself then greatest($3, 1) else $3 + 1 end
    order by l.seq limit $5)
    union all
    (select d.after, 1, d.first, d.after, null, null, null, l.sealed, null, null, null, null, null, null, d.bodies
    from place p join outlast.delta d on d.session = p.pk
    left join outlast.log l on l.session = d.session and l.seq = d.after + 1
    where d.after >= greatest($3, 1) and (d.after > $3 or p.first_itself or d.first + d.count > p.index)
        and (l.sealed is null or d.first < l.sealed)
    order by d.after, d.first limit $5)
),
counted as (
    select i.*, sum(octet_length(i.body)) over (order by i.at, i.kind, i.first) - octet_length(i.body) as before
    from items i
)
select h.state, c.seq, c.fence, c.format, c.events, c.sealed, c.flags, c.digest, c.wake_at_s, c.status, c.consumes,
    c.refs, c.body, c.kind, c.first, p.events as width
from head h
left join place p on true
left join (select * from counted where before < $6 order by at, kind, first limit $5) c on true
order by c.at, c.kind, c.first
