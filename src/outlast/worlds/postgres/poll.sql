-- name: look
select w.place, s.state, s.seq, s.deltas, s.arrivals
from unnest($1::text[], $2::text[]) with ordinality as w(tenant, id, place)
join outlast.tenant t on t.name = w.tenant
join outlast.session s on s.tenant = t.pk and s.id = w.id
