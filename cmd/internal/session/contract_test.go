package session

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pgweir/pgweir/admission"
	"github.com/pgweir/pgweir/wire"
	"github.com/pgweir/pgweir/wire/relay"
	"github.com/pgweir/pgweir/wire/wiretest"
)

// What is promised to programs is changed knowingly: set UPDATE=1 to write the golden file.
// Trap 53.
func TestContract(t *testing.T) {
	var b strings.Builder
	for _, c := range Contract() {
		reason, as := c.Reason, ""
		if reason == "" {
			reason = "-"
		}
		if c.Queued {
			as = " queued"
		}
		if c.Login != "" {
			as += " login=" + c.Login
		}
		fmt.Fprintf(&b, "%s %s %s%s\n  %s\n  %s\n  # %s\n", reason, c.Code, c.Severity, as, c.Message, c.appendRetry(nil), c.When)
	}
	path := filepath.Join("testdata", "contract.golden")
	if os.Getenv("UPDATE") != "" {
		if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	golden, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(golden), b.String()); d != "" {
		t.Error(d)
	}
}

func TestContractNamesReasonsOnce(t *testing.T) {
	seen := make(map[string]bool)
	for _, c := range Contract() {
		if seen[c.Reason] && c.Reason != "" {
			t.Errorf("%s stands there twice", c.Reason)
		}
		seen[c.Reason] = true
		if c.When == "" || c.Code == "" || c.Severity != wire.SeverityError && c.Severity != wire.SeverityFatal {
			t.Errorf("%+v lacks something", c)
		}
		if c.Reason != "" {
			if e := SayLogin(c.Reason); e.Severity != wire.SeverityFatal || e.Detail != "reason="+c.Reason {
				t.Errorf("to a login %+v", e)
			}
		}
	}
	for r := admission.None + 1; int(r) < admission.Reasons; r++ {
		if contract[r].Reason != r.String() {
			t.Errorf("in the place of %s is %q", r, contract[r].Reason)
		}
	}
}

// readmeTable is the table of README's section "What clients are told".
func readmeTable() string {
	var b strings.Builder
	b.WriteString("| when | SQLSTATE | session | `retry=` | `reason=` |\n| --- | --- | --- | --- | --- |\n")
	for _, c := range Contract() {
		session, retry, reason := "kept", string(c.Retry), c.Reason
		if c.Severity == wire.SeverityFatal {
			session = "closed"
		}
		if reason != "" {
			reason = "`" + reason + "`"
		}
		code := c.Code + " " + c.Severity
		if c.Login != "" {
			code += "; " + c.Login + " to a login"
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", c.When, code, session, retry, reason)
	}
	return strings.ReplaceAll(b.String(), "|  ", "| ")
}

func TestReadmeHasTheContract(t *testing.T) {
	path := filepath.Join("..", "..", "..", "README.md")
	readme, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	const heading = "## What clients are told\n"
	_, section, found := strings.Cut(string(readme), heading)
	if !found {
		t.Fatal("README has no such section")
	}
	at := strings.Index(section, "| when |")
	end := at + strings.Index(section[at:], "\n\n") + 1
	if os.Getenv("UPDATE") != "" {
		text := strings.Replace(string(readme), section[at:end], readmeTable(), 1)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if d := cmp.Diff(readmeTable(), section[at:end]); d != "" {
		t.Errorf("README differs (UPDATE=1 writes it):\n%s", d)
	}
}

// What the relay says by itself, it says as the contract has it.
func TestRelayKeepsTheContract(t *testing.T) {
	told, want := relay.BlockOpened(), Say("statement_mode")
	want.Severity = wire.SeverityFatal
	if d := cmp.Diff(want, told); d != "" {
		t.Error(d)
	}
	l := newLab(t)
	l.client.Data(wire.AppendEmpty(wiretest.AppendParse(nil, "s", "select "+strings.Repeat("1+", 1<<20)+"1"), wire.MsgSync), 2)
	l.server.Data(answer(l.wire.last), 3)
	if d := cmp.Diff(Say("statements"), firstError(t, l.user.last)); d != "" {
		t.Error(d)
	}
	l.client.Data(wire.AppendQuery(nil, "set a.b = '"+strings.Repeat("x", 20<<10)+"'"), 2)
	l.server.Data(answer(l.wire.last), 3)
	if d := cmp.Diff(Say("settings"), firstError(t, l.user.last)); d != "" {
		t.Error(d)
	}
	l.client.Data([]byte{'!', 0, 0, 0, 4}, 2)
	e := firstError(t, l.user.last)
	if last := contract[len(contract)-1]; e.Code != last.Code || e.Severity != last.Severity || !l.client.ended {
		t.Errorf("told %+v", e)
	}
}

func firstError(t *testing.T, b []byte) *wire.Error {
	t.Helper()
	msgs, _ := wiretest.Messages(b)
	for _, m := range msgs {
		if m.Type == wire.MsgErrorResponse {
			return wire.ErrorFields(m.Body)
		}
	}
	t.Fatalf("no error in %s", wiretest.DumpBackend(b))
	return nil
}

// Every reason of the gate, told to a simple Query, to a batch, to a pipeline and inside a
// transaction: one error at once, nothing of it run, and the session in the state that the
// client believes in. Trap 15.
func TestRefusalsInEveryProtocol(t *testing.T) {
	extended := func(text string) []byte {
		return wire.AppendExecute(wiretest.AppendBind(wiretest.AppendParse(nil, "", text), wiretest.Bind{}))
	}
	sync := wire.AppendEmpty(nil, wire.MsgSync)
	flush := wire.AppendEmpty(nil, wire.MsgFlush)
	join := func(parts ...[]byte) (b []byte) {
		for _, p := range parts {
			b = append(b, p...)
		}
		return b
	}
	q := func(text string) []byte { return wire.AppendQuery(nil, text) }
	for name, c := range map[string]struct {
		before, ask, rest []byte
		at, after         string // types of the messages at once, and after the rest
		tx                byte
	}{
		"query":             {ask: q("select 1"), at: "EZ", tx: 'I'},
		"batch":             {ask: join(extended("select 1"), sync), at: "EZ", tx: 'I'},
		"batch, Sync later": {ask: join(extended("select 1"), flush), rest: sync, at: "E", after: "Z", tx: 'I'},
		"pipeline":          {ask: join(extended("select 1"), extended("select 2"), sync), at: "EZ", tx: 'I'},
		"in a transaction":  {before: q("begin"), ask: q("select 1"), at: "EZ", tx: 'E'},
		"batch there":       {before: q("begin"), ask: join(extended("select 1"), sync), at: "EZ", tx: 'E'},
	} {
		for r := admission.None + 1; int(r) < admission.Reasons; r++ {
			if contract[r].Severity != wire.SeverityError {
				continue
			}
			t.Run(name+"/"+r.String(), func(t *testing.T) {
				l := newLab(t)
				user := &tape{}
				other := l.core.NewClient(user, l.client.group, l.client.link.Params(), l.client.key)
				other.Start(1)
				other.Data(c.before, 2)
				user.all = nil
				l.client.Data(q("select 0"), 2) // has the slot
				used := other.Data(c.ask, 3)
				other.wait.Attempt = 3
				if !other.wait.Waiting() {
					t.Fatal("it does not wait")
				}
				l.core.gate.Withdraw(3, &other.wait)
				v := l.core.gate.Refuse(3, &other.wait, r)
				v.RetryAfter = 200e6
				other.refused(v, 3)
				used += other.Data(c.ask[used:], 3)
				if got := types(user.all); got != c.at || used != len(c.ask) {
					t.Fatalf("%d of %d bytes used, told %s: %s", used, len(c.ask), got, wiretest.DumpBackend(user.all))
				}
				e := firstError(t, user.all)
				term := contract[r]
				if e.Code != term.Code || e.Severity != "ERROR" || e.Message != term.Message {
					t.Errorf("told %+v", e)
				}
				if !strings.HasPrefix(e.Detail, "reason="+r.String()+" pool=default class=critical wait_ms=") {
					t.Errorf("DETAIL %q", e.Detail)
				}
				after := "retry_after_ms=800 retry=yes"
				switch {
				case r == admission.Rate:
					after = "retry_after_ms=200 retry=yes"
				case term.Retry == RetryNo:
					after = "retry=no"
				}
				if term.Advice != "" {
					after += "; " + term.Advice
				}
				if e.Hint != after {
					t.Errorf("HINT %q, want %q", e.Hint, after)
				}
				if c.rest != nil {
					user.all = nil
					other.Data(c.rest, 4)
					if got := types(user.all); got != c.after {
						t.Errorf("after the rest told %s", got)
					}
				}
				if other.ended || user.all[len(user.all)-1] != c.tx {
					t.Errorf("the session stands at %q", user.all[len(user.all)-1])
				}
				if l.server.client == other {
					t.Error("it has a server")
				}
			})
		}
	}
}

// A tenant that was named stands in DETAIL, as one word.
func TestRefusalNamesTheTenant(t *testing.T) {
	for tag, want := range map[string]string{
		"":                            " class=critical wait_ms=",
		"/*pgweir.tenant='acme'*/":    " class=critical tenant=acme wait_ms=",
		"/*pgweir.tenant='a%20b=c'*/": ` class=critical tenant="a b=c" wait_ms=`,
		"/*pgweir.class='sheddable',pgweir.tenant='" + strings.Repeat("x", 100) + "'*/": " class=sheddable tenant=" + strings.Repeat("x", 64) + " wait_ms=",
	} {
		l := newLab(t)
		user := &tape{}
		other := l.core.NewClient(user, l.client.group, l.client.link.Params(), l.client.key)
		other.Start(1)
		l.client.Data(wire.AppendQuery(nil, "select 0"), 2)
		ask := wire.AppendQuery(nil, "select 1 "+tag)
		other.Data(ask, 3)
		l.core.Fire(10e9)
		other.Data(ask, 10e9)
		if e := firstError(t, user.all); !strings.Contains(e.Detail, want) || strings.Count(e.Detail, "tenant=") != strings.Count(want, "tenant=") {
			t.Errorf("%s: DETAIL %q", tag, e.Detail)
		}
	}
}

// tape is a Conn that remembers all.
type tape struct {
	sink
	all []byte
}

func (s *tape) Send(spans [][]byte) int {
	for _, b := range spans {
		s.all = append(s.all, b...)
	}
	return 0
}

// types names the messages of b.
func types(b []byte) string {
	var list []byte
	msgs, _ := wiretest.Messages(b)
	for _, m := range msgs {
		list = append(list, m.Type)
	}
	return string(list)
}

// With compat = "pgbouncer" those whom the queue refuses are told what PgBouncer tells them,
// and go; others are not.
func TestCompatPgBouncer(t *testing.T) {
	for r := admission.None + 1; int(r) < admission.Reasons; r++ {
		l := newLab(t)
		l.core.Imitate(true)
		l.client.refused(l.core.gate.Refuse(2, &l.client.wait, r), 2)
		if ends := contract[r].Queued || contract[r].Severity == wire.SeverityFatal; l.client.ended != ends {
			t.Errorf("%s: ended %v", r, l.client.ended)
			continue
		}
		if !contract[r].Queued {
			continue
		}
		if e := firstError(t, l.user.last); e.Code != "08P01" || e.Severity != "FATAL" || e.Message != "query_wait_timeout" {
			t.Errorf("%s: told %+v", r, e)
		}
	}
}

// A login that no server can be found for is told what libpq takes as a reason to try the
// next host.
func TestLoginWithoutServer(t *testing.T) {
	l := newLab(t)
	user := &sink{}
	cl := l.core.NewClient(user, l.client.group, l.client.link.Params(), l.client.key)
	cl.login = true
	l.core.clients++
	cl.refused(l.core.gate.Refuse(2, &cl.wait, admission.NoServer), 2)
	if e := firstError(t, user.last); e.Code != "57P03" || e.Severity != "FATAL" {
		t.Errorf("told %+v", e)
	}
}
