-- name: renew
insert into outlast.worker as w (worker, holder, deadline_s)
values ($1, $2, coalesce($3::float8, extract(epoch from clock_timestamp())::float8) + $4::float8)
on conflict (worker) do update set holder = excluded.holder, deadline_s = excluded.deadline_s

-- name: retire
with gone as (delete from outlast.worker where worker = $1)
select pg_notify($2, $3)
