package matrix

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"time"
)

// themes are what is done, in the order of the table's columns.
func themes() []theme {
	return []theme{
		{name: "transactions", workers: 6, play: transactions, moving: true, tokens: []string{"again: 23505", "failed: 22012, then 25P02", "serializable"}},
		{name: "prepared", workers: 6, play: prepared, moving: true, tokens: []string{"sum row,101", "row,word 7"}},
		{name: "pipeline", workers: 6, play: pipeline},
		{name: "COPY", workers: 6, play: copies, tokens: []string{"in: 500 rows", "bad row: 22P02", "out: 50"}},
		{name: "large objects", workers: 4, play: largeObjects, moving: true, tokens: []string{"12000 bytes", "gone: 42704"}},
		{name: "types", workers: 6, play: types, moving: true},
		{name: "several", workers: 6, play: several, tokens: []string{"left: 0 rows"}},
		{name: "errors", workers: 6, play: failures, tokens: []string{"42601", "42P01", "22012", "23505", "23503", "23502", "22P02", "P0001"}},
		{name: "deadlock", workers: 1, play: deadlock, tokens: []string{"40P01"}},
		{name: "cancel", workers: 1, play: cancels, tokens: []string{"57014"}},
		{name: "notices", workers: 1, play: notices, moving: true, tokens: []string{"NOTICE:  hello 0", "WARNING:  beware 0"}},
		{name: "settings", workers: 6, play: settings, moving: true, tokens: []string{"é"}},
		{name: "resets", workers: 6, play: resets, pool: "cache=none", tokens: []string{"DISCARD ALL", "UNLISTEN *"}},
		{name: "57P01", workers: 1, play: reconnects, tokens: []string{"served after a restart"}},
		{name: "refusals", alone: refusals},
		{name: "probes", alone: probes},
	}
}

// rows is a number of rows.
func (w *worker) rows(where string) string {
	w.Helper()
	return w.must("query", fmt.Sprintf("select count(*)::text from item where w = %d %s", w.n, where)).cell()
}

// insert is the text of one.
func (w *worker) insert(id int, name string) string {
	return fmt.Sprintf("insert into item values (%d, %d, '%s')", w.n, id, name)
}

func transactions(w *worker) {
	w.must("open")
	w.rounds(5, func(i int) {
		w.must("begin")
		w.here()
		w.must("query", w.insert(i, "one"))
		w.must("savepoint", "s")
		w.say("again: %s", w.do("query", w.insert(i, "again")).code())
		w.must("rollbackto", "s")
		w.must("query", w.insert(10000+i, "two"))
		w.must("release", "s")
		w.must("commit")

		w.must("begin")
		w.must("query", fmt.Sprintf("delete from item where w = %d", w.n))
		w.must("rollback")
		w.say("%s rows", w.rows("and true"))

		w.must("begin")
		w.must("query", w.insert(20000+i, "never"))
		failed := w.do("query", "select 1/0").code()
		w.say("failed: %s, then %s", failed, w.do("query", "select 1").code())
		w.must("rollback")
		w.say("%s never", w.rows("and id >= 20000"))

		w.must("begin", "serializable")
		w.say("%s", w.must("query", "show transaction_isolation").cell())
		w.must("commit")
		w.say("%s", w.must("query", "show transaction_isolation").cell())
	})
	w.must("close")
}

func prepared(w *worker) {
	w.must("open")
	w.has("prepare", fmt.Sprintf("sum%d", w.n), "select $1::text::int + 1 as sum")
	w.must("prepare", fmt.Sprintf("word%d", w.n), "select name, null, id from word where id = $1::text::int")
	w.must("prepare", fmt.Sprintf("insert%d", w.n), "insert into item select $1::text::int, $2::text::int, $3::text returning id::text")
	run := func(name string, args ...string) string {
		w.Helper()
		return w.must("run", append([]string{fmt.Sprintf("%s%d", name, w.n)}, args...)...).String()
	}
	w.rounds(12, func(i int) {
		w.say("sum %s", run("sum", fmt.Sprint(100+i)))
		if i%3 == 0 {
			w.must("begin")
			w.here()
		}
		w.say("%s", run("word", fmt.Sprint((7+i)%100)))
		w.say("%s", run("insert", fmt.Sprint(w.n), fmt.Sprint(i), "prepared"))
		if i%3 == 0 {
			w.must("commit")
		}
		w.say("%s", w.must("query", "select name from word where id = $1::text::int", fmt.Sprint(i)))
		w.say("%s", w.must("query", fmt.Sprintf("select $1::text as t%d", i%4), "its cache"))
	})
	w.say("%s rows", w.rows("and id < 12"))
	w.must("close")
}

func pipeline(w *worker) {
	w.must("open")
	one := w.do("pipeline", w.insert(1, "p"), fmt.Sprintf("update item set name = 'q' where w = %d", w.n), w.insert(2, "p"))
	if !one.can() { // one statement, several times
		one = w.has("pipeline", fmt.Sprintf("update word set name = name where id = %d", w.n))
	}
	w.say("%v", one)
	for i := range 5 {
		a := w.do("pipeline", w.insert(10+i, "p"), w.insert(1, "again"), w.insert(20+i, "p"))
		w.say("an error in it: %v; %s rows", a.code(), w.rows(""))
		w.say("by itself: %v", w.do("pipeline", fmt.Sprintf("update deal set n = n + 0 where id = %d", w.n+1)))
	}
	w.must("begin")
	w.must("query", w.insert(100, "in a transaction"))
	w.say("%v", w.do("pipeline", w.insert(101, "p"), w.insert(102, "p")))
	w.must("rollback")
	w.say("%s rows", w.rows(""))
	w.must("close")
}

func copies(w *worker) {
	w.must("open")
	var text strings.Builder
	for i := range 500 {
		fmt.Fprintf(&text, "%d\t%d\tname %d of %d\n", w.n, i, i, w.n)
	}
	const in = "copy item from stdin"
	w.has("copyin", in, text.String())
	w.say("in: %s rows", w.rows(""))
	if w.driver == "postgresjs" { // it waits for ever after a COPY that failed, with PostgreSQL itself, too
		out := w.must("copyout", fmt.Sprintf("copy (select id from item where w = %d order by id) to stdout", w.n))
		w.say("bad row: 22P02 is not tried; out: %d rows", len(out))
		w.must("close")
		return
	}
	for i := range 3 {
		bad := fmt.Sprintf("%d\t1001\tx\nnone\t1002\tx\n", w.n)
		w.say("bad row: %s", w.do("copyin", in, bad).code())
		w.say("twice: %s, then %s", w.do("copyin", in, text.String()).code(), w.rows(""))
		w.must("begin")
		w.must("copyin", in, fmt.Sprintf("%d\t%d\tx\n", w.n, 2000+i))
		w.must("rollback")
		w.say("%s rolled back", w.rows("and id >= 2000"))
	}
	// lib/pq has no COPY TO; it is the only one.
	if out := w.do("copyout", fmt.Sprintf("copy (select * from item where w = %d order by id) to stdout", w.n)); out.can() {
		h := sha256.New()
		n := 0
		for _, line := range out {
			if line[0] == "row" {
				n++
				fmt.Fprintln(h, line[1:])
			}
		}
		w.say("out: %d rows, %x", n, h.Sum(nil)[:6])
		w.say("an error in it: %s", w.do("copyout", "copy (select 1 / (300 - n) from generate_series(1, 500) n) to stdout").code())
		w.say("%s", w.rows(""))
	} else {
		w.say("out: 500 rows, cannot")
	}
	w.must("close")
}

func largeObjects(w *worker) {
	w.must("open")
	text := strings.Repeat(fmt.Sprintf("lo %d, é. ", w.n), 1200) // ten bytes each
	w.rounds(4, func(int) {
		w.must("begin")
		w.here()
		oid := w.must("lowrite", text).cell()
		w.say("the same in its transaction: %t", w.must("loread", oid).cell() == text)
		w.must("commit")
		w.must("begin")
		w.here()
		again := w.must("loread", oid).cell()
		w.say("%d bytes, the same later: %t", len(again), again == text)
		w.must("query", "select lo_unlink("+oid+")")
		w.must("commit")
		w.must("begin")
		w.here() // Ruby's lo_open holds all of its process while it waits for a server
		w.say("gone: %s", w.able("loread", oid).code())
		w.must("rollback")
	})
	w.must("close")
}

func types(w *worker) {
	w.must("open")
	w.rounds(4, func(int) {
		w.here()
		w.say("%v", w.has("types"))
		w.say("%v", w.must("query", "select $1::text is null, $2::text = '', null::int", null, ""))
	})
	w.must("close")
}

func several(w *worker) {
	w.must("open")
	for i := range 4 {
		w.say("%v", w.do("exec", fmt.Sprintf("%s; select 1 as a; select name from item where w = %d", w.insert(1, "x"), w.n)))
		w.say("%v", w.do("exec", fmt.Sprintf("delete from item where w = %d; select 2; select 1/0; select 3", w.n)))
		w.say("kept: %s rows", w.rows(""))
		w.say("%v", w.do("exec", fmt.Sprintf("begin; delete from item where w = %d; commit", w.n)))
		w.say("left: %s rows", w.rows(""))
		w.say("%v", w.do("exec", fmt.Sprintf("begin; %s; rollback; %s", w.insert(2, "x"), w.insert(3+i, "y"))))
		w.say("%s rows", w.rows(""))
		w.say("%v", w.do("exec", fmt.Sprintf("delete from item where w = %d", w.n)))
	}
	w.must("close")
}

func failures(w *worker) {
	w.must("open")
	w.must("query", w.insert(1, "one"))
	for range 2 {
		list := []string{
			"selec 1", "select * from nowhere", "select 1/0", w.insert(1, "again"), fmt.Sprintf("insert into part values (%d, 99)", w.n),
			fmt.Sprintf("insert into item values (%d, 2, null)", w.n), "select 'x'::int",
			"do $$ begin raise exception 'own' using detail = 'the detail', hint = 'the hint'; end $$", "select pg_sleep(0), 1/(g-2) from generate_series(1,3) g",
		}
		if w.driver == "postgresjs" { // it waits for ever after an error behind a row, with PostgreSQL itself, too
			list = list[:len(list)-1]
		}
		for _, sql := range list {
			w.say("%s: %v", sql, w.do("query", sql).first("error"))
			w.say("then %s", w.must("query", "select 'goes on'").cell())
			w.say("at once: %s", w.do("exec", sql).code())
		}
	}
	w.say("%s rows", w.rows(""))
	w.must("close")
}

// deadlock is with somebody who waits directly at PostgreSQL, and longer: the driver's
// transaction is the one that is stopped.
func deadlock(w *worker) {
	w.must("open")
	for range 2 {
		w.must("begin")
		w.must("query", "update deal set n = n + 1 where id = 1")
		release := w.other(w.T)
		w.say("deadlock: %s", w.do("query", "update deal set n = n + 1 where id = 2").code())
		w.must("rollback")
		release()
		w.say("then %s", w.must("query", "select n::text from deal where id = 1").cell())
	}
	w.must("close")
}

func cancels(w *worker) {
	w.must("open")
	cancel := func(mark string) string {
		done := make(chan answer, 1)
		go func() { done <- w.do("long", "select pg_sleep(60)::text, '"+mark+"'") }()
		pid := w.running(w.T, mark)
		if pid == "" {
			w.Errorf("%s does not run, directly %t: %v", mark, w.direct, <-done)
			return ""
		}
		if w.driver == "pdo" { // it has no cancel
			w.ask(w.T, "select pg_cancel_backend("+pid+")::text")
		} else if a := w.agent.do(100, "cancel", fmt.Sprint(w.n)); a.code() != "" || !a.can() {
			w.Errorf("cancel: %v", a)
		}
		return (<-done).code()
	}
	for i := range 3 {
		w.say("%s", cancel(fmt.Sprintf("alone %d", i)))
		w.say("then %s", w.again())
		if w.driver == "postgresjs" { // it does not tell when a cancel is over, whose second signal may come later
			return
		}
		w.must("begin")
		w.must("query", w.insert(i, "never"))
		w.say("in a transaction: %s", cancel(fmt.Sprintf("within %d", i)))
		w.do("rollback") // some drivers have thrown the connection away
		w.say("then %s, %s rows", w.again(), w.rows(""))
	}
	w.must("close")
}

// again is served on the connection, or on another of the pool where the driver has thrown
// the first away.
func (w *worker) again() string { return w.finally("select 'served'") }

func (w *worker) finally(sql string) string {
	w.Helper()
	var a answer
	for began := time.Now(); time.Since(began) < 2*patience; {
		if a = w.do("query", sql); a.code() == "" {
			return a.cell()
		}
		w.do("close")
		w.do("open")
	}
	w.Errorf("not served again: %v", a)
	return "not"
}

// twice is for what follows a DISCARD ALL, after which pgx's cache is wrong once.
func (w *worker) twice(sql ...string) string {
	w.Helper()
	if a := w.do("query", sql...); a.code() == "" {
		return a.cell()
	}
	return w.must("query", sql...).cell()
}

func notices(w *worker) {
	w.must("open")
	w.rounds(4, func(i int) {
		w.here()
		a := w.has("notices", fmt.Sprintf("do $$ begin raise notice 'hello %d'; raise warning 'beware %d'; raise debug 'nothing'; end $$", i, i))
		for _, line := range a {
			if line[0] == "notice" {
				w.say("%s", line[1])
			}
		}
	})
	w.must("close")
}

func settings(w *worker) {
	zone := []string{"America/New_York", "Asia/Kolkata", "UTC", "Australia/Lord_Howe"}[w.n%4]
	if w.n%2 == 0 || !w.do("connect", w.options("tz="+zone, "enc=LATIN1")...).can() {
		w.must("connect", w.options("tz="+zone)...)
	}
	look := func() {
		w.say("%v", w.must("query", "select current_setting('TimeZone'), '2024-07-01 00:00+00'::timestamptz::text, current_setting('client_encoding'), "+
			"current_setting('DateStyle'), octet_length(convert_to($1::text, 'UTF8')), $2::text, current_setting('application_name') = 'changed'", "é", "é"))
		w.here()
	}
	w.rounds(4, func(int) { look() })
	w.must("exec", "set time zone 'Europe/Berlin'")
	w.must("exec", "set application_name = 'changed'")
	w.pids = make(map[string]bool)
	w.rounds(4, func(int) { look() })
	w.must("begin")
	w.must("exec", "set local time zone 'Asia/Tokyo'")
	look()
	w.must("commit")
	w.must("begin")
	w.must("exec", "set time zone 'Asia/Tokyo'")
	look()
	w.must("rollback")
	look()
	w.must("exec", "reset all")
	w.pids = make(map[string]bool)
	w.rounds(4, func(int) { look() })
	w.must("close")
}

func resets(w *worker) {
	if w.driver == "sql" { // each goes to whatever connection of the pool
		w.cannot()
	}
	for i := range 3 {
		w.must("open")
		for _, sql := range []string{
			"DISCARD ALL", "RESET ALL", "UNLISTEN *", "CLOSE ALL", "DEALLOCATE ALL", "ROLLBACK", "ABORT", "SET SESSION AUTHORIZATION DEFAULT", "RESET ROLE",
			"SELECT pg_advisory_unlock_all()", "DISCARD TEMP", "DISCARD SEQUENCES", "DISCARD PLANS",
			"SELECT pg_advisory_unlock_all(); CLOSE ALL; UNLISTEN *; RESET ALL", "ROLLBACK; SELECT 1", "",
		} {
			w.say("%s: %v, then %s", sql, w.do("exec", sql), w.again())
		}
		w.must("exec", "set time zone 'Asia/Tokyo'")
		w.must("exec", "DISCARD ALL")
		w.say("%s", w.twice("show timezone"))
		w.must("exec", "set time zone 'Asia/Tokyo'")
		w.must("close") // with what the pool does about it
		w.must("open")
		w.say("%d: %s", i, w.twice("select $1::text", "the pool's next"))
		w.must("exec", "reset timezone")
		name := fmt.Sprintf("kept%d_%d", w.n, i)
		if w.able("prepare", name, fmt.Sprintf("select $1::text as kept%d", i)).can() {
			w.say("%s", w.must("run", name, "a").cell())
			w.must("exec", "DEALLOCATE ALL")
			w.say("%s", w.do("run", name, "b").code())
			w.say("%s", w.again())
		}
		w.must("close")
	}
}

// killed kills the server of a statement until the driver answers: database/sql sends it again
// by itself when lib/pq has lost the connection.
func (w *worker) killed(mark string, kill func(pid string)) string {
	done := make(chan answer, 1)
	go func() { done <- w.do("long", "select pg_sleep(60)::text, '"+mark+"'") }()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for kills := 0; ; {
		select {
		case a := <-done:
			switch {
			case kills == 0:
				w.Errorf("%s: ended before its server was killed: %v", mark, a)
			case w.driver == "psql" && a.code() == "?": // at times it says only that the connection is lost
				return "57P01"
			}
			return a.code()
		case <-tick.C:
			if pid := w.ask(w.T, sleeping(mark)); pid != "" {
				kill(pid)
				kills++
			}
		}
	}
}

// reconnects kills the server of a statement, that of a transaction, those of idle clients,
// and pgweir itself.
func reconnects(w *worker) {
	if w.driver == "postgresjs" { // a connection of its reserve() that was lost is not replaced
		w.cannot()
	}
	w.must("open")
	kill := func(pid string) {
		w.ask(w.T, "select pg_terminate_backend("+pid+")::text")
		w.until(w.T, "the server has ended", "select 'ended' where not exists (select from pg_stat_activity where pid = "+pid+")")
	}
	w.say("in a statement: %s", w.killed("to be killed", kill))
	w.say("%s", w.again())

	w.must("begin")
	w.must("query", w.insert(1, "never"))
	kill(w.must("query", "select pg_backend_pid()::text").cell())
	w.say("in a transaction: %t", w.do("query", "select 1").code() != "")
	w.do("rollback")
	w.say("%s, %s rows", w.again(), w.rows(""))

	w.must("close")
	killed := w.ask(w.T, "with app as materialized (select pid from pg_stat_activity where usename = 'app') "+
		"select coalesce(string_agg(pid::text, ','), '0') from app where pg_terminate_backend(pid)")
	w.until(w.T, "all servers have ended", "select 'ended' where not exists (select from pg_stat_activity where pid in ("+killed+"))")
	if !w.direct { // nobody hears of it
		w.must("open")
		w.must("query", "select 1")
		w.must("close")
		w.restart()
	}
	w.do("open") // it may or may not be noticed
	w.say("%s after a restart", w.again())
	w.must("query", w.insert(2, "x"))
	w.must("close")
}
