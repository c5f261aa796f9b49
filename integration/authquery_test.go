package integration

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/pgweir/pgweir/integration/pgtest"
)

// askedCluster is a server with roles of every kind, of which pgweir has no file.
const askedRoles = `
set password_encryption = 'scram-sha-256';
create role pgweir login password 'own';
create role scram login password 'right';
create role expired login password 'right' valid until '2001-01-01';
create role never login password 'right' valid until '-infinity';
create role always login password 'right' valid until 'infinity';
create role later login password 'right' valid until '2999-01-01';
create role nologin password 'right';
create role bare login;
set password_encryption = 'md5';
create role md5er login password 'right';
create role pools login password 'pools';
create schema guard;
create function guard.secret(name text, out name text, out secret text) returns record
 security definer language sql set search_path = pg_catalog
 as $$ select rolname, rolpassword from pg_authid where rolname = $1 $$;
grant usage on schema guard to pgweir;
revoke execute on function guard.secret from public;
grant execute on function guard.secret to pgweir;
-- What a client would need for CVE-2025-12819: names in a schema of its choice.
create schema evil;
grant all on schema evil to public;
create table evil.pg_authid (rolname name, rolpassword text);
insert into evil.pg_authid values ('scram', 'stolen'), ('ghost', 'stolen');
create function evil.lower(text) returns text language sql as $$ select 'ghost' $$;
grant all on all tables in schema evil to public;
alter role pgweir set search_path = evil, public;
`

const askGuard = "SELECT name, secret FROM guard.secret(pg_catalog.lower($1))"

// startAsked starts the cluster and pgweir before it.
func startAsked(t *testing.T, auth, more string) *front {
	t.Helper()
	c, err := pgtest.Start(t.Context(), pgtest.Options{HBA: []string{"local all all trust", "host all all 127.0.0.1/32 md5"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { endCluster(t, c) })
	f := &front{Endpoint: c.Endpoint, cluster: c, app: pgtest.Login{User: "scram", Password: "right", Database: "postgres"}}
	f.sql(t, "postgres", askedRoles)
	f.proc = pgtest.Pgweir(t, auth+fmt.Sprintf(`
[upstream.main]
url = "postgres://pgweir:own@%s/postgres?sslmode=disable"
budget = 8
[database."*"]
`, c.Addr())+more)
	f.Endpoint = f.proc.Endpoint
	return f
}

// try logs in and returns the SQLSTATE, "" if it works.
func try(t *testing.T, e pgtest.Endpoint, l pgtest.Login, params ...string) (string, error) {
	t.Helper()
	config, err := pgx.ParseConfig(e.URL(l))
	if err != nil {
		t.Fatal(err)
	}
	// Each comes from an address of its own, because failed ones make those after them wait.
	from := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, byte(1+rand.N(250)), byte(rand.N(256)), byte(1+rand.N(250)))}}
	config.DialFunc = from.DialContext
	for i := 0; i+1 < len(params); i += 2 {
		config.RuntimeParams[params[i]] = params[i+1]
	}
	c, err := pgx.ConnectConfig(t.Context(), config)
	if err != nil {
		return sqlstate(err), err
	}
	defer func() { _ = c.Close(context.Background()) }()
	var user string
	if err := c.QueryRow(t.Context(), "select current_user").Scan(&user); err != nil {
		return sqlstate(err), err
	}
	return "", nil
}

// TestAuthQuery logs in as roles of every kind that only Postgres knows;
// VALID UNTIL holds (CVE-2025-2291). Trap 32.
func TestAuthQuery(t *testing.T) {
	for _, auth := range []string{"scram-sha-256", "md5", "password"} {
		t.Run(auth, func(t *testing.T) {
			f := startAsked(t, "[auth]\nauth_type = \""+auth+"\"\nauth_query = \""+askGuard+"\"\n", "[database.virtual]\ndbname = \"postgres\"\nuser = \"pgweir\"\n")
			for role, want := range map[string]string{
				"scram": "", "always": "", "later": "", "md5er": "", "Scram": "28P01",
				"expired": "28P01", "never": "28P01", "nologin": "28P01", "bare": "28P01", "ghost": "28P01", "": "",
				"x' or true --": "28P01", "$1": "28P01", "\xff": "28P01", strings.Repeat("long", 40): "28P01",
			} {
				if role == "" {
					continue
				}
				if role == "md5er" && auth == "scram-sha-256" {
					want = "28P01"
				}
				l := pgtest.Login{User: role, Password: "right", Database: "postgres"}
				if role == "\xff" && auth != "password" {
					continue // pgx will not write such a name into a SCRAM message
				}
				if got, err := try(t, f.Endpoint, l); got != want || (err == nil) != (want == "") {
					t.Errorf("%q: %v, want %q", role, err, want)
				}
				l.Password = "wrong"
				if got, _ := try(t, f.Endpoint, l); got != "28P01" {
					t.Errorf("%q with a wrong password: %q", role, got)
				}
			}
			if out, err := f.Endpoint.Psql(t.Context(), pgtest.Login{User: "scram", Password: "right", Database: "virtual"}, "select session_user"); err != nil || strings.TrimSpace(out) != "pgweir" {
				t.Errorf("to a database with a role of its own: %q, %v", out, err)
			}
		})
	}
}

// TestAuthQueryGivesNothingToTheClient tries what got into PgBouncer (CVE-2025-12819): a
// search_path of the client's choice in the session that asks for passwords. Trap 31.
func TestAuthQueryGivesNothingToTheClient(t *testing.T) {
	query := "SELECT rolname, rolpassword FROM pg_authid WHERE rolname = lower($1)"
	f := startAsked(t, "[auth]\nauth_query = \""+query+"\"\n", "")
	f.sql(t, "postgres", "alter role pgweir superuser;")
	for _, role := range []string{"scram", "ghost"} {
		for _, params := range [][]string{
			{"search_path", "evil"}, {"options", "-c search_path=evil"}, {"options", "--search_path=evil,pg_catalog"}, {"role", "postgres"},
		} {
			l := pgtest.Login{User: role, Password: "stolen", Database: "postgres"}
			if got, err := try(t, f.Endpoint, l, params...); got != "28P01" {
				t.Errorf("%s with %v: %v", role, params, err)
			}
		}
	}
	if got, err := try(t, f.Endpoint, f.app, "search_path", "evil"); got != "" {
		t.Errorf("the right password: %v", err)
	}
}

// TestAuthQueryWithoutPostgres says what holds while Postgres is away.
func TestAuthQueryWithoutPostgres(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "userlist.txt")
	if err := os.WriteFile(file, userlist("dba", "dba"), 0o600); err != nil {
		t.Fatal(err)
	}
	f := startAsked(t, fmt.Sprintf("[auth]\nauth_file = %q\nauth_query = %q\nauth_query_age = \"1h\"\n", file, askGuard), "[console]\nadmin_users = [\"dba\", \"later\"]\n")
	if got, err := try(t, f.Endpoint, f.app); got != "" {
		t.Fatal(err)
	}
	if err := f.cluster.Halt(); err != nil {
		t.Fatal(err)
	}
	console := pgtest.Login{User: "dba", Password: "dba", Database: "pgweir"}
	if out, err := f.Endpoint.Psql(t.Context(), console, "show version"); err != nil || !strings.Contains(out, "pgweir") {
		t.Errorf("the console: %q, %v", out, err)
	}
	if _, err := f.Endpoint.Psql(t.Context(), pgtest.Login{User: "later", Password: "right", Database: "pgweir"}, "show version"); err == nil || !strings.Contains(err.Error(), "password authentication failed") {
		t.Errorf("the console asks Postgres: %v", err)
	}
	got, err := try(t, f.Endpoint, pgtest.Login{User: "later", Password: "right", Database: "postgres"})
	if got != "57P03" || strings.Contains(err.Error(), "password") {
		t.Errorf("who is not known: %v", err)
	}
	wrong := f.app
	wrong.Password = "wrong"
	if got, err := try(t, f.Endpoint, wrong); got != "28P01" {
		t.Errorf("who is known, with a wrong password: %v", err)
	}
	if got, err := try(t, f.Endpoint, f.app); got == "28P01" || got == "" || strings.Contains(err.Error(), "auth_query") {
		t.Errorf("who is known is let in and told that there is no server: %v", err)
	}
	if err := f.cluster.Resume(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it works again", func() bool { got, _ := try(t, f.Endpoint, f.app); return got == "" })
	f.sql(t, "postgres", "alter role scram password 'other'")
	other := f.app
	other.Password = "other"
	eventually(t, "the new password counts", func() bool { got, _ := try(t, f.Endpoint, other); return got == "" })
}
