-- name: server
select current_setting('server_version_num')::int, current_setting('server_encoding')

-- name: schema
select 1 from pg_catalog.pg_namespace where nspname = $1

-- The mark of a World is the comment on its table `layout`: others may have a table of that name.
-- name: tables
select count(*), max(obj_description(c.oid, 'pg_class')) filter (where c.relname = 'layout')
from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
where n.nspname = $1 and c.relkind in ('r', 'p', 'v', 'm', 'S', 'f')

-- Of whole transactions, so that a pooler in between changes nothing.
-- name: lock
select pg_advisory_xact_lock(hashtextextended($1, 0))

-- name: layout
create table outlast.layout (one boolean primary key default true check (one), version int not null);
comment on table outlast.layout is 'outlast world'

-- name: version
select version from outlast.layout

-- name: stamp
insert into outlast.layout (version) values ($1) on conflict (one) do update set version = excluded.version
