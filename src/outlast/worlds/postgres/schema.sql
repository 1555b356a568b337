-- Layout 2. What belongs to a session is kept under its number, so that what is read together lies together. `outlast`
-- stands for the schema that the World's address names.
--
-- Texts hold no NUL in Postgres: `texts.py` writes it as \0. Bytes are compressed already, or small: none is compressed
-- again (`external`), and rows up to half a page stay whole.

create sequence outlast.change;

create table outlast.tenant (
    pk int generated always as identity primary key,
    name text collate "C" not null unique
);

-- What an offer is matched against: the sessions of one route fit exactly the same workers, and are of one priority.
-- Rows are never removed.
create table outlast.route (
    pk int generated always as identity primary key,
    tenant int not null,
    agent text collate "C" not null,
    placement text collate "C" not null,
    format bigint not null,
    priority int not null,
    unique (tenant, agent, placement, format, priority)
);

-- A commit changes no column that an index holds, but `era` once in a while: the new version stays on its page and no
-- index is written (HOT), for which the pages keep room.
create table outlast.session (
    pk bigint generated always as identity primary key,
    tenant int not null,
    state smallint not null, -- 0 alive, 1 being erased, 2 erased: the tombstone
    route int not null,
    id text collate "C" not null,
    created_at_s float8 not null,
    worker text collate "C",
    ready_at float8, -- see claims.py; null: not ready by itself
    era bigint not null, -- change / 4096: what the index on changes holds
    change bigint not null, -- grows with every commit and input; no two sessions have the same
    format bigint not null,
    fence bigint not null,
    seq bigint not null,
    deltas bigint not null, -- published after commit `seq`
    snapshot_seq bigint not null,
    waiting bigint not null, -- inputs that are not consumed
    arrivals bigint not null, -- inputs that ever came
    turn_open boolean not null,
    parked boolean not null,
    wake_at_s float8,
    updated_at_s float8 not null,
    status text not null,
    unique (tenant, id)
) with (fillfactor = 60, autovacuum_vacuum_scale_factor = 0.05);

-- `+ 0` keeps this index, and that on blobs below, for the one statement that says the same: a plan that was made while
-- the tables were empty cannot tell it from the unique one, which alone finds a row at once.
create index session_by_change on outlast.session ((tenant + 0), era);
create index session_free on outlast.session (route, ready_at) where worker is null and ready_at is not null;
create index session_held on outlast.session (worker, route, ready_at) where worker is not null;
create index session_dying on outlast.session (pk) where state = 1;

create table outlast.label (
    session bigint not null,
    name text collate "C" not null,
    value text collate "C" not null,
    primary key (session, name)
);

create table outlast.log (
    session bigint not null,
    seq bigint not null,
    fence bigint not null,
    format bigint not null,
    events bigint not null,
    sealed bigint not null,
    wake_at_s float8,
    flags smallint not null, -- 1 turn open, 2 parked, 4 snapshot, 8 release
    digest text not null,
    status text not null,
    consumes text, -- JSON; null: none
    refs text, -- JSON; null: none
    body bytea not null,
    primary key (session, seq)
) with (toast_tuple_target = 4080, autovacuum_vacuum_insert_scale_factor = 0.1);
alter table outlast.log alter column body set storage external;

-- One row for each publish.
create table outlast.delta (
    session bigint not null,
    after bigint not null,
    first bigint not null,
    count bigint not null,
    bodies bytea not null, -- MessagePack, an array of byte strings
    primary key (session, after, first)
) with (toast_tuple_target = 4080, autovacuum_vacuum_scale_factor = 0.02);
alter table outlast.delta alter column bodies set storage external;

create table outlast.input (
    session bigint not null,
    id text collate "C" not null,
    arrival bigint not null,
    digest text not null,
    consumed_by bigint,
    refs text, -- JSON; null: none
    body bytea not null, -- empty once consumed
    primary key (session, id)
) with (toast_tuple_target = 4080);
alter table outlast.input alter column body set storage external;

create index input_waiting on outlast.input (session, arrival) where consumed_by is null;

create table outlast.blob (
    pk bigint generated always as identity primary key,
    tenant int not null,
    hash text collate "C" not null,
    bytes bytea not null,
    unique (tenant, hash)
) with (toast_tuple_target = 4080);
alter table outlast.blob alter column bytes set storage external;

-- Which session names which blob.
create table outlast.naming (
    session bigint not null,
    blob bigint not null,
    primary key (session, blob)
);

create index naming_by_blob on outlast.naming ((blob + 0));

create table outlast.worker (
    worker text collate "C" primary key,
    holder text not null,
    deadline_s float8 not null
) with (fillfactor = 50);

-- How many sessions of a tenant, or of one agent of it, are held under leases that stand: an entry of `session_held` for
-- each. Volatile, so that each call looks with a snapshot of its own, later than that of the statement which calls it.
create function outlast.running(of_tenant int, of_agent text, dead text[], now_s float8) returns bigint
language plpgsql volatile as $$
begin
    return (
        with recursive owner (worker) as (
            (select min(s.worker) from outlast.session s where s.worker is not null)
            union all
            select (select min(s.worker) from outlast.session s where s.worker > o.worker)
            from owner o where o.worker is not null
        )
        select count(*)
        from owner o
        join outlast.session s on s.worker = o.worker
        join outlast.route r on r.pk = s.route
        where o.worker is not null and not (o.worker = any(dead)) and r.tenant = of_tenant
            and (of_agent is null or r.agent = of_agent)
            and (select w.deadline_s from outlast.worker w where w.worker = o.worker) > now_s
    );
end
$$;

-- Whether one more may be taken. Of all that ask about one tenant each is answered only when the one before it has ended,
-- and what that took is counted: until the end of its transaction nobody else is let in.
create function outlast.room(
    of_tenant int, of_agent text, most_of_agent bigint, most bigint, dead text[], now_s float8) returns boolean
language plpgsql volatile as $$
begin
    perform pg_advisory_xact_lock(hashtextextended('outlast.limits', of_tenant));
    return (most_of_agent is null or outlast.running(of_tenant, of_agent, dead, now_s) < most_of_agent)
        and (most is null or outlast.running(of_tenant, null, dead, now_s) < most);
end
$$;
-- What each tenant has spent, by day.
create table outlast.spent (
    tenant int not null,
    day int not null,
    cost_usd float8 not null,
    tokens bigint not null,
    calls bigint not null,
    seconds float8 not null,
    primary key (tenant, day)
) with (fillfactor = 50);
