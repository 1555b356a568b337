-- name: find_tenant
select pk from outlast.tenant where name = $1

-- name: add_tenant
insert into outlast.tenant (name) values ($1) on conflict do nothing

-- name: find_route
select pk from outlast.route where tenant = $1 and agent = $2 and placement = $3 and format = $4 and priority = $5

-- name: add_route
insert into outlast.route (tenant, agent, placement, format, priority) values ($1, $2, $3, $4, $5) on conflict do nothing

-- name: forget
delete from outlast.worker w
where w.deadline_s < coalesce($1::float8, extract(epoch from clock_timestamp())::float8) - $2::float8
    and not exists (select from outlast.session s where s.worker = w.worker)
