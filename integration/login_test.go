package integration

import (
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/pgweir/pgweir/integration/pgtest"
)

// Clients log in to pgweir, and pgweir to PostgreSQL, each in every way; the password file
// has the password in clear, from which all of them can be made.
func TestLogin(t *testing.T) {
	const password = `pass"word with \ and é`
	for _, server := range []string{"trust", "md5", "scram-sha-256"} {
		p := plan{auth: server, password: password}
		if server == "md5" {
			p.settings = map[string]string{"password_encryption": "md5"}
		}
		behind := startBehind(t, p)
		for _, client := range []string{"trust", "md5", "scram-sha-256"} {
			p.front = client
			t.Run(client+" before "+server, func(t *testing.T) { loginWays(t, behind.before(t, p), p) })
		}
	}
}

func loginWays(t *testing.T, f *front, p plan) {
	asks := p.front
	if f.proc == nil {
		asks = p.auth
	}
	if got := f.psql(t, "select current_user"); got != "app" {
		t.Errorf("psql is %q", got)
	}
	var user string
	if err := f.connect(t).QueryRow(t.Context(), "select current_user").Scan(&user); err != nil || user != "app" {
		t.Errorf("pgx is %q, %v", user, err)
	}
	if err := f.openPq(t, 1).QueryRow("select current_user").Scan(&user); err != nil || user != "app" {
		t.Errorf("lib/pq is %q, %v", user, err)
	}
	if asks == "trust" {
		return
	}
	for _, wrong := range []pgtest.Login{
		{User: "app", Password: "wrong", Database: "app"},
		{User: "nobody_here", Password: p.password, Database: "app"},
	} {
		c, err := pgx.Connect(t.Context(), f.URL(wrong))
		if err == nil {
			t.Errorf("%s with %q was let in", wrong.User, wrong.Password)
			_ = c.Close(t.Context())
		} else if sqlstate(err) != "28P01" {
			t.Errorf("%s with %q: %v, want 28P01", wrong.User, wrong.Password, err)
		}
	}
	if got := f.psql(t, "select 'and again'"); got != "and again" {
		t.Errorf("after the wrong ones: %q", got)
	}
}
