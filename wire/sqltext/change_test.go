package sqltext

import (
	"slices"
	"strings"
	"testing"
)

func TestChanges(t *testing.T) {
	for text, want := range map[string][]Change{
		"":                                      nil,
		"select 1; insert into temp values (1)": nil,
		"listen a":                              {{0, Listens, "a"}},
		`select 1;; LISTEN "B c"; unlisten a; unlisten *;`: {{1, Listens, "B c"}, {2, Unlistens, "a"}, {3, Unlistens, ""}},
		"prepare P(int) as select $1; execute p(1)":        {{0, Prepares, "p"}},
		"prepare transaction 'x'":                          nil,
		"prepare transaction as select 1":                  {{0, Prepares, "transaction"}},
		"deallocate prepare x; deallocate y; deallocate all; deallocate prepare": {
			{0, Forgets, "x"}, {1, Forgets, "y"}, {2, Forgets, ""}, {3, Forgets, "prepare"},
		},
		"discard all":               {{0, Discards, ""}},
		"discard temp":              {{0, Drops, ""}},
		"discard plans":             nil,
		"load 'auto_explain'":       {{0, Loads, ""}},
		"alter table t rename to u": {{0, Alters, ""}},

		"declare c cursor with hold for select 1":                {{0, Declares, "c"}},
		"declare c no scroll cursor without hold for select 1":   nil,
		"declare c cursor for select 'with hold' from with_hold": nil,

		"close c; close all":                                       {{0, Closes, "c"}, {1, Closes, ""}},
		"create temp table t(a int)":                               {{0, Creates, "t"}},
		`create local temporary table if not exists "T" as select`: {{0, Creates, "T"}},
		"create temp table t(a int) on commit drop":                nil,
		"create temp table t(a int) on commit delete rows":         {{0, Creates, "t"}},
		"create or replace temp recursive view v as select 1":      {{0, Creates, "v"}},
		"create temporary sequence s":                              {{0, Creates, "s"}},
		"create table pg_temp.t as select 1":                       {{0, Creates, "t"}},
		"create table public.t as select 1 from pg_temp.x":         nil,
		"create function pg_temp.f() returns int":                  {{0, Creates, ""}},
		"create index on pg_temp.t(a)":                             nil,
		"drop table if exists a, pg_temp.b, public.c cascade":      {{0, Drops, "a"}, {0, Drops, "b"}},
		"drop view v; drop sequence s; drop function f":            {{0, Drops, "v"}, {1, Drops, "s"}},
		"select 1 as a into temp t from x":                         {{0, Creates, "t"}},
		"select 1 into local temporary table t":                    {{0, Creates, "t"}},
		"select 1 into pg_temp.t":                                  {{0, Creates, "t"}},
		"with a as (insert into temp select 1) select 1":           nil,
		"select 1 into t":                                          nil,

		"select pg_advisory_lock(1)":                           {{0, TakesLock, ""}},
		"SELECT pg_catalog.pg_advisory_lock_shared(1, 2) as x": {{0, TakesLock, ""}},
		`select "pg_try_advisory_lock"(hashtext('a')) got`:     {{0, TriesLock, ""}},
		"select pg_try_advisory_lock(1), 2":                    {{0, MayLock, ""}},
		"select pg_advisory_lock(id) from t":                   {{0, MayLock, ""}},
		"select * from pg_advisory_lock(1)":                    {{0, MayLock, ""}},
		"select pg_advisory_unlock(1)":                         {{0, Unlocks, ""}},
		"select pg_advisory_unlock(id) from t":                 nil,
		"select pg_advisory_unlock_all()":                      {{0, UnlocksAll, ""}},
		"select pg_advisory_xact_lock(1)":                      nil,
		"prepare p as select pg_advisory_lock(1)":              {{0, Prepares, "p"}, {0, MayLock, ""}},
		"select 'pg_advisory_lock(1)'":                         nil,
		"do $$ begin perform pg_advisory_lock(1); end $$":      nil,

		`listen a; select 'x\'; listen b; select '1'`: {{0, Listens, ""}},
		"listen a; select 'not closed":                {{0, Listens, ""}},
	} {
		if got := Changes([]byte(text), 9, false); !slices.Equal(got, want) {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}

func TestChangesWhereTablesAreTemporary(t *testing.T) {
	for text, want := range map[string][]Change{
		"create table t()":                    {{0, Creates, "t"}},
		"create table public.t()":             nil,
		"select 1 into t":                     {{0, Creates, "t"}},
		"create type t as enum ()":            {{0, Creates, ""}},
		"drop table t; drop table pg_temp.t;": {{1, Drops, "t"}},
	} {
		if got := Changes([]byte(text), 9, true); !slices.Equal(got, want) {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}

func TestChangesAreBounded(t *testing.T) {
	text := []byte(strings.Repeat("unlisten a;", 9) + "create temp table t(); prepare p as select 1")
	if got, want := Changes(text, 10, false), []Change{{0, Prepares, ""}, {0, Creates, ""}}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if got := Changes(text, 11, false); len(got) != 11 {
		t.Errorf("%v", got)
	}
}

// TestChangesBehindFlags: where a statement leaves something, Classify says so.
func TestChangesBehindFlags(t *testing.T) {
	for text, flag := range map[string]Flags{
		"listen a": Listen, "prepare a as select 1": Prepare, "create temp table t()": Temp, "select 1 into temp t": Temp,
		"create view pg_temp.v as select 1": Temp, "declare c cursor with hold for select 1": Cursor,
		"select pg_try_advisory_lock(1)": Advisory, "select pg_advisory_lock(1) from t": Advisory, "load 'x'": Load,
	} {
		if got := Classify([]byte(text)).Flags; got&flag == 0 {
			t.Errorf("%q: %v, without %v", text, got, flag)
		}
	}
}
