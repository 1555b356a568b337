-- Layout 2. Every key that leads to a session's rows begins with the session's number, so that what belongs together
-- lies together. Numbers instead of names wherever a row exists once per commit.

create table tenant (
    pk integer primary key,
    name text not null unique
) strict;

-- What an offer is matched against: the sessions of one route fit exactly the same workers, and are of one priority.
create table route (
    pk integer primary key,
    tenant integer not null,
    agent text not null,
    placement text not null,
    format integer not null,
    priority integer not null,
    unique (tenant, agent, placement, format, priority)
) strict;

create table session (
    pk integer primary key,
    tenant integer not null,
    id text not null,
    state integer not null, -- 0 alive, 1 being erased, 2 erased: the tombstone
    seq integer not null,
    fence integer not null,
    format integer not null,
    snapshot_seq integer not null,
    turn_open integer not null,
    parked integer not null,
    wake_at_s real,
    status text not null,
    worker text,
    route integer not null,
    ready_at real, -- see claims.py; null: not ready by itself
    waiting integer not null, -- inputs that are not consumed
    arrivals integer not null, -- inputs that ever came
    change integer not null, -- grows with every commit and input of the tenant
    created_at_s real not null,
    updated_at_s real not null,
    unique (tenant, id)
) strict;

create index session_by_change on session (tenant, change);
create index session_free on session (route, ready_at) where worker is null and ready_at is not null;
create index session_held on session (worker, route, ready_at) where worker is not null;
create index session_dying on session (pk) where state = 1;

create table label (
    session integer not null,
    name text not null,
    value text not null,
    primary key (session, name)
) strict, without rowid;

-- at: the session's number times 2^28 plus the number of the commit. One tree, rows in the order in which they are read.
create table log (
    at integer primary key,
    fence integer not null,
    format integer not null,
    events integer not null,
    sealed integer not null,
    flags integer not null, -- 1 turn open, 2 parked, 4 snapshot, 8 release
    digest text not null,
    wake_at_s real,
    status text not null,
    consumes text, -- JSON; null: none
    refs text, -- JSON; null: none
    body blob not null -- last, so that long ones overflow and the rest is read without them
) strict;

-- at: of the commit after which they were published. One row for each publish.
create table delta (
    at integer not null,
    first integer not null,
    count integer not null,
    bodies blob not null, -- MessagePack, an array of byte strings
    primary key (at, first)
) strict, without rowid;

create table input (
    session integer not null,
    id text not null,
    arrival integer not null,
    digest text not null,
    consumed_by integer,
    refs text, -- JSON; null: none
    body blob not null, -- empty once consumed
    primary key (session, id)
) strict, without rowid;

create index input_waiting on input (session, arrival) where consumed_by is null;

create table blob (
    pk integer primary key,
    tenant integer not null,
    hash text not null,
    bytes blob not null,
    unique (tenant, hash)
) strict;

-- Which session names which blob.
create table naming (
    session integer not null,
    blob integer not null,
    primary key (session, blob)
) strict, without rowid;

create index naming_by_blob on naming (blob);

-- What each tenant has spent, by day.
create table spent (
    tenant integer not null,
    day integer not null,
    cost_usd real not null,
    tokens integer not null,
    calls integer not null,
    seconds real not null,
    primary key (tenant, day)
) strict, without rowid;
