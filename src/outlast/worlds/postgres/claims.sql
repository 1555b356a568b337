-- The first in line and the first woken of the free sessions that fit, and of those of each worker that stands no longer;
-- of these the one that comes first (`outlast.world.line`). Reads only: that it is still so is judged by `take`.
--
-- $2, $7 to $9: the agents that are offered, each with its turn, whether priorities count in this claim of its, and
-- whether the woken come first. $10 to $12: limits.
-- name: choose
with recursive clock as materialized (
    select coalesce($6::float8, extract(epoch from clock_timestamp())::float8) as now_s
),
offered as materialized (
    select o.* from unnest($2::text[], $7::bigint[], $8::boolean[], $9::boolean[])
        as o(agent, turn, by_priority, woken_first)
    where ($12::bigint is null or outlast.running($1, null, $5, (select now_s from clock)) < $12)
        and not exists (
            select from unnest($10::text[], $11::bigint[]) as l(agent, most)
            where l.agent = o.agent and outlast.running($1, l.agent, $5, (select now_s from clock)) >= l.most)
),
fitting as materialized (
    select r.pk, o.turn, o.woken_first, case when o.by_priority then -r.priority else 0 end as urgency
    from offered o join outlast.route r on r.agent = o.agent
    where r.tenant = $1 and r.placement = any($3::text[]) and r.format <= $4
),
-- Workers that sessions name, each once, by hopping through the index from one to the next.
owner (worker) as (
    (select min(s.worker) from outlast.session s where s.worker is not null)
    union all
    select (select min(s.worker) from outlast.session s where s.worker > o.worker)
    from owner o where o.worker is not null
),
lost as materialized (
    select o.worker from owner o, clock
    where o.worker is not null and (o.worker = any($5::text[]) or coalesce(
        (select w.deadline_s from outlast.worker w where w.worker = o.worker), 0) <= clock.now_s)
),
ready as (
    select c.pk, c.ready_at, f.turn, f.urgency, f.woken_first
    from clock, fitting f, lateral (
        (select s.pk, s.ready_at from outlast.session s
        where s.route = f.pk and s.worker is null and s.ready_at < 0
        order by s.ready_at limit 1)
        union all
        (select s.pk, s.ready_at from outlast.session s
        where s.route = f.pk and s.worker is null and s.ready_at >= 0 and s.ready_at <= clock.now_s
        order by s.ready_at limit 1)) c
    union all
    select c.pk, c.ready_at, f.turn, f.urgency, f.woken_first
    from clock, fitting f, lost l, lateral (
        (select s.pk, s.ready_at from outlast.session s
        where s.worker = l.worker and s.route = f.pk and s.ready_at < 0
        order by s.ready_at limit 1)
        union all
        (select s.pk, s.ready_at from outlast.session s
        where s.worker = l.worker and s.route = f.pk and s.ready_at >= 0 and s.ready_at <= clock.now_s
        order by s.ready_at limit 1)) c
)
select s.pk, s.id, s.seq, s.fence, s.format, s.deltas, s.snapshot_seq, s.turn_open, s.parked, s.wake_at_s, s.status,
    s.worker, s.route, r.agent
from (
    select pk from ready order by turn, urgency, (ready_at >= 0) <> woken_first, ready_at limit 1
) first join outlast.session s using (pk) join outlast.route r on r.pk = s.route

-- name: choose_one
select s.pk, s.id, s.seq, s.fence, s.format, s.deltas, s.snapshot_seq, s.turn_open, s.parked, s.wake_at_s, s.status,
    s.worker, s.route, r.agent
from outlast.session s join outlast.route r on r.pk = s.route,
    (select coalesce($6::float8, extract(epoch from clock_timestamp())::float8) as now_s) clock
where s.tenant = $1 and s.id = $7 and s.state = 0 and r.agent = any($2::text[]) and r.placement = any($3::text[])
    and r.format <= $4 and s.ready_at <= clock.now_s
    and (s.worker is null or s.worker = any($5::text[]) or coalesce(
        (select w.deadline_s from outlast.worker w where w.worker = s.worker), 0) <= clock.now_s)
    and ($10::bigint is null or outlast.running($1, null, $5, clock.now_s) < $10)
    and not exists (
        select from unnest($8::text[], $9::bigint[]) as l(agent, most)
        where l.agent = r.agent and outlast.running($1, l.agent, $5, clock.now_s) >= l.most)

-- Lands the takeover if the session still stands as it was read: number, fence, count of deltas, holder. All of these
-- are on the row itself, so that its newest version is judged if somebody else had it locked. The deadline of the holder
-- is a scalar subquery, evaluated anew then; a join would keep the row it had found, or had not found, before the wait.
--
-- Where a limit is stated ($19 of the agent, $20 of the tenant), it lands only if there is room (`outlast.room`): those who
-- state one come one after the other here, and each counts what the one before it took. The lock that holds them is let
-- go with this statement; whoever holds it waits for nobody but for a row that a commit has locked.
-- name: take
with room as materialized (
    select case when $19::bigint is null and $20::bigint is null then true else outlast.room(
        $22, $18, $19, $20, $21::text[], coalesce($7::float8, extract(epoch from clock_timestamp())::float8))
        end as free
),
moved as (
    update outlast.session s
    set seq = $2::bigint + 1, fence = $3::bigint + 1, worker = $8, deltas = 0, format = $9, route = $10,
        change = n.change, era = n.change >> 12,
        updated_at_s = coalesce($7::float8, extract(epoch from clock_timestamp())::float8),
        -- Who is taken over joins the line at its end.
        ready_at = case when s.ready_at < 0 and s.worker <> $8
            then n.change - 1125899906842624 else s.ready_at end
    from (select nextval('outlast.change') as change) n, room
    where room.free and s.pk = $1 and s.state = 0 and s.seq = $2 and s.fence = $3 and s.deltas = $4
        and s.worker is not distinct from $5::text
        and (s.worker is null or $6::boolean or coalesce(
            (select w.deadline_s from outlast.worker w where w.worker = s.worker), 0)
            <= coalesce($7::float8, extract(epoch from clock_timestamp())::float8))
    returning s.pk
)
insert into outlast.log (session, seq, fence, format, events, sealed, wake_at_s, flags, digest, status, body)
select pk, $2::bigint + 1, $3::bigint + 1, $11, $12, $4, $13, $14, $15, $16, $17 from moved
returning 1

-- Behind all that already wait.
-- name: release
update outlast.session s
set worker = null, ready_at = case when s.ready_at < 0 then n.change - 1125899906842624 else s.ready_at end
from (select nextval('outlast.change') as change) n
where s.tenant = $1 and s.id = $2 and s.state = 0 and s.fence = $3
    and s.worker is not distinct from $4::text
returning 1

-- The same for a claim that was not answered: only if it is that takeover which stands, and nothing after it.
-- name: give_back
update outlast.session s
set worker = null, ready_at = case when s.ready_at < 0 then n.change - 1125899906842624 else s.ready_at end
from (select nextval('outlast.change') as change) n
where s.tenant = $1 and s.id = $2 and s.state = 0 and s.fence = $3 and s.worker is not distinct from $4::text
    and s.seq = $5 and exists (
        select from outlast.log l where l.session = s.pk and l.seq = $5 and l.digest = $6)
returning 1

-- name: route
select agent, placement, priority from outlast.route where pk = $1
