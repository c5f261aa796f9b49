package hba

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pgweir/pgweir/integration/pgtest"
)

// asPostgres are lines that Postgres 13 and later read, or refuse, as we do.
const asPostgres = `# comment \
 of two lines
local all all trust
local "all" "+x",+y,"a b",c  peer
local	all,sameuser,samerole,samegroup,replication all	md5 # comment
local all all ident map=m
local all all peer map="m"
local a"b c"d "x""y" trust
local "" all trust
local all all , trust
local a, b, c , d all trust
local a ,b all trust
host all all 127.0.0.1/32 scram-sha-256
host all all 127.0.0.1/0 password
host all all 127.0.0.77/8 reject
host all all 10.1.2.3 255.0.255.0 md5
host all all ::1/128 trust
host all all fe80::/10 trust
host all all fe80:: ffff:: trust
host all all ::ffff:1.2.3.4/96 trust
host all all all trust
host all all samehost trust
host all all samenet trust
hostnossl all all \
  10.0.0.0/8 \
  trust
hostnogssenc all all 10.0.0.0/8 trust
host @dbs @users all trust
host all @none_of_them,x all trust#no blank
host all all 1.2.3.4/32 md5#
hostssl all all all cert
hostssl all all all cert map=m
hostssl all all all md5 clientcert=verify-ca
hostssl all all all trust clientcert=verify-full
hostssl all all all cert clientcert=verify-full clientname=CN
hostssl all all all cert map=m,clientcert=verify-full
hostssl all all all cert clientcert=verify-ca
hostssl all all all md5 clientcert=1
nothost all all all trust
local
local all
local all all
local all all nomethod
local all all cert
host all all all peer
host all all all cert
host all all
host all all 10.0.0.0/33 trust
host all all 10.0.0.0/-1 trust
host all all 10.0.0.0/ trust
host all all 10.0.0.0/8x trust
host all all 1.2.3.4 trust
host all all 1.2.3.4 ::1 trust
host all all 1.2.3.4 255.255.255.255
host all all 1.2.3.4/8,1.2.3.4/9 trust
host,local all all all trust
host all all all md5,trust
host all all all md5 map=m
host all all all md5 nonsense
host all all all md5 nonsense=1
host all all all md5 clientcert=verify-ca
`

// oursAlone are lines that Postgres accepts and we refuse, each for its reason.
const oursAlone = `host all all all ident
host all all all pam
hostgssenc all all all trust
host all all db.internal trust
host all all .internal trust
local all all peer "map=m
hostssl all all all cert clientname=DN
`

// seen is a line as Postgres tells it.
type seen struct {
	Line             int
	Type             string
	Databases, Roles []string
	Address, Mask    string
	Method, Error    string
	Options          []string
}

// noSSL is what Postgres says of a rule that it has understood, where it has no certificate.
const noSSL = "hostssl record cannot match because SSL is disabled"

// TestPostgresReadsTheSameRules compares with pg_hba_file_rules of a real server.
func TestPostgresReadsTheSameRules(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	c, err := pgtest.Start(ctx, pgtest.Options{HBA: []string{"local all all trust"}})
	if errors.Is(err, pgtest.ErrNoPostgres) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	}()
	path := filepath.Join(c.DataDir, "pg_hba.conf")
	write := func(name, text string) {
		t.Helper()
		name = filepath.Join(c.DataDir, name)
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(name, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("dbs", "one \"two 2\" # three\nfour,\n@more")
	write("more", "five\n")
	write("users", "u1\nu2, \"u 3\"")
	write("none_of_them", "# nobody\n")
	for name, text := range map[string]string{"alike": asPostgres, "ours": oursAlone} {
		write("pg_hba.conf", text)
		out, err := c.SQL(ctx, "postgres", `select json_build_object('line', line_number, 'type', type, 'databases', database, 'roles', user_name,
 'address', address, 'mask', netmask, 'method', auth_method, 'options', options, 'error', error) from pg_hba_file_rules order by line_number;`)
		if err != nil {
			t.Fatal(err)
		}
		theirs := make(map[int]seen)
		for row := range strings.Lines(out) {
			if row = strings.TrimSpace(row); row == "" {
				continue
			}
			var s seen
			if err := json.Unmarshal([]byte(row), &s); err != nil {
				t.Fatal(err, row)
			}
			if s.Error == noSSL && s.Type != "" {
				s.Error = ""
			}
			theirs[s.Line] = s
		}
		if name == "ours" {
			for number, s := range theirs {
				if s.Error != "" {
					t.Errorf("Postgres does not accept line %d of oursAlone either: %s", number, s.Error)
				}
			}
		}
		compareRules(t, path, theirs, name == "ours", strings.Split(text, "\n"))
	}
}

func compareRules(t *testing.T, path string, theirs map[int]seen, refused bool, text []string) {
	t.Helper()
	maps, _ := loadMaps(files{"/m": "m a b"}, "/m")
	l := load(local{}, path)
	for _, bad := range l.problems {
		if !refused || theirs[bad.Line].Error != "" {
			t.Error(bad)
		}
		delete(theirs, bad.Line)
	}
	for i := range l.lines {
		r, bad := parseRule(&l.lines[i])
		if bad == nil && r.Map != "" && !maps.Has(r.Map) {
			t.Error(r.Map)
		}
		number, _ := l.lines[i].where()
		s, ok := theirs[number]
		delete(theirs, number)
		line := text[number-1]
		switch {
		case !ok:
			t.Errorf("line %d, %s: Postgres has no such rule", number, line)
		case refused:
			if bad == nil {
				t.Errorf("line %d, %s: taken", number, line)
			}
		case (bad == nil) != (s.Error == ""):
			t.Errorf("line %d, %s:\n ours %v\n Postgres's %s", number, line, bad, s.Error)
		case bad == nil:
			x := r.Text()
			method := s.Method
			if method == "ident" {
				method = "peer"
			}
			got := seen{number, x.Type, x.Databases, x.Roles, x.Address, x.Netmask, string(r.Method), "", x.Options}
			want := seen{number, s.Type, s.Databases, s.Roles, s.Address, s.Mask, method, "", s.Options}
			if d := cmp.Diff(want, got); d != "" {
				t.Errorf("line %d, %s (- Postgres, + ours):\n%s", number, line, d)
			}
		}
	}
	for number, s := range theirs {
		t.Errorf("line %d, %s: Postgres has %+v, we have nothing", number, text[number-1], s)
	}
}
