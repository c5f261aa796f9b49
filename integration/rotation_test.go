package integration

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/pgweir/pgweir/integration/pgtest"
)

// A role's password changes on the server and in the auth_file, which has verifiers only: what
// clients have proved with the old one is tried once and dropped, their sessions log in again,
// and who knows the new one is served.
func TestPasswordRotationBehindClientKeys(t *testing.T) {
	t.Parallel()
	o := operate(t, plan{auth: "scram-sha-256", password: "one"})
	o.sql(t, "postgres", "create role worker login password 'one' connection limit 2; create role dba login in role pg_monitor; grant all on database app to worker")
	file := o.authFile(t)
	verifier := func() string {
		return o.sql(t, "postgres", "select rolpassword from pg_authid where rolname = 'worker'")
	}
	write := func() {
		t.Helper()
		text := append(userlist("app", "one"), userlist("worker", verifier())...)
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
		o.console(t, "reload")
	}
	write()
	login := pgtest.Login{User: "worker", Password: "one", Database: "app"}
	first, second := o.join(t, login), o.join(t, login)
	wantOne(t, first, "select 'by its key'", "by its key")
	failures := func() int {
		log, err := o.cluster.Log()
		if err != nil {
			t.Fatal(err)
		}
		return strings.Count(log, `password authentication failed for user "worker"`)
	}

	o.sql(t, "postgres", "alter role worker password 'two'")
	write()
	wantOne(t, first, "select 'a server that is there'", "a server that is there")
	o.console(t, "reconnect")
	for _, c := range []*pgx.Conn{first, second} {
		_, err := one(t.Context(), c, "select 1::text")
		if sqlstate(err) != "57P01" || !strings.Contains(err.Error(), "password") || !c.IsClosed() {
			t.Errorf("%v, closed %v", err, c.IsClosed())
		}
	}
	if n := failures(); n != 1 {
		t.Errorf("the old key was tried %d times", n)
	}
	if _, err := pgx.Connect(t.Context(), o.URL(login)); sqlstate(err) != "28P01" {
		t.Error(err)
	}
	login.Password = "two"
	eventually(t, "the new password", func() bool {
		c, err := pgx.Connect(t.Context(), o.URL(login))
		if err != nil {
			return false
		}
		defer func() { _ = c.Close(t.Context()) }()
		got, err := one(t.Context(), c, "select current_user::text")
		return err == nil && got == "worker"
	})
	if n := failures(); n != 1 {
		t.Errorf("the old key was tried %d times", n)
	}
}

// A database's own role gets another password: its file is read for each login, so that
// sessions notice nothing once it is right.
func TestPasswordRotationOfAFile(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "password")
	write := func(password string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(password+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("one")
	more := "[database.work]\nupstream = \"main\"\ndbname = \"app\"\nuser = \"worker\"\npassword_file = \"" + file + "\"\n"
	o := operate(t, plan{auth: "scram-sha-256", password: "one", more: more})
	o.sql(t, "postgres", "create role worker login password 'one'")
	c := o.join(t, pgtest.Login{User: "app", Password: "one", Database: "work"})
	wantOne(t, c, "select current_user::text", "worker")
	o.sql(t, "postgres", "alter role worker password 'two'")
	wantOne(t, c, "select 'a server that is there'", "a server that is there")
	o.console(t, "reconnect")
	if _, err := one(t.Context(), c, "select 1::text"); sqlstate(err) != "53300" || c.IsClosed() {
		t.Errorf("with the old password: %v", err)
	}
	write("two")
	eventually(t, "the new password", func() bool {
		got, err := one(t.Context(), c, "select current_user::text")
		return err == nil && got == "worker"
	})
}

// Who is put into the auth_file, or gets another password there, is let in without a reload,
// and so are servers of a role whose password is there. A file that makes no sense changes
// nothing.
func TestAuthFileIsReadAgain(t *testing.T) {
	t.Parallel()
	more := "[database.work]\nupstream = \"main\"\ndbname = \"app\"\nuser = \"worker\"\n"
	o := operate(t, plan{auth: "scram-sha-256", password: "one", more: more})
	o.passwords(t, "app", "one", "worker", "old")
	o.sql(t, "postgres", "create role worker login password 'new'; create role late login password 'two'")
	late := pgtest.Login{User: "late", Password: "two", Database: "app"}
	refused := func(l pgtest.Login) bool {
		c, err := pgx.Connect(t.Context(), o.URL(l))
		if err == nil {
			_ = c.Close(t.Context())
		}
		return sqlstate(err) == "28P01"
	}
	if !refused(late) {
		t.Error("a role that is nowhere came in")
	}
	work := o.app
	work.Database = "work"
	if _, err := pgx.Connect(t.Context(), o.URL(work)); err == nil {
		t.Error("a server was opened without the password")
	}
	o.passwords(t, "app", "one", "worker", "new", "late", "two")
	eventually(t, "a role comes in that was added", func() bool { return !refused(late) })
	wantOne(t, o.join(t, work), "select current_user::text", "worker")
	if err := os.WriteFile(o.authFile(t), []byte("\"app\" \"one\"\n\"late"), 0o600); err != nil {
		t.Fatal(err)
	}
	eventually(t, "half a file is complained of", func() bool {
		wantOne(t, o.join(t, late), "select current_user::text", "late")
		log, err := o.proc.Log()
		return err == nil && strings.Contains(log, "changed auth_file can't be used")
	})
	o.passwords(t, "app", "one")
	eventually(t, "a role is out that was taken away", func() bool { return refused(late) })
}
