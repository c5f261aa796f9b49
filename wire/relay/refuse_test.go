package relay

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pgweir/pgweir/wire"
	"github.com/pgweir/pgweir/wire/wiretest"
)

// A BEGIN is never refused, also in one piece with what is: whoever goes on without a look
// at the error finds himself in a failed transaction.
func TestRefusedBehindBegin(t *testing.T) {
	statement := func(b []byte, text string) []byte {
		b = wiretest.AppendBind(wiretest.AppendParse(b, "", text), wiretest.Bind{})
		return wiretest.AppendExecute(b, "", 0)
	}
	batch := statement(statement(nil, "begin"), "insert 1")
	for name, c := range map[string]struct {
		in   []byte
		want string
	}{
		"batch": {wire.AppendEmpty(batch, wire.MsgSync), `<- ParseComplete
<- BindComplete
<- CommandComplete BEGIN
<- ErrorResponse ERROR 53300 "refused"
<- ReadyForQuery E
<- CommandComplete ROLLBACK
<- ReadyForQuery I
`},
		"batch with names": {sync(parse("s1", "begin"), bindTo("s1"), execute(), parse("s2", "insert 1"), bindTo("s2"), execute()), `<- ParseComplete
<- BindComplete
<- CommandComplete BEGIN
<- ErrorResponse ERROR 53300 "refused"
<- ReadyForQuery E
<- CommandComplete ROLLBACK
<- ReadyForQuery I
`},
		"string": {wire.AppendQuery(nil, "begin read only; insert 1; commit"), `<- CommandComplete BEGIN
<- ErrorResponse ERROR 53300 "refused"
<- ReadyForQuery E
<- CommandComplete ROLLBACK
<- ReadyForQuery I
`},
		"string that does something before": {wire.AppendQuery(nil, "insert 1; begin; insert 2"), `<- ErrorResponse ERROR 53300 "refused"
<- ReadyForQuery I
<- NoticeResponse WARNING 25P01 "there is no transaction in progress"
<- CommandComplete COMMIT
<- ReadyForQuery I
`},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, 1)
			r.client.Refuse(&wire.Error{Severity: "ERROR", Code: "53300", Message: "refused"})
			r.send(wire.AppendQuery(c.in, "commit"))
			if diff := cmp.Diff(c.want, wiretest.DumpBackend(r.out)); diff != "" {
				t.Errorf("answers (-want +got):\n%s", diff)
			}
			if r.grants > 0 {
				t.Error("a server was asked for")
			}
		})
	}
}

// What ends a transaction that a refusal has failed, and what becomes of it, is as in
// Postgres: all of it is answered without a server.
func TestTheEndOfARefusedTransaction(t *testing.T) {
	exec := func(text string) []byte { return sync(parse("", text), bindTo(""), execute()) }
	for name, c := range map[string]struct {
		in   []byte
		want string
	}{
		"prepare transaction": {q("prepare transaction 'x'"), "<- CommandComplete ROLLBACK\n<- ReadyForQuery I\n"},
		"prepare transaction by the extended protocol": {
			exec(" PREPARE transaction 'x'"),
			"<- ParseComplete\n<- BindComplete\n<- CommandComplete ROLLBACK\n<- ReadyForQuery I\n",
		},
		"rollback to by the extended protocol": {
			exec("rollback to s"),
			"<- ParseComplete\n<- BindComplete\n<- ErrorResponse ERROR 3B001 \"savepoint \\\"s\\\" does not exist\"\n<- ReadyForQuery E\n",
		},
		"nothing by the extended protocol": {
			exec(""),
			"<- ParseComplete\n<- ErrorResponse ERROR 25P02 \"current transaction is aborted, commands ignored until end of transaction block\"\n<- ReadyForQuery E\n",
		},
		"commit prepared": {
			q("commit prepared 'x'"),
			"<- ErrorResponse ERROR 25P02 \"current transaction is aborted, commands ignored until end of transaction block\"\n<- ReadyForQuery E\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, 1)
			r.client.Refuse(&wire.Error{Severity: "ERROR", Code: "53300", Message: "refused"})
			r.send(q("begin isolation level serializable"))
			r.send(q("insert 1"))
			r.out = nil
			r.send(c.in)
			if diff := cmp.Diff(c.want, wiretest.DumpBackend(r.out)); diff != "" {
				t.Errorf("answers (-want +got):\n%s", diff)
			}
			if r.grants > 0 {
				t.Error("a server was asked for")
			}
		})
	}
}

func TestSettingsOfOtherCharacters(t *testing.T) {
	sql, _ := settings(NoParams(), NewParams([]Param{{Name: "application_name", Value: "gr\xc3\xbc\\'e"}}), nil)
	if want := `SELECT pg_catalog.set_config('application_name',E'gr\xc3\xbc\\''e',false)`; sql != want {
		t.Errorf("%s, want %s", sql, want)
	}
}

// What a BEGIN has asked for goes with the error of its own transaction, as in Postgres; what
// has come by AND CHAIN stays.
func TestOptionsOfARefusedTransaction(t *testing.T) {
	for name, c := range map[string]struct {
		before []string
		want   string
	}{
		"of its own":     {[]string{"begin read only"}, "BEGIN"},
		"chained":        {[]string{"begin read only", "commit and chain"}, "begin read only"},
		"chained before": {[]string{"begin read only", "commit and chain", "commit", "begin read write"}, "BEGIN"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, 1)
			for _, text := range c.before {
				r.send(q(text))
			}
			r.client.Refuse(&wire.Error{Severity: "ERROR", Code: "53300", Message: "refused"})
			r.send(q("insert 1"))
			r.client.Refuse(nil)
			r.send(q("rollback and chain"))
			if r.client.begin == nil || string(r.client.begin.text()) != c.want {
				t.Errorf("%s is to be sent, not %s", r.client.begin.text(), c.want)
			}
		})
	}
}
