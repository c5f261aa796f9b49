package login

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pgweir/pgweir/integration/pgtest"
	"github.com/pgweir/pgweir/wire"
	"github.com/pgweir/pgweir/wire/scram"
)

func deadline(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

// query runs one simple query and returns the first column of its rows, or the
// error that came.
func query(s *Server, sql string) ([]string, error) {
	if err := s.Conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return nil, err
	}
	defer func() { _ = s.Conn.SetDeadline(time.Time{}) }()
	if _, err := s.Conn.Write(wire.AppendQuery(nil, sql)); err != nil {
		return nil, err
	}
	var rows []string
	var failed error
	for {
		typ, body, err := wire.ReadMessage(s.Conn, 1<<20)
		switch {
		case err != nil:
			return rows, err
		case typ == wire.MsgErrorResponse:
			failed = wire.ErrorFields(body)
		case typ == wire.MsgDataRow:
			rows = append(rows, string(body[6:]))
		case typ == wire.MsgReadyForQuery:
			return rows, failed
		}
	}
}

// goodbye ends a session and waits for the server's end of it.
func goodbye(t *testing.T, s *Server) {
	t.Helper()
	if _, err := s.Conn.Write(wire.AppendEmpty(nil, wire.MsgTerminate)); err != nil {
		t.Error(err)
	}
	awaitEnd(deadline(t), s.Conn, patience)
	_ = s.Conn.Close()
}

func target(c *pgtest.Cluster, user string, cr Credentials) Target {
	return Target{Network: "tcp", Address: c.Addr(), User: user, Database: "postgres", Credentials: cr}
}

func TestDialPostgres(t *testing.T) {
	c := postgres.get(t)
	password := Credentials{Password: "right"}
	for _, tc := range []struct {
		user  string
		creds Credentials
		want  string // SQLSTATE, "" = in, "none" = ErrNoCredentials
	}{
		{"trusty", Credentials{}, ""},
		{"md5_md5", password, ""},
		{"md5_md5", Credentials{MD5: wire.MD5Password("md5_md5", "right")}, ""},
		{"md5_md5", Credentials{MD5: wire.MD5Password("md5_md5", "wrong")}, "28P01"},
		{"md5_md5", Credentials{Password: "wrong"}, "28P01"},
		{"md5_md5", Credentials{Keys: scram.Keys{Client: scram.Key{1}}}, "none"},
		{"md5_scram", password, ""},
		{"md5_scram", Credentials{MD5: wire.MD5Password("md5_scram", "right")}, "none"},
		{"clear_md5", password, ""},
		{"clear_scram", password, ""},
		{"clear_scram", Credentials{}, "none"},
		{"clear_scram", Credentials{Password: "wrong"}, "28P01"},
		{"scram_scram", password, ""},
		{"scram_scram", Credentials{}, "none"},
		{"scram_scram", Credentials{Password: "Right"}, "28P01"},
		{"scram_scram", Credentials{Keys: scram.Keys{Client: scram.Key{1}}}, "28P01"},
		{"narrow", Credentials{}, "53300"},
		{"nobody", Credentials{}, "28000"},
	} {
		s, err := Dial(deadline(t), target(c, tc.user, tc.creds))
		e, _ := errors.AsType[*wire.Error](err)
		switch {
		case tc.want == "" && err == nil:
			if got, err := query(s, "select current_user"); err != nil || len(got) != 1 || got[0] != tc.user {
				t.Errorf("%s: is %q, %v", tc.user, got, err)
			}
			goodbye(t, s)
		case tc.want == "none" && errors.Is(err, ErrNoCredentials):
		case tc.want != "" && e != nil && e.Code == tc.want && e.Severity == "FATAL" && e.Message != "":
		default:
			t.Errorf("%s: %v, expected %q", tc.user, err, tc.want)
		}
	}
}

func TestWhatPostgresTells(t *testing.T) {
	c := postgres.get(t)
	tg := Target{
		Network: "unix", Address: filepath.Join(c.SocketDir, fmt.Sprintf(".s.PGSQL.%d", c.Port)),
		User: "trusty", Database: "other db",
		Params: []wire.Param{{Name: "application_name", Value: "the test"}, {Name: "options", Value: `-c search_path=a,\ b --statement-timeout=7s`}},
	}
	s, err := Dial(deadline(t), tg)
	if err != nil {
		t.Fatal(err)
	}
	defer goodbye(t, s)
	status := make(map[string]string)
	for _, p := range s.Status {
		if _, twice := status[p.Name]; twice {
			t.Errorf("%s twice", p.Name)
		}
		status[p.Name] = p.Value
	}
	if status["application_name"] != "the test" || status["client_encoding"] != "UTF8" || s.Version == "" || s.Version != status["server_version"] {
		t.Errorf("version %q, status %v", s.Version, status)
	}
	got, err := query(s, `select unnest(array[pg_backend_pid()::text, current_database(), current_setting('search_path'), current_setting('statement_timeout')])`)
	if want := fmt.Sprintf("%d|other db|a, b|7s", s.PID); err != nil || strings.Join(got, "|") != want {
		t.Errorf("%q, %v, expected %s", got, err, want)
	}
	if len(s.Secret) != 4 {
		t.Errorf("secret of %d bytes", len(s.Secret))
	}
}

// TestOptionsAsPostgres gives command lines to a server and compares the settings
// that it made with those that SplitOptions says.
func TestOptionsAsPostgres(t *testing.T) {
	c := postgres.get(t)
	for _, options := range []string{
		`-c work_mem=1MB`, `-cwork_mem=1MB --statement-timeout=5s`, ` --application-name=a\ b\\c\d `,
		`-c search_path=x,\ y`, `-c application_name=a -c application_name=b`, `-e`, `-S 128`, `-fs -fi -f h`,
		"--application-name=tab\\\there", "-c\tapplication_name=a\x0b-S\n99", `-c application_name=`, `-c a.b=c=d`,
		`-c`, `-c work_mem`, `--work-mem`, `x`, `-c a=b x`, `--`, `-c work_mem=1MB --`, `-- x`, `-- -c work_mem=1MB`, `-`, `-x`, `-f y`, `-c nonsense=1`, `-t pa`, `-tz`,
	} {
		tg := target(c, "postgres", Credentials{})
		tg.Params = []wire.Param{{Name: "options", Value: options}}
		s, err := Dial(deadline(t), tg)
		ps, ours := wire.SplitOptions(options)
		if err != nil {
			e, ok := errors.AsType[*wire.Error](err)
			if !ok {
				t.Fatal(err)
			}
			// An unknown setting is the server's to refuse.
			if mine, ok := errors.AsType[*wire.Error](ours); e.Code != "42704" && (!ok || mine.Code != e.Code) {
				t.Errorf("%q: Postgres says %v, we %v, %v", options, e, ps, ours)
			}
			continue
		}
		if ours != nil {
			t.Errorf("%q: Postgres takes it, we say %v", options, ours)
		}
		last := make(map[string]string)
		for _, p := range ps {
			last[p.Name] = p.Value
		}
		for name, value := range last {
			sql := fmt.Sprintf("select current_setting('%s') = set_config('%s', $$%s$$, false)", name, name, value)
			if got, err := query(s, sql); err != nil || len(got) != 1 || got[0] != "t" {
				t.Errorf("%q: %s is not %q: %v, %v", options, name, value, got, err)
			}
		}
		goodbye(t, s)
	}
}

// TestPassThrough takes a client from psql's log-in at our side, with nothing but
// the verifier that the server stores, to a log-in at the server.
func TestPassThrough(t *testing.T) {
	c := postgres.get(t)
	ctx := deadline(t)
	stored, err := c.SQL(ctx, "postgres", "select '\"' || rolname || '\" \"' || rolpassword || '\"' from pg_authid where rolpassword is not null")
	if err != nil {
		t.Fatal(err)
	}
	users, problems := ParseAuthFile(strings.NewReader(stored))
	if len(problems) > 0 || users["scram_scram"].SCRAM == nil {
		t.Fatal(users, problems)
	}
	f := newFront(t, SCRAM, NewBook(users))
	wait := background(func() error { return f.connect("scram_scram", "right") })
	client, err := f.serve()
	if err := errors.Join(err, wait()); err != nil {
		t.Fatal(err)
	}
	if client.Credentials.Password != "" {
		t.Error("a password out of nowhere")
	}
	s, err := Dial(ctx, target(c, "scram_scram", client.Credentials))
	if err != nil {
		t.Fatal(err)
	}
	goodbye(t, s)
}

// TestPsql lets libpq, which asks for encryption first, log in to us.
func TestPsql(t *testing.T) {
	c := postgres.get(t)
	for _, m := range []Method{Trust, Password, MD5, SCRAM} {
		for user, password := range map[string]string{"plain": "right", "scram": "wrong"} {
			f := newFront(t, m, testBook(t))
			_, port, _ := strings.Cut(f.listener.Addr().String(), ":")
			e := c.Endpoint
			if _, err := fmt.Sscan(port, &e.Port); err != nil {
				t.Fatal(err)
			}
			// An empty script logs in and out.
			wait := background(func() error {
				_, err := e.Psql(deadline(t), pgtest.Login{User: user, Password: password, Database: "db"}, "")
				return err
			})
			_, err := f.serve()
			client := wait()
			if want := password == "right" || m == Trust; (err == nil) != want || (client == nil) != want {
				t.Errorf("%s %s: %v; psql: %v", m, user, err, client)
			}
		}
	}
}

func TestCancelReachesPostgres(t *testing.T) {
	c := postgres.get(t)
	ctx := deadline(t)
	s, err := Dial(ctx, target(c, "trusty", Credentials{}))
	if err != nil {
		t.Fatal(err)
	}
	defer goodbye(t, s)
	wait := background(func() error { _, err := query(s, "select pg_sleep(1000)"); return err })
	running := fmt.Sprintf("select count(*) from pg_stat_activity where pid = %d and wait_event = 'PgSleep'", s.PID)
	for {
		got, err := c.SQL(ctx, "postgres", running)
		if err != nil {
			t.Fatal(err)
		}
		if strings.TrimSpace(got) == "1" {
			break
		}
	}
	wrong := append([]byte(nil), s.Secret...)
	wrong[0] ^= 1
	if err := Cancel(ctx, "tcp", c.Addr(), s.PID, wrong); err != nil {
		t.Error(err)
	}
	if got, err := c.SQL(ctx, "postgres", running); err != nil || strings.TrimSpace(got) != "1" {
		t.Errorf("another secret has cancelled: %q, %v", got, err)
	}
	if err := Cancel(ctx, "tcp", c.Addr(), s.PID, s.Secret); err != nil {
		t.Error(err)
	}
	if err := wait(); err == nil || !strings.Contains(err.Error(), "57014") {
		t.Error(err)
	}
}

// TestFailedLoginsLeaveNothing opens more failing log-ins one after another than the
// server has room for at once: each must be gone when Dial returns.
func TestFailedLoginsLeaveNothing(t *testing.T) {
	c := postgres.get(t)
	ctx := deadline(t)
	before := descriptors(t)
	for range 20 {
		_, err := Dial(ctx, target(c, "narrow", Credentials{}))
		if e, ok := errors.AsType[*wire.Error](err); !ok || e.Code != "53300" {
			t.Fatal(err)
		}
		if got, err := c.SQL(ctx, "postgres", "select count(*) from pg_stat_activity where usename = 'narrow'"); err != nil || strings.TrimSpace(got) != "0" {
			t.Fatalf("%s backends are left, %v", got, err)
		}
	}
	if after := descriptors(t); after > before {
		t.Errorf("%d descriptors, %d before", after, before)
	}
}

// descriptors counts the sockets of this process.
func descriptors(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skip(err)
	}
	n := 0
	for _, f := range list {
		if to, err := os.Readlink("/proc/self/fd/" + f.Name()); err == nil && strings.HasPrefix(to, "socket:") {
			n++
		}
	}
	return n
}

// TestNothingIsReadAhead: what the server sends after ReadyForQuery is still there.
func TestNothingIsReadAhead(t *testing.T) {
	c := postgres.get(t)
	s, err := Dial(deadline(t), target(c, "trusty", Credentials{}))
	if err != nil {
		t.Fatal(err)
	}
	defer goodbye(t, s)
	if _, err := s.Conn.Write(wire.AppendQuery(nil, "select 1")); err != nil {
		t.Fatal(err)
	}
	first, err := bufio.NewReaderSize(s.Conn, 16).ReadByte()
	if err != nil || first != wire.MsgRowDescription {
		t.Errorf("%q, %v", first, err)
	}
	for typ := byte(0); typ != wire.MsgReadyForQuery; { // the rest lies behind
		b := make([]byte, 1)
		if _, err := s.Conn.Read(b); err != nil {
			t.Fatal(err)
		}
		typ = b[0]
	}
}
